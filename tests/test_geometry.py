"""Alignment, uniformity and mean cosine against their definitions, and on spaces whose answer is known."""

import numpy as np
import pytest
import torch

from isotrope.data.senteval import load_sts
from isotrope.errors import UserError
from isotrope.evaluation import geometry, suite
from oracle import similarity as naive
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden


@needs_golden
def test_golden_equations():
    golden = np.load(GOLDEN / "equations.npz")
    assert geometry.alignment(golden["h"], golden["h_pos"]) == pytest.approx(float(golden["align"]), abs=1e-9)
    assert geometry.uniformity(golden["h"]) == pytest.approx(float(golden["uniform"]), abs=1e-9)


@pytest.mark.parametrize("rows", [2, 17, 40])
def test_equals_the_definition(rows, monkeypatch):
    """Blocks of 8 rows: several blocks, the last one short."""
    monkeypatch.setattr(geometry, "_BLOCK", 8)
    x, y = np.random.default_rng(rows).standard_normal((2, rows, 5))
    assert geometry.uniformity(x) == pytest.approx(naive.uniformity(x), abs=1e-12)
    assert geometry.mean_cosine(x) == pytest.approx(naive.mean_cosine(x), abs=1e-12)
    assert geometry.alignment(x, y) == pytest.approx(naive.alignment(x, y), abs=1e-12)


def test_blocks_do_not_change_the_answer():
    x = np.random.default_rng(0).standard_normal((1300, 6))
    i, j = np.triu_indices(len(x), 1)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    direct = np.log(np.mean(np.exp(-2 * np.sum((unit[i] - unit[j]) ** 2, axis=1))))
    assert geometry.uniformity(x) == pytest.approx(direct, abs=1e-10)


def test_known_spaces():
    collapsed = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    assert geometry.uniformity(collapsed) == pytest.approx(0, abs=1e-12)
    assert geometry.mean_cosine(collapsed) == pytest.approx(1)
    assert geometry.uniformity(np.eye(3)) == pytest.approx(-4)
    assert geometry.mean_cosine(np.eye(3)) == pytest.approx(0, abs=1e-12)
    assert geometry.alignment(np.eye(3), -np.eye(3)) == pytest.approx(4)
    assert geometry.alignment(np.eye(3), 5 * np.eye(3)) == 0


def test_tensors_with_gradient_and_low_precision():
    x = torch.randn(6, 4, requires_grad=True)
    assert geometry.uniformity(x) == pytest.approx(geometry.uniformity(x.detach().numpy()))
    assert geometry.mean_cosine(x.bfloat16()) == pytest.approx(geometry.mean_cosine(x), abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: geometry.uniformity([[1.0, 0.0]]), "at least 2"),
        (lambda: geometry.uniformity([1.0, 0.0]), "shape"),
        (lambda: geometry.mean_cosine([[1.0, 0.0], [0.0, 0.0]]), "row 1 is zero"),
        (lambda: geometry.mean_cosine([[1.0, np.nan], [0.0, 1.0]]), "row 0"),
        (lambda: geometry.alignment(np.ones((2, 3)), np.ones((3, 3))), "one positive for each row"),
    ],
)
def test_impossible_input_is_refused(call, words):
    with pytest.raises(UserError, match=words):
        call()


@needs_data
def test_suite_takes_the_positives_of_the_dev_set():
    result = suite.run(HashEncoder(), "geometry", DATA)["STSBenchmark"]
    pairs, encoder = load_sts(DATA, "STSBenchmark", ("dev",))["dev"], HashEncoder()
    close = [i for i, gold in enumerate(pairs.gold) if gold > 4]
    first, second = (encoder.encode([side[i] for i in close]) for side in (pairs.first, pairs.second))
    assert result["positives"] == len(close)
    assert result["alignment"] == pytest.approx(naive.alignment(first, second), abs=1e-6)
    assert result["sentences"] == len({*pairs.first, *pairs.second})
    assert result["uniformity"] < -2
    assert 0 < result["mean_cosine"] < 0.5
