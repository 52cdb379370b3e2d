"""improve, whole, on a small model and a small library: it chooses, saves, stops, goes on and
refuses.
"""

import json
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

import isotrope
from helpers.commands import in_process
from helpers.library import write_library
from helpers.races import judge_general_english_by_few_pairs, train_two_candidates
from helpers.refusals import refused
from isotrope.encoder import load, save
from isotrope.errors import Stopped, UserError
from isotrope.improvement import candidates
from isotrope.improvement.candidates import RANKINGS
from isotrope.improvement.improve import Improvement, improve
from isotrope.improvement.scores import KEEP
from isotrope.report.outcome import REPORT

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def raced(
    tiny_model: Path, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Improvement]:
    """A finished race with trainings: [CLS] of a random model says little of the words, their mean
    says much.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("isotrope.improvement.candidates.RAW_POOLINGS", ("cls", "mean"))
        judge_general_english_by_few_pairs(patch)
        train_two_candidates(patch)
        folder = tmp_path_factory.mktemp("raced") / "out"
        yield improve(tiny_model, library, output=folder, minutes=2, console=QUIET)


def test_the_best_candidate_is_better_by_documents_of_ones_own(raced: Improvement) -> None:
    assert raced.choice != KEEP
    assert (raced.verdict.word, raced.verdict.judge) == ("better", "47 of your own documents")
    assert raced.verdict.low > 0


def test_the_table_has_every_candidate(raced: Improvement) -> None:
    scores = raced.record["table"]
    assert {"keep", "soft whitening", "pooling mean"} < set(scores)
    assert any("crops" in name for name in scores), "something was trained"
    assert float(raced.table.loc["keep", "title → body"]) == scores["keep"]["title → body"]


def test_how_many_find_their_document_first_is_told(raced: Improvement) -> None:
    searched = raced.record["searched"]
    assert searched["queries"] == 47
    assert searched["first"][0] <= searched["first"][1], "as the scores say"


def test_the_result_is_saved_as_a_plain_model(raced: Improvement, tmp_path: Path) -> None:
    saved = raced.save(tmp_path / "saved")
    np.testing.assert_allclose(
        SentenceTransformer(str(saved), device="cpu").encode(["the king"]),
        raced.model.encode(["the king"]),
        atol=1e-6,
    )
    assert "isotrope improve" in (saved / "README.md").read_text()


def test_the_page_shows_the_choice(raced: Improvement, tmp_path: Path) -> None:
    page = (raced.folder / REPORT).read_text()
    assert all(name in page for name in ("pooling mean", "title → body", raced.choice))
    assert raced.report(tmp_path / "page.html").read_text() == page


def test_a_finished_race_is_only_read(raced: Improvement, tiny_model: Path, library: Path) -> None:
    again = improve(tiny_model, library, output=raced.folder, minutes=2, console=QUIET)
    assert again.record == raced.record
    with refused("begun-differently", "minutes = 2.0, not 3.0"):
        improve(tiny_model, library, output=raced.folder, minutes=3, console=QUIET)


def test_a_plan_whose_trainings_do_not_exist_is_refused(
    raced: Improvement, tiny_model: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotrope.improvement.prepare.recipes_for", lambda *_: [])
    with refused("plan-does-not-fit"):
        improve(tiny_model, library, plan=raced.folder, console=QUIET)


@dataclass(frozen=True)
class QuickRace:
    """A finished race without trainings."""

    result: Improvement
    openings: int  # of the file of documents


@pytest.fixture(scope="module")
def quick(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[QuickRace]:
    folder = tmp_path_factory.mktemp("quick")
    documents = write_library(folder / "library.jsonl")
    with pytest.MonkeyPatch.context() as patch, opened_files() as times:
        judge_general_english_by_few_pairs(patch)
        patch.setattr("isotrope.improvement.prepare.recipes_for", lambda *_: [])
        result = improve(whole, documents, output=folder / "out", minutes=1, console=QUIET)
        yield QuickRace(result, times[str(documents)])


def test_each_file_of_documents_is_opened_once(quick: QuickRace) -> None:
    assert quick.openings == 1


@pytest.mark.usefixtures("untrained")
def test_a_plan_repeats_the_same_work(quick: QuickRace, whole: Path, library: Path) -> None:
    """The rankings of another model are repeated too: see `test_a_better_model_teaches_rankings`."""
    again = improve(whole, library, plan=quick.result.folder, console=QUIET)
    assert (again.choice, again.record["table"]) == (
        quick.result.choice,
        quick.result.record["table"],
    )


@pytest.mark.usefixtures("untrained")
def test_objects_give_what_files_give(quick: QuickRace, whole: Path, library: Path) -> None:
    """A loaded model and its folder; a DataFrame and its file."""
    rows = pandas.DataFrame(map(json.loads, library.read_text().splitlines()))
    found = improve(load(whole), rows, minutes=1, console=QUIET)
    assert found.record["table"] == quick.result.record["table"]


@pytest.mark.usefixtures("untrained")
def test_keep_is_the_model_as_it_was(
    whole: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotrope.improvement.race.choose_finalists", lambda *_: [])
    texts = [json.loads(line)["text"] for line in library.read_text().splitlines()]
    found = isotrope.improve(whole, texts, minutes=1, console=QUIET)
    assert found.choice == "keep"
    np.testing.assert_allclose(
        found.model.encode(["a red bird"]), load(whole).encode(["a red bird"]), atol=1e-6
    )
    assert found.record["similarity"] is None


@pytest.mark.usefixtures("untrained")
def test_of_several_models_the_best_is_found(
    tiny_model: Path, whole: Path, library: Path, tmp_path: Path
) -> None:
    """The mean of a random model's words says much, its [CLS] little. The verdict compares with the
    model as given.
    """
    save(load(tiny_model, "cls"), cls := tmp_path / "cls")
    with refused("model-given-twice", "cls"):
        improve(cls, library, other_models=[cls, cls], console=QUIET)
    found = improve(cls, library, other_models=[load(whole)], minutes=2, console=QUIET)
    (name,) = {made["encoder"]["start"] for made in found.record["made"].values()} - {""}
    assert name in found.record["table"]
    assert found.record["made"][found.choice]["encoder"]["start"] == name
    assert (found.verdict.word, found.verdict.before) == ("better", "cls")
    expected = load(whole) if found.choice == name else found.model
    np.testing.assert_array_equal(found.model.encode(["the king"]), expected.encode(["the king"]))


@pytest.mark.usefixtures("short")
def test_a_better_model_teaches_rankings(
    tiny_model: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no candidate, but the encoder learns from it, for queries only. A plan repeats this.

    The folders of both models have one name, so the teacher's has its parent's name too.
    """
    monkeypatch.setattr("isotrope.improvement.plan.FEWEST_PAIRS_OF_ONE", 64)
    rankings = candidates.Recipe(RANKINGS, "")
    monkeypatch.setattr("isotrope.improvement.prepare.recipes_for", lambda *_: [rankings])
    for pooling in ("cls", "mean"):
        save(load(tiny_model, pooling), tmp_path / pooling / "model")
    teacher = "mean/model"
    given = {"documents": library, "teachers": [tmp_path / teacher], "console": QUIET}
    found = improve(tmp_path / "cls" / "model", minutes=2, **given)
    record = found.record
    assert teacher in record["taught_by"]
    assert record["teachers"][teacher] > record["table"]["keep"]["title → body"] / 2
    assert not any(name.startswith(teacher) for name in record["table"])
    trained = [made for made in record["made"].values() if made["encoder"]["recipe"] == RANKINGS]
    assert trained
    assert all(made["step"] == "" for made in trained)
    assert (
        "model learned rankings from itself with"
        in found.report(tmp_path / "page.html").read_text()
    )
    same = improve(tmp_path / "cls" / "model", plan=record["plan"], **given)
    assert (same.choice, same.record["table"]) == (found.choice, record["table"])


def test_without_time_for_trainings_it_says_how_much_is_needed_and_what_the_tokenizer_does_not_know(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("isotrope.improvement.prepare.training_speed", lambda *_: 0.01)
    letters = list("河流过城市人们早上去场晚在家里读书故事讲的是老和猫狗马鸟山水春夏秋冬")
    texts = ["".join(row) for row in np.random.default_rng(0).choice(letters, (120, 60))]
    (tmp_path / "chinese.jsonl").write_text(
        "".join(json.dumps({"text": text}) + "\n" for text in texts)
    )
    words = [tiny_model, tmp_path / "chinese.jsonl", "--output", tmp_path / "out", "--minutes", 2]
    assert types(monkeypatch, *words) == 0
    said = " ".join("".join(capsys.readouterr()).split())
    assert said.count("unknown to the model's tokenizer") == 1
    assert "take a multilingual model" in said
    assert re.search(r"No training was tried: trainings of this model need about \d+ minutes", said)


@pytest.mark.usefixtures("short")
def test_after_ctrl_c_the_same_call_goes_on(
    whole: Path, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"output": tmp_path / "out", "minutes": 3, "console": QUIET}
    with monkeypatch.context() as patched:
        patched.setattr(
            "isotrope.improvement.race.Race._train_in_turn",
            lambda _: signal.raise_signal(signal.SIGINT),
        )
        with pytest.raises(Stopped, match="the same command goes on"):
            improve(whole, library, **given)
    assert not (tmp_path / "out" / "result.json").exists()
    found = improve(whole, library, **given)
    assert any("crops" in name for name in found.record["table"])


def test_the_documents_are_searched_in_memory(quick: QuickRace, library: Path) -> None:
    texts = [" ".join(json.loads(line).values()) for line in library.read_text().splitlines()]
    query = " ".join(texts[7].split()[4:20])
    (((text, score), *_),) = quick.result.search([query], count=3)
    assert text.split()[:4] == texts[7].split()[:4]
    assert 0 < score <= 1
    assert quick.result.search_settings is not None
    assert quick.result.search_settings.verdict.before == "whole"


@pytest.mark.usefixtures("untrained")
def test_ones_own_labels_judge_alone(whole: Path, library: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.tsv"
    own.write_text(
        "".join(
            f"{'king queen' if i % 2 else 'sea lake'} of year {'day ' * i}\t{i % 2}\n"
            for i in range(12)
        )
    )
    found = improve(whole, library, minutes=1, labels=own, console=QUIET)
    assert "own" not in found.record["table"]["keep"], "few labels only judge"
    assert any("12 queries" in note for note in found.record["notes"])


@pytest.mark.usefixtures("untrained")
def test_a_third_of_many_labels_chooses_and_the_others_judge(whole: Path, library: Path) -> None:
    graded = [
        {"a": f"king {'day ' * (n % 30)}", "b": f"queen {'day ' * n}", "mark": n % 3}
        for n in range(90)
    ]
    frame = pandas.DataFrame(graded)
    found = improve(whole, library, minutes=1, labels=frame, columns="a,b,mark", console=QUIET)
    assert list(found.record["table"]["keep"]) == ["labels"]
    assert found.record["plan"]["choosing"] == 30
    assert found.verdict.measure == "Spearman × 100"


def test_documents_that_change_during_the_race_end_it_without_a_result(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was held out may have been trained on."""
    library = write_library(tmp_path / "library.jsonl")
    monkeypatch.setattr(
        "isotrope.improvement.race.Race.finalists", lambda _: write_library(library, 150) and []
    )
    assert types(monkeypatch, whole, library, "--output", tmp_path / "out", "--minutes", 1) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("isotrope: ")
    assert {path.name for path in (tmp_path / "out").iterdir()}.isdisjoint({"result.json", "model"})


BAD: dict[str, tuple[Any, str]] = {
    "no minutes": (lambda folder: {"minutes": 0}, "minutes = 0"),
    "few documents": (
        lambda folder: {"documents": write_library(folder / "few.jsonl", 30)},
        "30 documents are too few: about 100 are needed",
    ),
    "the output among the documents": (
        lambda folder: {"documents": write_library(folder / "library.jsonl").parent},
        "is inside",
    ),
    "no such pooling": (lambda _: {"pooling": "nope"}, "pooling = 'nope' is unknown"),
    "nothing to read": (lambda folder: {"documents": folder / "empty"}, "empty"),
    "no such model": (
        lambda _: {"model": "hub/unknown-model"},
        "neither a folder here nor a model that the hub gave",
    ),
    "no such plan": (lambda folder: {"plan": folder / "nobody"}, "nobody"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_done_is_said_in_one_line(
    tiny_model: Path, library: Path, tmp_path: Path, case: str
) -> None:
    make, said = BAD[case]
    (tmp_path / "empty").mkdir()
    asked = {"model": tiny_model, "documents": library, "minutes": 1, **make(tmp_path)}
    with pytest.raises(UserError, match=said) as caught:
        improve(
            asked.pop("model"),
            asked.pop("documents"),
            output=tmp_path / "out",
            console=QUIET,
            **asked,
        )
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    assert not list((tmp_path / "out").glob("*")), "the same folder can be named again"


@pytest.mark.usefixtures("untrained")
def test_the_command_shows_all_candidates_and_the_verdict(
    whole: Path,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = [whole, library, "--output", tmp_path / "out"]
    assert types(monkeypatch, *asked, "--minutes", 1) == 0
    shown = capsys.readouterr().out
    for words in ("keep", "soft whitening", "query map", "verdict: ", "judged by", "report.html"):
        assert words in shown
    assert types(monkeypatch, *asked, "--minutes", 2) == 2
    assert "was begun with minutes" in capsys.readouterr().err
    assert types(monkeypatch, *asked, "--minutes", 2, "--restart") == 0
    assert json.loads((tmp_path / "out" / "result.json").read_text())["minutes"] == 2

    def stopped(*_: object, **__: object) -> None:
        raise Stopped("stopped; the best so far (soft whitening) is in out")

    capsys.readouterr()
    monkeypatch.setattr("isotrope.improvement.improve.improve", stopped)
    assert types(monkeypatch, *asked) == 130
    assert capsys.readouterr().err.startswith(
        "isotrope: stopped; the best so far (soft whitening) is in out"
    )


def types(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """What the command ends with."""
    return in_process(["improve", *map(str, words)], monkeypatch)


@contextmanager
def opened_files() -> Iterator[Counter[str]]:
    """How often each file was opened, by its path."""
    times = Counter[str]()
    sys.addaudithook(lambda event, args: times.update([str(args[0])]) if event == "open" else None)
    yield times
