"""The page of a run: whole, self-contained, traced to the run's numbers, safe with any text."""

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

import isotrope
from helpers.refusals import refused
from helpers.words import sentences
from isotrope.training.page import RANKCSE_FIGURE, write_report

HOSTILE = "<script>alert('corpus')</script> & $\\frac{1}$ the river"


EVERY = {"loss", "dev", "cosines"}


class Page:
    """Tags, links, figures and text of a page."""

    def __init__(self, path: Path) -> None:
        self.source = path.read_text(encoding="utf-8")
        self.tags = set(re.findall(r"<(\w+)", self.source))
        self.links = set(re.findall(r'\b(?:src|href|action|data|srcset)="([^"]+)"', self.source))
        self.figures = set(re.findall(r'<figure[^>]* id="([^"]+)"', self.source))
        self.text = " ".join(unescape(re.sub(r"<[^>]+>", " ", self.source)).split())


@pytest.fixture(scope="module")
def finished(tiny_model: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a corpus with hostile sentences, its pairs' name hostile too."""
    folder = tmp_path_factory.mktemp("report")
    corpus = folder / "corpus.txt"
    corpus.write_text(
        "\n".join([f"{HOSTILE} {text}" for text in sentences(64)]) + "\n", encoding="utf-8"
    )
    pairs = folder / "<b>$pairs.tsv"
    shutil.copy(pairs_file, pairs)
    isotrope.train(
        corpus,
        model=str(tiny_model),
        output=folder / "run",
        dev=str(pairs),
        overrides=[
            "train.batch_size=16",
            "train.eval_steps=2",
            "train.learning_rate=1e-3",
            "encoder.pooling=mean",
            "train.max_length=60",  # more than the hostile words, or all texts would be equal
        ],
    )
    return folder / "run"


@pytest.fixture(scope="module")
def page(finished: Path) -> Page:
    """The finished run's page."""
    path = write_report(finished)
    assert path == finished / "report.html"
    return Page(path)


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    copy = tmp_path / "run"
    shutil.copytree(finished, copy, ignore=shutil.ignore_patterns("checkpoints", "report*"))
    return copy


def test_a_finished_run_has_every_figure_on_the_page(page: Page) -> None:
    assert page.figures == EVERY
    assert "Not shown" not in page.text


def test_the_head_says_what_the_result_says(finished: Path, page: Page) -> None:
    result, text = json.loads((finished / "result.json").read_text()), page.text
    c = result["comparison"]
    for value in (c["before"], c["after"]):
        assert f"{100 * value:.2f}" in text
    signed = (f"{100 * c[key]:+.2f}".replace("-", "−") for key in ("difference", "low", "high"))
    assert "{} (95 % interval {} to {})".format(*signed) in text
    assert f"kept step {result['selection']['best_step']} of 4" in text


def test_the_page_needs_nothing_from_outside_and_runs_nothing(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed"} & page.tags
    assert {link for link in page.links if not link.startswith("#")} <= {RANKCSE_FIGURE[1]}
    assert not re.search(r"@import|url\((?!#)|\son\w+=", re.sub(r">[^<]*<", "><", page.source))
    ids = re.findall(r'\bid="([^"]+)"', page.source)
    assert len(ids) == len(set(ids)), "figures of one page share no id"
    referred = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page.source))
    assert referred <= set(ids)


def test_hostile_text_is_text(page: Page) -> None:
    assert "<b>$pairs" in page.text
    assert "<script" not in page.source
    assert "<b>" not in page.source


def test_an_unfinished_run_shows_what_there_is(run: Path) -> None:
    for name in ("result.json", "after.npz"):
        (run / name).unlink()
    shutil.rmtree(run / "model")
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"step": 99, "lo')  # as a kill leaves it
    page = Page(write_report(run))
    assert page.figures == EVERY
    assert "unfinished" in page.text


def test_a_missing_backbone_is_no_hindrance(run: Path, tiny_model: Path) -> None:
    preset = run / "preset.toml"
    preset.write_text(preset.read_text().replace(str(tiny_model), "./gone"))
    assert Page(write_report(run)).figures == EVERY


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "job.json").unlink(), "no-run"),
        (lambda run: (run / "result.json").write_text("{"), "damaged-record"),
        (lambda run: (run / "before.npz").write_text("no zip"), "damaged-cosines"),
    ],
)
def test_a_folder_that_is_no_whole_run_is_refused(run: Path, spoil: object, message: str) -> None:
    spoil(run)  # type: ignore[operator]
    with refused(message):
        write_report(run)
    assert not (run / "report.html").exists()


def test_a_report_that_fails_does_not_fail_the_run(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from isotrope.cli.show import draw_report

    (run / "before.npz").write_text("no zip")
    draw_report(run)
    assert "the run itself is complete" in capsys.readouterr().out
