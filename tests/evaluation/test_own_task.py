"""The user's own queries score as `isotrope evaluate` scores them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isotrope import load
from isotrope.encoder.embed import vectors_of
from isotrope.evaluation.embed import Known
from isotrope.evaluation.retrieval import OwnTask, evaluate_domain
from isotrope.evaluation.sets.labels import read_domain


def folder(place: Path) -> Path:
    for name, texts in {
        "corpus": ["a cat eats", "a dog runs in the snow", "rain falls"],
        "queries": ["what does the cat do", "what falls", "nothing"],
    }.items():
        (place / f"{name}.tsv").write_text("".join(f"{i}\t{text}\n" for i, text in enumerate(texts)))
    (place / "qrels.txt").write_text("0 0 0 1\n1 0 2 1\n")
    return place


def test_a_domain_scores_each_query_that_has_something_to_find(tiny_model: Path, tmp_path: Path) -> None:
    task, encoder = OwnTask(read_domain(folder(tmp_path))), load(tiny_model)
    known = Known(task.texts, vectors_of(encoder, task.texts))
    wanted = evaluate_domain(encoder, task.domain)["per_query"]["ndcg@10"]
    assert (task.name, len(wanted)) == (tmp_path.name, 2)
    for each in (encoder, known):
        np.testing.assert_allclose(task.score(each), wanted, atol=1e-9)


def test_a_model_with_prompts_for_roles_uses_them(tiny_model: Path, tmp_path: Path) -> None:
    task, encoder = OwnTask(read_domain(folder(tmp_path))), load(tiny_model)
    encoder.prompts = {"query": "rain falls ", "document": ""}
    wanted = evaluate_domain(encoder, task.domain)["per_query"]["ndcg@10"]
    np.testing.assert_allclose(task.score(encoder), wanted, atol=1e-9)


def test_labelled_texts_are_a_task_too(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("".join(f"text {i}\t{i % 2}\n" for i in range(8)))
    task = OwnTask(read_domain(tmp_path / "mine.tsv"))
    assert task.score(load(tiny_model)).shape == (8,)


def test_a_part_has_fewer_queries_with_all_that_they_shall_find(tmp_path: Path) -> None:
    task = OwnTask(read_domain(folder(tmp_path)))
    assert task.part(3) is task
    part = task.part(1)
    assert (part.size, part.domain.queries) == (1, ["what does the cat do"])
    assert "a cat eats" in part.domain.corpus
    assert part.domain.grades.shape == (1, len(part.domain.corpus))
    (tmp_path / "mine.tsv").write_text("".join(f"text {i}\t{i // 4}\n" for i in range(8)))
    own = OwnTask(read_domain(tmp_path / "mine.tsv")).part(4).domain
    assert own.own
    assert own.corpus == own.queries == ["text 0", "text 2", "text 4", "text 6"]
    assert own.grades.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
