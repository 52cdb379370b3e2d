"""What judges: tasks of the held-out documents, or the user's own labels alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.choice.candidates import SPAN, TITLE
from isotrope.choice.judges import judges_of
from isotrope.errors import UserError
from isotrope.evaluation.sets.domain import same_class
from isotrope.text.collection import open_documents
from isotrope.text.document_rows import Document
from library import write_library


def documents(folder: Path, count: int = 120, titles: bool = True) -> list[Document]:
    path = write_library(folder / f"{count}-{titles}.jsonl", count, titles)
    return list(open_documents(path, cache=folder / "cache").each())


def test_tasks_are_made_of_what_the_documents_have(tmp_path: Path) -> None:
    found = judges_of(documents(tmp_path), None, 0)
    assert {SPAN, TITLE} < {task.name for task in found.tasks}, "the names that candidates are compared by"
    assert found.titled
    assert len(found.told) >= len(found.tasks)
    bare = judges_of(documents(tmp_path, titles=False), None, 0)
    assert TITLE not in {task.name for task in bare.tasks}
    assert not bare.titled


def test_ones_own_labels_judge_alone(tmp_path: Path) -> None:
    own = same_class("own", ["a", "b", "c"], ["x", "x", "y"])
    (task,) = judges_of(documents(tmp_path), own, 0).tasks
    assert task.name == "own"


def test_too_few_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no task can be made from 20 held-out documents") as caught:
        judges_of(documents(tmp_path, 20), None, 0)
    assert "--domain" in str(caught.value.remedy)
