"""improve, whole, on a small model and a small library: it chooses, saves, stops, goes on and refuses."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

import isotrope
from isotrope.encoder import load
from isotrope.errors import Stopped, UserError
from isotrope.improvement import race as racing
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.improve import PAGE, RESULT, _Improvement, improve
from isotrope.improvement.race import Race
from library import write_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("library") / "library.jsonl")


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of a few steps."""
    monkeypatch.setattr(racing, "FEWEST_PAIRS", 64)
    monkeypatch.setattr(racing, "MOST_ROUNDS", 2)


def quiet() -> Console:
    return Console(quiet=True)


@pytest.mark.usefixtures("_short")
def test_the_best_candidate_is_a_plain_model_with_its_evidence(
    tiny_model: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[CLS] of a random model says little of the words, their mean says much."""
    monkeypatch.setattr("isotrope.improvement.candidates.RAW_POOLINGS", ("cls", "mean"))
    found = improve(tiny_model, library, output=tmp_path / "out", minutes=2, console=quiet())
    assert found.choice != AS_IS
    assert {"keep", "soft whitening", "pooling mean"} < found.table.keys()
    assert any("crops" in name for name in found.table), "something was trained"
    assert found.gains[found.choice].p <= 0.05
    model = SentenceTransformer(str(found.model), device="cpu")
    assert model.encode(["the king of the island"]).shape[1] > 0
    card = (found.model / "README.md").read_text()
    assert "isotrope improve" in card
    page = (found.folder / PAGE).read_text()
    assert all(name in page for name in ("pooling mean", "title → body", found.choice))
    (found.folder / PAGE).unlink()
    again = improve(tiny_model, library, output=tmp_path / "out", minutes=2, console=quiet())
    assert (found.folder / PAGE).read_text() == page, "a page that was deleted is written again"
    assert again.record == found.record, "a finished race is not run again"
    with pytest.raises(UserError, match=r"was begun with minutes = 2\.0, not 3\.0"):
        improve(tiny_model, library, output=tmp_path / "out", minutes=3, console=quiet())


def test_keep_is_the_model_as_it_was(
    tiny_model: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Race, "trainings", lambda *_: None)
    monkeypatch.setattr("isotrope.improvement.improve.choose_candidate", lambda *_, **__: (AS_IS, {}))
    found = isotrope.improve(tiny_model, library, output=tmp_path / "out", minutes=1, console=quiet())
    assert found.choice == "keep"
    np.testing.assert_allclose(
        load(found.model).encode(["a red bird"]), load(tiny_model).encode(["a red bird"]), atol=1e-6
    )
    assert found.record["similarity"] is None


@pytest.mark.usefixtures("_short")
def test_ctrl_c_leaves_the_best_so_far_and_the_same_call_goes_on(
    tiny_model: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Race, "trainings", stop)
        with pytest.raises(Stopped, match="the best so far"):
            improve(tiny_model, library, output=tmp_path / "out", minutes=2, console=quiet())
    record = json.loads((tmp_path / "out" / RESULT).read_text())
    assert not record["finished"]
    assert (tmp_path / "out" / "model" / "modules.json").is_file()
    before = set(record["table"])
    found = improve(tiny_model, library, output=tmp_path / "out", minutes=2, console=quiet())
    assert found.record["finished"]
    assert before < found.table.keys()


def test_ones_own_judgements_judge_alone(
    tiny_model: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Race, "trainings", lambda *_: None)
    own = tmp_path / "own.tsv"
    own.write_text(
        "".join(f"{'king queen' if i % 2 else 'sea lake'} of year {'day ' * i}\t{i % 2}\n" for i in range(12))
    )
    found = improve(tiny_model, library, output=tmp_path / "out", minutes=1, domain=own, console=quiet())
    assert list(found.table["keep"]) == ["own"]


BAD: dict[str, tuple[Any, str]] = {
    "no minutes": (lambda folder: {"minutes": 0}, "minutes = 0"),
    "one document": (lambda folder: {"documents": one(folder, 1)}, "document"),
    "few documents": (lambda folder: {"documents": one(folder, 30)}, "30 documents are too few: about 100 are needed"),
    "the output among the documents": (lambda folder: {"documents": folder}, "lies in the corpus folder"),
    "no such pooling": (lambda _: {"pooling": "nope"}, "pooling = 'nope' is unknown"),
    "no time": (lambda _: {"minutes": 1e-9}, "is too short: the model reads"),
    "nothing to read": (lambda folder: {"documents": folder / "empty"}, "holds no corpus file"),
    "copies": (lambda folder: {"documents": copies(folder)}, "a single document is left"),
}


def one(folder: Path, count: int) -> Path:
    return write_library(folder / "few.jsonl", count)


def copies(folder: Path) -> Path:
    (folder / "copies.jsonl").write_text(1000 * (json.dumps({"title": "a", "text": "b c d e"}) + "\n"))
    return folder / "copies.jsonl"


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_said_in_one_line(tiny_model: Path, library: Path, tmp_path: Path, case: str) -> None:
    make, said = BAD[case]
    (tmp_path / "empty").mkdir()
    asked = {"documents": library, "minutes": 1, **make(tmp_path)}
    with pytest.raises(UserError, match=said) as caught:
        improve(tiny_model, asked.pop("documents"), output=tmp_path / "out", console=quiet(), **asked)
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert not list((tmp_path / "out").glob("*")), "the same folder can be named again"


def test_a_wrong_name_of_a_model_is_told_before_the_documents_are_read(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr("isotrope.improvement.improve.open_documents", lambda *_, **__: read.append(1))
    with pytest.raises(UserError, match="hub/unknown-model is neither a folder here nor a model that the hub gave"):
        improve("hub/unknown-model", library, output=tmp_path / "out", console=quiet())
    assert not read
    assert not list((tmp_path / "out").glob("*"))


def test_a_folder_that_is_not_ours_is_left_alone(tiny_model: Path, library: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        improve(tiny_model, library, output=tmp_path, minutes=1, console=quiet())
    assert (tmp_path / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize("bare", [True, False])
def test_a_named_pooling_does_not_make_a_model_raw(bare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The high rates of a raw language model would spoil a sentence model."""
    told: list[bool] = []
    monkeypatch.setattr("isotrope.improvement.improve.is_bare", lambda model: bare)
    monkeypatch.setattr("isotrope.improvement.improve.recipes", lambda raw, *_: told.append(raw))
    monkeypatch.setattr(_Improvement, "_keep_back", lambda *_: None)
    work: Any = object.__new__(_Improvement)
    work.model, work.pooling = "a model", "mean"
    race: Any = SimpleNamespace(poolings=lambda names: names[0], made={}, scores={}, trainings=lambda *_: None)
    judges: Any = SimpleNamespace(titled=True, short=False)
    work._run(race, judges, ["mean"])
    assert told == [bare]
