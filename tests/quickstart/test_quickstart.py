"""The quickstart, whole, on a part of its collection without a training."""

import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from helpers.refusals import refused
from helpers.small_bert import build_bert
from isotrope.cli.main import main
from isotrope.encoder import load
from isotrope.encoder.length import limit_length
from isotrope.quickstart import run as module
from isotrope.quickstart.page import quickstart_page
from isotrope.quickstart.questions import FIRST, MRR, READ, WHITENED
from isotrope.quickstart.run import IMPROVED, PLAN
from isotrope.report.outcome import Outcome

PAGES = module.shipped_pages()[:120]
BETTER = "improve ./good"


@pytest.fixture(scope="module", autouse=True)
def _small_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Random ones take the places of those that ship, which take thirty times as long."""
    folder = tmp_path_factory.mktemp("models")
    build_bert(folder / "raw")
    load(build_bert(folder / "bert", hidden=48), "mean", device="cpu").save_pretrained(
        str(folder / "good")
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(module, "GOOD", "./good")
        patch.setattr(module, "THREADS", 1)  # two wait for each other while other tests run
        yield


def run(output: Path | None, **options: Any) -> Outcome:
    size = {"choosing": 24, "judging": 36, "fitting": 60}
    improving = {
        **PLAN["improve"],
        "candidates": PLAN["improve"]["candidates"][:2],
        **size,
    }
    plan = {"steps": 2, "improve": improving, "good": {**PLAN["good"], **size}}
    given = {"model": "./raw", "plan": plan, "collection": PAGES, "console": Console(quiet=True)}
    return module.quickstart(output, **given, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return run(tmp_path_factory.mktemp("quick") / "start")


def test_the_collection_ships_with_its_licence() -> None:
    found = module.shipped_pages()
    asked = [page["asked"] for page in found if page["asked"]]
    assert (len(found), len(asked)) == (3600, 712)
    assert not any(page["asked"] in page["text"] for page in found if page["asked"]), (
        "a question is not in its page"
    )
    folder = Path(module.__file__).parent
    assert "CC BY 4.0" in (folder / "README.md").read_text()
    assert (folder / "tldr.jsonl.xz").stat().st_size < 3e6


def test_every_model_is_judged_by_the_questions(finished: Outcome) -> None:
    record = json.loads((finished.folder / "result.json").read_text())
    asked = [page["asked"] for page in PAGES if page["asked"]]
    right = np.array([place for place, page in enumerate(PAGES) if page["asked"]])
    names = [
        "./raw",
        "./raw, pooling first_last",
        "SimCSE",
        "RankCSE",
        IMPROVED,
        module.GOOD,
        BETTER,
    ]
    assert list(record["table"]) == names
    taught = load(finished.folder / "rankcse-listnet" / "model")
    models = {"./raw": load("./raw"), "RankCSE": taught, BETTER: finished.model}
    for name, model in models.items():
        row = record["table"][name]
        with limit_length(model, READ):
            queries = model.encode_query(asked)
            pages = model.encode_document([f"{page['title']} {page['text']}" for page in PAGES])
        cosines = model.similarity(queries, pages).numpy()
        places = 1 + (cosines > cosines[np.arange(len(right)), right][:, None]).sum(axis=1)
        assert row[MRR] == pytest.approx(np.mean(np.where(places <= 10, 1 / places, 0)), abs=0.01)
        assert row[FIRST] == pytest.approx(np.mean(places == 1), abs=0.02)
        assert (WHITENED in row) == (name != BETTER)
    verdict = finished.verdict
    assert verdict.scores == pytest.approx(
        [record["table"][name][MRR] for name in (module.GOOD, BETTER)]
    )
    assert verdict.judge == f"{len(right)} questions that no candidate has seen"


def test_no_question_is_learnt_from_and_the_report_shows_all_models(finished: Outcome) -> None:
    rows = [
        json.loads(line) for line in (finished.folder / "documents.jsonl").read_text().splitlines()
    ]
    assert rows == [{"title": page["title"], "text": page["text"]} for page in PAGES], (
        "no question, no name"
    )
    page = (finished.folder / "report.html").read_text()
    assert page == quickstart_page(finished.record).html()
    for words in ("soft whitening", FIRST, "RankCSE"):
        assert words in page


def test_the_same_call_gives_the_same_result_and_makes_a_deleted_model_again(
    finished: Outcome, tmp_path: Path
) -> None:
    assert run(finished.folder).record["seconds"] == finished.record["seconds"]
    with refused("begun-differently", "seed = 0, not 1"):
        run(finished.folder, seed=1)
    folder = tmp_path / "start"
    shutil.copytree(finished.folder, folder)
    shutil.rmtree(folder / "model")
    assert run(folder).record["table"] == finished.record["table"]
    assert (folder / "model" / "modules.json").is_file()


def test_the_command_shows_the_verdict_and_what_to_type_next(
    finished: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("isotrope.quickstart.run.quickstart", lambda *_, **__: finished)
    monkeypatch.setattr("sys.argv", ["isotrope", "quickstart"])
    with suppress(SystemExit):
        main()
    shown = capsys.readouterr().out
    for words in (
        "MRR@10",
        "verdict: ",
        FIRST,
        "no candidate has seen",
        "isotrope improve YOUR-MODEL",
        "report.html",
    ):
        assert words in " ".join(shown.split())
    assert max(map(len, shown.replace(str(finished.folder), "").splitlines())) <= 100
