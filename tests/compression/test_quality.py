"""What a student keeps: known models with known scores."""

from pathlib import Path

import numpy as np
import pytest

from conftest import build_bert, sentences
from isotrope.compression.page import PAIRS, PARTS, QUERIES
from isotrope.compression.quality import SIMILARITY, compare_quality, kept_share
from isotrope.encoder import load
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.text.corpus import Document

PAIR = Pairs("own", ["a red bird", "war", "the king"], ["a red bird", "the sea", "queen"], np.array([5.0, 0.0, 3.0]))


def test_the_kept_share_is_that_of_the_means_over_all_tasks() -> None:
    parts = {"a": {"before": 0.8, "after": 0.4}, "b": {"before": 0.6, "after": 0.6}}
    pairs = {"c": {"before": 0.4, "after": 0.35}}
    found = {"x": {"teacher": {"per_task": parts}}, "y": {"teacher": {"per_task": pairs}}}
    assert kept_share(found) == pytest.approx((0.4 + 0.6 + 0.35) / (0.8 + 0.6 + 0.4))
    assert kept_share({"x": {"teacher": {"per_task": {"a": {"before": 0.0, "after": 0.0}}}}}) == 0


def test_the_student_is_after_both_others(tmp_path: Path) -> None:
    teacher = load(build_bert(tmp_path / "teacher", hidden=64), device="cpu")
    student = load(build_bert(tmp_path / "student", hidden=16), device="cpu")
    texts = map(" ".join, zip(sentences(60), sentences(60, seed=1), strict=True))
    held = [Document("", [text]) for text in texts]
    sets = {"own pairs": {"test": PAIR}}
    models = (teacher, student, student)
    found, searched = compare_quality(models, held, sets)
    assert searched is not None
    assert len(searched["map"]["before"]) >= 50
    assert list(found) == [PARTS, PAIRS]
    assert set(found[PAIRS]["teacher"]["per_task"]) == {SIMILARITY, "own pairs"}
    for kind in found.values():
        assert kind["start"]["difference"] == 0, "the student is its own start here"
        assert kind["start"]["after"] == kind["teacher"]["after"]
    assert found[PARTS]["teacher"]["before"] != found[PARTS]["teacher"]["after"]
    few, searched = compare_quality(models, held[:5], {})
    assert (list(few), searched) == ([PAIRS], None), "five texts say nothing"
    desk = read_labels([(one.text.split()[0], one.text) for one in held[:20]])
    assert isinstance(desk, Domain)
    asked, _ = compare_quality(models, held[:5], {}, desk)
    assert list(asked) == [QUERIES, PAIRS], "labels come first"
    assert asked[QUERIES]["start"]["difference"] == 0
