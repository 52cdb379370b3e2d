"""What judges: tasks of the held-out documents, or the user's own labels alone."""

from pathlib import Path

import numpy as np
import pytest

from helpers.library import write_library
from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import HALVES, HALVES_OF_SHORT, SCATTERED, SPANS, TITLE
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import same_class
from isotrope.evaluation.sts import SimilaritySets
from isotrope.improvement.judges import (
    GRADED,
    GUARDS,
    affordable_pairs,
    general_change,
    general_pairs,
    held_out_count,
    judge_in_words,
    judges_of,
    shipped_pairs,
)
from isotrope.text import read_text
from isotrope.text.corpus import Document


def documents(folder: Path, count: int = 120, titles: bool = True) -> list[Document]:
    path = write_library(folder / f"{count}-{titles}.jsonl", count, titles)
    return list(read_text(path).documents().each())


def test_tasks_are_made_of_what_the_documents_have(tmp_path: Path) -> None:
    found = judges_of(documents(tmp_path), None, 0)
    assert {SPANS, TITLE} < {task.name for task in found.tasks}
    assert found.titled
    assert len(found.told) >= len(found.tasks)
    bare = judges_of(documents(tmp_path, titles=False), None, 0)
    assert TITLE not in {task.name for task in bare.tasks}
    assert not bare.titled
    assert HALVES not in {task.name for task in found.tasks}, "two others judge"
    assert not any(line.startswith(HALVES) for line in found.told)


def test_ones_own_labels_judge_alone(tmp_path: Path) -> None:
    own = same_class("own", ["a", "b", "c"], ["x", "x", "y"])
    (task,) = judges_of(documents(tmp_path), own, 0).tasks
    assert judge_in_words([task], {"own": np.zeros(3)}) == ("3 queries of own", "nDCG@10 × 100")


def test_too_few_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no task can be made from 20 held-out documents") as caught:
        judges_of(documents(tmp_path, 20), None, 0)
    assert "--labels" in str(caught.value.remedy)


def test_so_many_are_held_out_that_enough_can_make_a_task(tmp_path: Path) -> None:
    """A third of these documents is long enough: three times as many are held out, but a fifth at
    most.
    """
    lines = write_library(tmp_path / "long.jsonl", 1200).read_text().splitlines()
    short = [f'{{"title": "", "text": "a day of king {number}"}}' for number in range(2400)]
    path = tmp_path / "mixed.jsonl"
    path.write_text(
        "\n".join(
            part for three in zip(lines, short[::2], short[1::2], strict=True) for part in three
        )
    )
    mixed = read_text(path).documents()
    assert len(mixed) == 3600
    assert 600 < held_out_count(mixed, 0) <= 720
    one = tmp_path / "sentences.jsonl"
    texts = [" ".join(f"w{place}x{word}" for word in range(20)) for place in range(6000)]
    one.write_text("\n".join(f'{{"title": "", "text": "{text}"}}' for text in texts))
    assert held_out_count(read_text(one).documents(), 0) == 1000, (
        "of twenty words each: more of them judge"
    )
    all_long = read_text(write_library(tmp_path / "all.jsonl", 140)).documents()
    assert held_out_count(all_long, 0) == 70, "of few documents, half"


def test_most_are_short(tmp_path: Path) -> None:
    questions = [
        Document("", [f"where is the {one} {other} of my card {place}"])
        for place, (one, other) in enumerate(
            (one, other)
            for one in ("red", "blue", "green", "old", "new", "big", "small", "grey")
            for other in ("lake", "sea", "king", "queen", "day", "year", "bird", "island")
        )
    ]
    found = judges_of(questions, None, 0)
    assert found.short
    assert [task.name for task in found.tasks] == [HALVES_OF_SHORT, SCATTERED], "both judge"
    assert not judges_of(documents(tmp_path), None, 0).short


@pytest.fixture
def sets(monkeypatch: pytest.MonkeyPatch) -> SimilaritySets:
    """As a data folder gives them, whose two sets are the shipped pairs once more."""
    pairs = shipped_pairs()[GRADED]["test"]

    def read(folder: str, task: str, splits: list[str]) -> dict[str, GradedPairs]:
        assert (folder, splits) == ("folder", ["test"])
        return {"test": pairs}

    monkeypatch.setattr("isotrope.improvement.judges.load_sts", read)
    monkeypatch.setenv("ISOTROPE_DATA", "folder")
    return general_pairs()


def test_sts_is_compared_where_a_data_folder_is_known(
    tiny_model: Path, sets: SimilaritySets
) -> None:
    assert list(sets) == [GRADED, *GUARDS]
    model = load(tiny_model)
    found = general_change(model, model, {task: sets[task] for task in (GRADED, "STSBenchmark")})
    assert list(found["per_task"]) == [GRADED, "STSBenchmark"]
    assert found["per_task"]["STSBenchmark"]["difference"] == 0


def test_without_one_the_shipped_pairs_are_compared_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    assert list(general_pairs()) == [GRADED]
    with pytest.raises(UserError, match=r"senteval.* does not exist"):
        general_pairs(tmp_path)


def test_what_takes_too_long_is_not_compared(sets: SimilaritySets) -> None:
    everything, seconds = affordable_pairs(sets, 1200, 4500)
    assert everything == sets
    assert 0 < seconds <= 120
    few, seconds = affordable_pairs(sets, 60, 200)
    assert list(few) == [GRADED]
    assert seconds > 6
