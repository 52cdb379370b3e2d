"""The page of a run: whole, self-contained, traced to the run's numbers, safe with any text."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import isotrope
from conftest import sentences
from isotrope.cli.main import app
from isotrope.errors import UserError
from isotrope.evaluation.geometry import alignment, by_gold_band, uniformity
from isotrope.report import figures
from isotrope.report.figures import PAPERS
from isotrope.training.page import write_report
from isotrope.training.record import RunRecord

HOSTILE = "<script>alert('corpus')</script> & $\\frac{1}$ the river"


EVERY = {"loss", "dev", "path", "cosines", "in-batch", "spectrum"}


class Page(HTMLParser):
    """Tags, links and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.figures: list[str] = []
        self.words: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.links += [v for k, v in attrs if v and k in {"src", "href", "xlink:href", "action", "data", "srcset"}]
        if tag == "figure":
            self.figures.append(found["id"] or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def finished(tiny_model: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a corpus with hostile sentences, its pairs' name hostile too."""
    folder = tmp_path_factory.mktemp("report")
    corpus = folder / "corpus.txt"
    corpus.write_text("\n".join([f"{HOSTILE} {text}" for text in sentences(64)]) + "\n", encoding="utf-8")
    pairs = folder / "<b>$pairs.tsv"
    shutil.copy(pairs_file, pairs)
    isotrope.train(
        corpus, model=str(tiny_model), output=folder / "run", dev=str(pairs),
        overrides=[
            "train.batch_size=16", "train.eval_steps=2", "train.learning_rate=1e-3", "encoder.pooling=mean",
            "train.max_length=60",  # more than the hostile words, or all texts would be equal
        ],
    )  # fmt: skip
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


def test_a_finished_run_has_every_figure_on_the_page_and_as_files(finished: Path, page: Page) -> None:
    assert set(page.figures) == EVERY
    for name in EVERY:
        assert ET.parse(finished / "report" / f"{name}.svg").getroot().tag.endswith("svg")
        assert (finished / "report" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "Nearest neighbours" in page.text
    assert "Not shown" not in page.text


def test_the_head_says_what_the_result_says(finished: Path, page: Page) -> None:
    result, text = json.loads((finished / "result.json").read_text()), page.text
    c = result["comparison"]
    for value in (c["before"], c["after"]):
        assert f"{100 * value:.2f}" in text
    signed = (f"{100 * c[key]:+.2f}".replace("-", "−") for key in ("difference", "low", "high"))
    assert "{} (95 % interval {} to {})".format(*signed) in text
    assert f"kept step {result['selection']['best_step']} of 4" in text
    assert 'encoder.pooling "mean" set for this run' in text
    assert "terms.infonce.temperature 0.05 SimCSE Sec. 3, Appendix A" in text


def test_the_page_needs_nothing_from_outside_and_runs_nothing(page: Page) -> None:
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert {link for link in page.links if not link.startswith("#")} <= set(PAPERS.values())
    assert not re.search(r"@import|url\((?!#)|\son\w+=", re.sub(r">[^<]*<", "><", page.source))
    ids = re.findall(r'\bid="([^"]+)"', page.source)
    assert len(ids) == len(set(ids)), "figures of one page share no id"
    referred = set(re.findall(r'(?:url\(#|href="#)([^")]+)', page.source))
    assert referred <= set(ids)


def test_hostile_text_is_text(page: Page) -> None:
    assert HOSTILE in page.text, "the sentence is shown as it is"
    assert "<b>$pairs" in page.text
    assert "<script" not in page.source
    assert "<b>" not in page.source


def test_the_same_run_gives_the_same_page(finished: Path, page: Page, tmp_path: Path) -> None:
    assert write_report(finished, tmp_path / "elsewhere" / "page.html").read_text(encoding="utf-8") == page.source
    assert {path.stem for path in (tmp_path / "elsewhere" / "page").glob("[!.]*")} == EVERY


def test_histograms_count_every_judging_pair_once(finished: Path, page: Page) -> None:
    record = RunRecord.read(finished)
    (task,) = record.gold
    pairs = json.loads((finished / "result.json").read_text())["after"][task]["nsamples"]
    bands = by_gold_band(record.gold[task], {time: found[task] for time, found in record.cosines.items()})
    assert [label for label, _ in bands] == ["0–1", "1–2", "2–3", "3–4", "4–5"]
    for time in ("before", "after"):
        edges = figures.cosine_edges(*(times[time] for _, times in bands))
        assert sum(figures.histogram(times[time], edges).sum() for _, times in bands) == pairs
    svg = (finished / "report" / "cosines.svg").read_text()
    assert sum(map(int, re.findall(r"n = (\d+)", svg))) == pairs


def test_the_log_holds_the_space_of_the_dev_sentences(finished: Path, pairs_file: Path) -> None:
    """Alignment and uniformity of the kept step are those of the saved model on the selecting half."""
    from isotrope.evaluation.sets.labels import read_pairs
    from isotrope.training.pairs import judges

    _, kept = judges(None, {"pairs": read_pairs(pairs_file)}, None)
    pairs, model = kept["pairs"], isotrope.load(finished / "model", device="cpu")
    record = RunRecord.read(finished)
    entry = next(e for e in record.metrics if "score" in e and e["step"] == record.kept_step)
    close = np.flatnonzero(pairs.gold > 0.8 * pairs.gold.max())
    first, second = (model.encode([side[i] for i in close]) for side in (pairs.first, pairs.second))
    assert entry["alignment"] == pytest.approx(alignment(first, second), abs=1e-5)
    everything = list(dict.fromkeys([*pairs.first, *pairs.second]))
    assert entry["uniformity"] == pytest.approx(uniformity(model.encode(everything)), abs=1e-4)


def test_an_unfinished_run_shows_what_there_is(run: Path) -> None:
    for name in ("result.json", "after.npz"):
        (run / name).unlink()
    shutil.rmtree(run / "model")
    with (run / "metrics.jsonl").open("a") as log:
        log.write('{"step": 99, "lo')  # as a kill leaves it
    page = Page(write_report(run))
    assert set(page.figures) == EVERY
    assert "unfinished" in page.text
    assert "the run is unfinished, so there is no new model yet" in page.text
    assert "after: mean" not in page.text
    assert "before: mean" in page.text


def test_a_run_that_has_only_begun_has_a_page(run: Path) -> None:
    for path in run.iterdir():
        if path.name not in {"job.json", "preset.toml"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    page = Page(write_report(run))
    assert page.figures == []
    assert "last record step 0" in page.text


def test_a_missing_backbone_is_told(run: Path, tiny_model: Path) -> None:
    preset = run / "preset.toml"
    preset.write_text(preset.read_text().replace(str(tiny_model), "./gone"))
    page = Page(write_report(run))
    assert "the backbone cannot be used any more (./gone does not exist" in page.text
    assert "after: mean" in page.text
    assert "before: mean" not in page.text
    assert set(page.figures) == EVERY


def test_several_terms_sets_and_tasks_are_drawn_apart(run: Path) -> None:
    """As a run with two terms, two dev sets and two judging sets would leave it."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        record.update({"rank": 0.5} if "loss" in record else {"sickr": 0.1, "stsb": 0.3})
        record.pop("<b>$pairs", None)
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    result = json.loads((run / "result.json").read_text())
    task = next(iter(result["comparison"]["per_task"].values()))
    result["comparison"]["per_task"] = {"STSBenchmark": task, "STS12": task}
    (run / "result.json").write_text(json.dumps(result))
    record = RunRecord.read(run)
    assert set(record.losses()) == {"loss", "infonce", "rank"}
    assert set(record.dev_scores()) == {"mean", "sickr", "stsb"}
    assert record.dev_scores()["sickr"][1] == pytest.approx([10.0] * 2)
    page = Page(write_report(run))
    assert set(page.figures) == {*EVERY, "changes"}
    assert "STS-B" in page.text


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda run: (run / "job.json").unlink(), "holds no run"),
        (lambda run: (run / "result.json").write_text("{"), "result.json is damaged"),
        (lambda run: (run / "before.npz").write_bytes((run / "before.npz").read_bytes()[:99]), "before.npz is damaged"),
        (lambda run: (run / "before.npz").write_text("no zip"), "before.npz is damaged"),
    ],
)
def test_a_folder_that_is_no_whole_run_is_refused(run: Path, spoil: object, message: str) -> None:
    spoil(run)  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        write_report(run)
    assert not (run / "report.html").exists()


def test_a_page_that_cannot_be_written_is_refused(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for output in (tmp_path / "file" / "page.html", tmp_path / "page.txt", tmp_path / "file.html"):
        with pytest.raises(UserError):
            write_report(run, output)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "run"]


def test_the_command_line(finished: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(finished), "--output", str(tmp_path / "page.html")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "page.html").is_file()
    assert isinstance(CliRunner().invoke(app, ["report", str(tmp_path)]).exception, UserError)


def test_a_report_that_fails_does_not_fail_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from isotrope.cli.train import show_report

    show_report(run)
    assert (run / "report.html").is_file()
    (run / "before.npz").write_text("no zip")
    show_report(run)
    assert "the run itself is complete" in capsys.readouterr().out


@pytest.mark.slow
def test_a_browser_shows_it(finished: Path, page: Page, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here")
    picture = tmp_path / "page.png"
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    quiet += ["--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'user'}"]
    command = [
        browser,
        *quiet,
        "--window-size=1100,2000",
        f"--screenshot={picture}",
        (finished / "report.html").as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert picture.stat().st_size > 50_000, "an empty page compresses to less"


def test_a_damaged_log_is_read_up_to_the_damage(run: Path) -> None:
    whole = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(whole.splitlines()[0] + '\n{x}\n"no record"\n{"score": 1}\n')
    assert "last record" not in Page(write_report(run)).text
    (run / "metrics.jsonl").write_text('{"loss": 1}\n' + whole)
    assert set(Page(write_report(run)).figures) == EVERY


def test_a_name_that_is_not_utf_8_is_shown_escaped(run: Path, tmp_path: Path) -> None:
    named = run.with_name(os.fsdecode(b"[x] \xff"))
    run.rename(named)
    assert "[x] \\udcff" in Page(write_report(named, tmp_path / "page.html")).text


def test_figures_are_not_written_into_a_folder_that_is_not_ours(run: Path, tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "loss.svg").write_text("mine")
    with pytest.raises(UserError, match="holds no report"):
        write_report(run, tmp_path / "page.html")
    assert (tmp_path / "page" / "loss.svg").read_text() == "mine"
    assert not (tmp_path / "page.html").exists()


def test_a_full_disk_leaves_the_old_page(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "report.html").write_text("yesterday's")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("isotrope.store.atomic.os.fsync", full)
    with pytest.raises(UserError, match="no space left to write"):
        write_report(run)
    assert (run / "report.html").read_text() == "yesterday's"
