"""What chooses and what judges: tasks from documents, or the user's own labels."""

from pathlib import Path

import numpy as np
import pytest

from helpers.library import write_library
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import HALVES, SPANS, TITLE
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, same_class
from isotrope.improvement.plan import Plan
from isotrope.improvement.prepare import Material
from isotrope.improvement.split import choosing_count, most_held_out, split_documents
from isotrope.improvement.tasks import (
    JUDGED_LENGTH,
    count_words,
    judge_in_words,
    split_labels,
    tasks_from_documents,
)
from isotrope.text import read_text
from isotrope.text.corpus import Document


def documents(folder: Path, count: int = 120, titles: bool = True) -> list[Document]:
    path = write_library(folder / f"{count}-{titles}.jsonl", count, titles)
    return list(read_text(path).documents().each())


def labels_of(count: int) -> RetrievalSet:
    """Queries of four classes that search themselves."""
    queries = [f"query {number}" for number in range(count)]
    return same_class("own", queries, [str(number % 4) for number in range(count)])


def pairs_of(count: int) -> GradedPairs:
    texts = [f"text {number}" for number in range(count)]
    return GradedPairs("own", texts, texts[::-1], np.arange(count, dtype=np.float64))


def test_tasks_are_made_of_what_the_documents_have(tmp_path: Path) -> None:
    names = {task.name for task in tasks_from_documents(documents(tmp_path), 0).tasks}
    assert {SPANS, TITLE} < names
    assert HALVES not in names, "two others judge"
    untitled = tasks_from_documents(documents(tmp_path, titles=False), 0)
    assert TITLE not in {task.name for task in untitled.tasks}


def test_documents_that_are_too_short_for_any_task_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        tasks_from_documents([Document("", ["too short"])] * 20, 0)
    assert caught.value.code == "too-few-documents"


@pytest.mark.parametrize(
    ("collection", "held_out", "choosing"),
    [(100, 50, 16), (300, 150, 50), (3204, 1300, 300), (15_211, 1300, 300)],
)
def test_half_of_the_documents_are_held_out_and_a_third_of_them_chooses(
    collection: int, held_out: int, choosing: int
) -> None:
    assert most_held_out(collection) == held_out
    assert choosing_count(held_out) == choosing


def test_no_document_has_two_parts(tmp_path: Path) -> None:
    collection = read_text(write_library(tmp_path / "a.jsonl", 200)).documents()
    split = split_documents(collection, 30, 60, seed=3)
    rows = [*split.fitting, *split.choosing, *split.judging]
    assert sorted(rows) == list(range(200))
    assert (len(split.choosing), len(split.judging), split.held_out) == (30, 60, 90)


@pytest.mark.parametrize("labels", [labels_of(90), pairs_of(90)], ids=["queries", "pairs"])
def test_no_label_chooses_and_judges(labels: RetrievalSet | GradedPairs) -> None:
    choosing, judging = (each.tasks[0] for each in split_labels(labels, 30, 60))
    assert (choosing.size, judging.size) == (30, 60)
    texts = [
        set(each.first if isinstance(each, GradedPairs) else each.queries)  # type: ignore[union-attr]
        for each in (choosing, judging)
    ]
    assert not texts[0] & texts[1]


def test_the_queries_that_judge_search_the_whole_corpus() -> None:
    labels = labels_of(90)
    (judging,) = split_labels(labels, 30, 60)[1].tasks
    assert isinstance(judging, RetrievalSet)
    assert judging.corpus == labels.corpus
    assert judging.own_documents is not None
    for query, row in zip(judging.queries, judging.own_documents, strict=True):
        assert judging.corpus[row] == query, "no query finds itself"


def test_few_labels_only_judge(tmp_path: Path) -> None:
    source = read_text(write_library(tmp_path / "a.jsonl", 140))
    material = Material.of(source, labels_of(12), 0)
    assert material.most_cases() == (70, 12)
    plan = Plan(choosing=70, judging=12)
    choosing, judging = material.task_sets(plan, material.split(plan))
    assert choosing.searches[0].name == TITLE
    assert [task.name for task in judging.tasks] == ["own"]


def test_many_labels_choose_too_and_no_document_is_held_out(tmp_path: Path) -> None:
    source = read_text(write_library(tmp_path / "a.jsonl", 140))
    material = Material.of(source, labels_of(90), 0)
    assert material.most_cases() == (30, 60)
    plan = Plan(choosing=30, judging=60)
    assert material.split(plan).held_out == 0


def test_too_few_documents_need_labels(tmp_path: Path) -> None:
    source = read_text(write_library(tmp_path / "a.jsonl", 40))
    with pytest.raises(UserError) as caught:
        Material.of(source, None, 0)
    assert caught.value.code == "too-few-documents"
    Material.of(source, labels_of(90), 0)


def test_a_judge_is_named() -> None:
    assert judge_in_words([labels_of(9)], 9) == ("9 queries of own", "nDCG@10 × 100")
    assert judge_in_words([pairs_of(9)], 9) == ("9 graded pairs of own", "Spearman × 100")


def test_words_are_counted_up_to_the_length_that_is_read() -> None:
    assert count_words(["a b c", "one two " * 100]) == 3 + JUDGED_LENGTH
