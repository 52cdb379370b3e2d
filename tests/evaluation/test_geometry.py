"""Alignment, uniformity and mean cosine against their definitions, and on spaces whose answer is
known.
"""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import drawn
from isotrope.errors import UserError
from isotrope.evaluation import geometry, suite
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.geometry import (
    by_gold_band,
    effective_rank,
    gold_scale,
    iso_score,
    variance_shares,
)
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.senteval import load_sts
from isotrope.views.sgw import group_whiten
from oracle import isoscore
from oracle import similarity as naive
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden


@needs_golden
def test_golden_equations():
    golden = np.load(GOLDEN / "equations.npz")
    assert geometry.alignment(golden["h"], golden["h_pos"]) == pytest.approx(
        float(golden["align"]), abs=1e-9
    )
    assert geometry.uniformity(golden["h"]) == pytest.approx(float(golden["uniform"]), abs=1e-9)


@pytest.mark.parametrize("rows", [2, 17, 40])
def test_equals_the_definition(rows, monkeypatch):
    """Blocks of 8 rows: several blocks, the last one short."""
    monkeypatch.setattr(geometry, "_BLOCK", 8)
    x, y = np.random.default_rng(rows).standard_normal((2, rows, 5))
    assert geometry.uniformity(x) == pytest.approx(naive.uniformity(x), abs=1e-12)
    assert geometry.mean_cosine(x) == pytest.approx(naive.mean_cosine(x), abs=1e-12)
    assert geometry.alignment(x, y) == pytest.approx(naive.alignment(x, y), abs=1e-12)


def test_diversity_is_the_mean_squared_distance_of_a_sentences_views():
    views = np.random.default_rng(3).standard_normal((4, 7, 5))
    found = [naive.alignment(*views[[p, q]]) for p in range(4) for q in range(p)]
    assert geometry.diversity(views) == pytest.approx(np.mean(found), abs=1e-12)


def test_disturbance_is_equation_11():
    """ε = (U Λ^-1/2 Uᵀ − 1) Z, one sentence after the other, of what `group_whiten` gives."""
    z = drawn.draw(20, 4) @ drawn.draw(4, 4, seed=1) + 3
    centred = (z - z.mean(0)).numpy()
    values, vectors = np.linalg.eigh(centred.T @ centred / 20)
    matrix = vectors @ np.diag(values**-0.5) @ vectors.T - np.eye(4)
    squares = [((matrix @ row) ** 2).sum() for row in centred]
    expected = np.sqrt(sum(squares) / (centred**2).sum())
    assert geometry.disturbance(z, group_whiten(z, 1)) == pytest.approx(expected, rel=1e-9)


def test_known_spaces():
    collapsed = np.outer([1.0, 2.0, 3.0], [1.0, 1.0])
    assert (geometry.uniformity(collapsed), geometry.mean_cosine(collapsed)) == pytest.approx(
        (0, 1), abs=1e-12
    )
    assert (geometry.uniformity(np.eye(3)), geometry.mean_cosine(np.eye(3))) == pytest.approx(
        (-4, 0), abs=1e-12
    )
    assert geometry.alignment(np.eye(3), -np.eye(3)) == pytest.approx(4)
    assert geometry.alignment(np.eye(3), 5 * np.eye(3)) == 0
    x = torch.randn(6, 4, requires_grad=True)
    assert geometry.mean_cosine(x.bfloat16()) == pytest.approx(geometry.mean_cosine(x), abs=0.05)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: geometry.uniformity([[1.0, 0.0]]), "at least 2"),
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
    first, second = (
        encoder.encode([side[i] for i in close]) for side in (pairs.first, pairs.second)
    )
    assert result["positives"] == len(close)
    assert result["alignment"] == pytest.approx(naive.alignment(first, second), abs=1e-6)
    assert result["sentences"] == len({*pairs.first, *pairs.second})
    assert result["uniformity"] < -2
    assert 0 < result["mean_cosine"] < 0.5


def test_bands_on_the_users_own_pairs():
    """Scores from 0 to 1; the cosine of each pair is known."""
    golds = np.linspace(0, 1, 21)
    pairs = GradedPairs("own", ["query"] * 21, [f"{g:.2f}" for g in golds], golds)
    angles = np.arccos([1.0, *golds])
    known = Embeddings(["query", *pairs.second], np.stack([np.cos(angles), np.sin(angles)], axis=1))
    result = geometry.pair_geometry(known, pairs)
    assert [band["band"] for band in result["bands"]] == [
        "0–0.2",
        "0.2–0.4",
        "0.4–0.6",
        "0.6–0.8",
        "0.8–1",
    ]
    assert [band["pairs"] for band in result["bands"]] == [4, 4, 4, 4, 5]
    assert result["positives"] == 4  # above four fifths
    for band, some in zip(result["bands"], np.split(golds, [4, 8, 12, 16]), strict=True):
        assert (band["mean"], band["sd"]) == pytest.approx((some.mean(), some.std()))
        assert band["quantiles"]["0.5"] == pytest.approx(np.median(some))
    assert sum(result["spectrum"]) == pytest.approx(1)
    words = [f"word{i}" for i in range(12)]
    empty = geometry.pair_geometry(
        HashEncoder(), GradedPairs("own", words, words[::-1], np.linspace(0, 3, 12))
    )
    assert (empty["positives"], empty["alignment"]) == (0, None)
    assert empty["bands"][-1] == {"band": "4–5", "pairs": 0}
    for one in (result, empty):
        assert json.loads(json.dumps(one)) == one


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(2, 9), st.integers(0, 10**6))
def test_iso_score_equals_its_algorithm(rows, dimensions, seed):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((rows, dimensions)) * generator.exponential(size=dimensions) + 3
    assert iso_score(x) == pytest.approx(isoscore.iso_score(x), abs=1e-9)


def whitened(rows, dimensions):
    """Rows whose covariance is exactly a multiple of the identity."""
    x = np.random.default_rng(0).standard_normal((rows, dimensions))
    return np.linalg.qr(x - x.mean(axis=0))[0]


def test_iso_score_has_the_properties_its_paper_asks_for():
    isotropic = whitened(300, 12)
    assert iso_score(np.outer(np.arange(30.0), np.arange(1.0, 6.0))) == pytest.approx(0, abs=1e-12)
    assert iso_score(np.ones((5, 3))) == 0
    skewed = isotropic * np.linspace(1, 3, 12)
    rotation = np.linalg.qr(np.random.default_rng(2).standard_normal((12, 12)))[0]
    # mean, scale, rotation, order
    for same in (skewed + 100, 1e-3 * skewed, skewed @ rotation, skewed[::-1]):
        assert iso_score(same) == pytest.approx(iso_score(skewed), abs=1e-9)
    for used in range(1, 13):  # linear in the dimensions used evenly, and they are counted
        assert iso_score(isotropic * (np.arange(12) < used)) == pytest.approx(
            (used - 1) / 11, abs=1e-12
        )


def test_spectrum_of_known_spaces():
    shares = variance_shares(whitened(50, 4) * [2.0, 1.0, 1.0, 0.0])
    np.testing.assert_allclose(shares, [4 / 6, 1 / 6, 1 / 6, 0], atol=1e-12)
    assert (effective_rank(np.full(5, 0.2)), effective_rank(np.array([1.0, 0.0]))) == pytest.approx(
        (5, 1)
    )


def test_bands_hold_what_their_label_says() -> None:
    gold = np.array([0, 0.2, 0.35, 0.5, 0.79, 0.8, 1.0])
    bands = by_gold_band(gold, {"after": gold})
    assert {label: values["after"].tolist() for label, values in bands} == {
        "0–0.2": [0],
        "0.2–0.4": [0.2, 0.35],
        "0.4–0.6": [0.5],
        "0.6–0.8": [0.79],
        "0.8–1": [0.8, 1.0],
    }
    assert gold_scale(np.array([1.0, 4.6])) == (0, 5)
    assert gold_scale(np.array([-1.0, 0.9])) == (-1, 0.9)
    assert gold_scale(np.array([0.0, 100.0])) == (0, 100)
