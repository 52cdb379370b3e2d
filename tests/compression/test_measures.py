"""What a student keeps and costs: known models with known scores; tables and words."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers.small_bert import build_bert
from helpers.words import sentences
from isotrope.compression import cost
from isotrope.compression.cost import growth, measure_costs, peak_memory
from isotrope.compression.page import (
    compression_verdict,
    cost_table,
    kept_line,
    quality_table,
)
from isotrope.compression.quality import SIMILARITY, ByModel, Judges, compare_quality
from isotrope.compression.result import PAIRS, PARTS, QUERIES, CompressionResult
from isotrope.encoder import load
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.text.corpus import Document

PAIR = GradedPairs(
    "own",
    ["a red bird", "war", "the king"],
    ["a red bird", "the sea", "queen"],
    np.array([5.0, 0.0, 3.0]),
)


@pytest.fixture(scope="module")
def three_models(tmp_path_factory: pytest.TempPathFactory) -> ByModel[SentenceTransformer]:
    """A teacher, and a student that is its own start."""
    folder = tmp_path_factory.mktemp("models")
    teacher = load(build_bert(folder / "teacher", hidden=64), device="cpu")
    student = load(build_bert(folder / "student", hidden=16), device="cpu")
    return ByModel(teacher, student, student)


@pytest.fixture(scope="module")
def held_out() -> list[Document]:
    texts = map(" ".join, zip(sentences(60), sentences(60, seed=1), strict=True))
    return [Document("", [text]) for text in texts]


def test_the_student_is_after_both_others(
    three_models: ByModel[SentenceTransformer], held_out: list[Document]
) -> None:
    found = compare_quality(three_models, Judges(held_out, {"own pairs": {"test": PAIR}}))
    assert list(found) == [PARTS, PAIRS]
    assert set(found[PAIRS].teacher.per_task) == {SIMILARITY, "own pairs"}
    for kind in found.values():
        assert kind.start.difference == 0
        assert kind.start.after == kind.teacher.after
    assert found[PARTS].teacher.before != found[PARTS].teacher.after


def test_five_texts_judge_nothing(
    three_models: ByModel[SentenceTransformer], held_out: list[Document]
) -> None:
    few = compare_quality(three_models, Judges(held_out[:5], {}))
    assert list(few) == [PAIRS]


def test_labels_come_first(
    three_models: ByModel[SentenceTransformer], held_out: list[Document]
) -> None:
    desk = read_labels([(one.text.split()[0], one.text) for one in held_out[:20]])
    assert isinstance(desk, RetrievalSet)
    found = compare_quality(three_models, Judges(held_out[:5], {}, desk))
    assert list(found) == [QUERIES, PAIRS]
    assert found[QUERIES].start.difference == 0


MANY = sentences(16)


def test_the_smaller_model_is_faster_in_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "peak_memory", lambda name, texts: 10**9 if name == "large" else None)
    large = load(build_bert(tmp_path / "large", hidden=128, layers=6), device="cpu")
    small = load(build_bert(tmp_path / "small", hidden=16, layers=1), device="cpu")
    found = measure_costs(large, small, ["large", "small"], MANY)
    assert 1 < found.faster.low <= found.faster.median <= found.faster.high
    assert found.weights[0] == sum(4 * p.numel() for p in large.parameters())
    assert found.weights[1] < found.weights[0] / 10
    assert found.memory == [10**9, None]
    assert found.texts == 16


def test_growth_is_what_the_work_holds_at_its_peak() -> None:
    """Also of what is given back before its end."""
    size = 200 * 2**20
    found = growth(lambda: np.ones(size // 8).sum())
    assert 0.8 * size < found < 1.5 * size
    assert growth(lambda: None) < 0.1 * size


def test_memory_that_cannot_be_measured_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "false")
    assert peak_memory(str(tmp_path), MANY) is None


@pytest.mark.slow
def test_a_new_process_tells_its_growth(tiny_model: Path) -> None:
    found = peak_memory(str(tiny_model), sentences(4))
    assert found is not None
    assert 0 < found < 2**31


def comparison(before: float, after: float, **tasks: tuple[float, float]) -> dict[str, Any]:
    change = after - before
    found = {
        "difference": change,
        "low": change - 0.01,
        "high": change + 0.01,
        "p": 0.01,
        "resamples": 1000,
    }
    per_task = {task: comparison(*scores) for task, scores in tasks.items()}
    return {"before": before, "after": after, "verdict": "better", "per_task": per_task, **found}


RAW = comparison(0, 0, a=(0.1, 0.2), b=(0.1, 0.2), c=(0.1, 0.2))
RECORD: dict[str, Any] = {
    "teacher": "large", "student": "layers:3", "side": "both", "minutes": None, "kept": 0.9,
    "quality": {
        "graded pairs": {
            "teacher": comparison(0.8, 0.72, STSBenchmark=(0.8, 0.72), none=(0.0, 0.1)),
            "start": comparison(0.6, 0.72, STSBenchmark=(0.6, 0.72), none=(0.0, 0.1)),
        }
    },
    "cost": {
        "texts": 64, "faster": {"median": 4.2, "low": 4.0, "high": 4.5},
        "weights": [90_000_000, 26_000_000], "memory": [180_000_000, None],
    },
}  # fmt: skip


RESULT = CompressionResult.from_record(RECORD)


def with_cost(**changes: Any) -> CompressionResult:
    return CompressionResult.from_record({**RECORD, "cost": {**RECORD["cost"], **changes}})


def test_a_result_is_read_as_it_is_written() -> None:
    assert CompressionResult.from_record(RESULT.record()) == RESULT


def test_the_kept_share_is_that_of_the_means_over_all_tasks() -> None:
    quality = {
        "parts": {"teacher": comparison(0, 0, a=(0.8, 0.4), b=(0.6, 0.6)), "start": RAW},
        "pairs": {"teacher": comparison(0, 0, c=(0.4, 0.35)), "start": RAW},
    }
    found = CompressionResult.from_record({**RECORD, "quality": quality})
    assert found.kept == pytest.approx((0.4 + 0.6 + 0.35) / (0.8 + 0.6 + 0.4))


def test_nothing_is_kept_of_a_teacher_without_points() -> None:
    quality = {"parts": {"teacher": comparison(0, 0, a=(0.0, 0.0)), "start": RAW}}
    assert CompressionResult.from_record({**RECORD, "quality": quality}).kept == 0


def test_a_row_a_task_with_all_three_models() -> None:
    table = quality_table(RESULT)
    first = [
        "STS-B",
        "80.00",
        "60.00",
        "72.00",
        "90 %",
        "+12.00 (+11.00 … +13.00)",
        "−8.00 (−9.00 … −7.00)",
    ]
    assert table.rows[0] == first
    assert table.rows[1][4] == "", "no share of nothing"


def test_costs_of_both() -> None:
    rows = {row[0]: row[1:] for row in cost_table(RESULT).rows}
    assert rows["speed"] == ["1.0", "4.2"]
    assert rows["weights, MB"] == ["90.0", "26.0"]
    assert rows["memory, MB"] == ["180.0", "not measured"]


def test_one_line_says_what_is_kept_and_what_it_costs() -> None:
    assert kept_line(RESULT) == (
        "keeps 102 % of the points of large, is 4.2 times as fast, and has 29 % of its weights"
    )


def test_the_verdict_compares_the_student_with_its_teacher() -> None:
    verdict = compression_verdict(RESULT)
    assert (verdict.before, verdict.after, verdict.scores) == ("large", "the student", (0.8, 0.72))
    assert verdict.advice.endswith(
        "Use it where large is too slow or too large. Training it gained +12.00 points."
    )


SLOW = {"median": 0.9, "low": 0.8, "high": 1.0}


def test_a_student_that_saves_nothing_is_not_advised() -> None:
    advice = compression_verdict(with_cost(faster=SLOW, weights=[10, 14])).advice
    assert "is not faster, and is not smaller. Keep large." in advice


def test_a_student_that_is_only_smaller_is_advised_for_its_size() -> None:
    advice = compression_verdict(with_cost(faster=SLOW)).advice
    assert "Use it where large is too large." in advice
