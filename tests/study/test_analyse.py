"""What a study says of its scores: differences, claims, who is compared with whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope.evaluation.significance import interval
from isotrope.study.analyse import claim_answer, study_record
from isotrope.study.document import study_pages
from studies import measured, planned, spec_of


def test_a_row_is_meant_where_a_teacher_has_its_name(corpus_file: Path, tmp_path: Path) -> None:
    rows = """
    [run]
    seeds = 3
    backbone = "isotrope/tiny"
    [rows.simcse]
    [rows.rank]
    preset = "rankcse-listmle"
    [teachers.simcse]
    preset = "simcse"
    seed = 7
    """
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    points = {"simcse": 50.0, "rankcse-listmle": 51.0}
    record = study_record(measured(made, lambda cell: {"Avg.": 90.0 if cell.seed == 7 else points[cell.preset]}))
    (one,) = record["differences"]
    assert (one["seeds"]["n"], one["seeds"]["mean"]) == (3, 1.0)
    assert record["spread"]["n"] == 3


def test_over_pairs_the_mean_over_seeds_is_compared_on_the_same_resamples(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nseeds = 3\n[rows.A]\n[rows.B]\npreset = "simcse"\nset = ["views.passes=3"]'
    made = measured(planned(spec_of(tmp_path, corpus_file, rows), tmp_path), lambda _: {"Avg.": 50.0}, draws=999)
    (one,) = study_record(made)["differences"]

    def mean(label: str) -> Any:
        draws = [made.cells[key].draws() for key in made.rows[label].values()]
        return 100 * np.mean([one["STS12"] for one in draws], axis=0)

    expected = interval(mean("B") - mean("A"))
    assert (one["pairs"]["low"], one["pairs"]["high"]) == pytest.approx(expected)


def test_gains_are_positive_where_lower_is_better_and_equal_rows_count_for_nothing(
    corpus_file: Path, tmp_path: Path
) -> None:
    rows = """
    [run]
    seeds = 3
    [rows.A]
    published = {uniformity = -1.5}
    [rows.B]
    set = ["views.passes=3"]
    published = {uniformity = -2.0}
    [rows.again]
    [claims.lower]
    better = "B"
    than = "A"
    text = "B spreads wider"
    column = "uniformity"
    [claims.none]
    better = "again"
    than = "A"
    text = "nothing is something"
    column = "uniformity"
    """
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    generator = np.random.default_rng(0)
    record = study_record(
        measured(made, lambda cell: {"uniformity": generator.normal(-2.5 if cell.label == "B" else -1.0, 0.3)})
    )
    lower, nothing = record["claims"]
    assert lower["seeds"]["mean"] > 0
    assert lower["published"] == pytest.approx(0.5)
    assert lower["seeds"]["p_holm"] == lower["seeds"]["p"], "one comparison, since the other compares nothing"
    assert (nothing["answer"], nothing["seeds"]["p_holm"]) == ("open", None)
    assert "A − B (uniformity)" in study_pages(record | {"figures": {}})["table.md"]


@pytest.mark.parametrize(
    ("mean", "p", "p_margin", "expected"),
    [
        (0.4, 0.01, 0.2, "holds"),
        (0.3, 0.04, 0.01, "holds"),
        (0.1, 0.4, 0.01, "does not hold"),
        (-0.6, 0.01, 0.001, "does not hold"),
        (0.4, 0.06, 0.6, "open"),
        (-0.4, 0.06, 0.06, "open"),
    ],
)
def test_a_claim_is_answered_by_rule(mean: float, p: float, p_margin: float, expected: str) -> None:
    seeds = {"n": 5, "mean": mean, "p": p, "p_holm": p, "p_margin_holm": p_margin, "detectable": 0.6}
    record = {"seeds": seeds, "same": False, "margin": 0.5}
    assert claim_answer(record)[0] == expected
    assert claim_answer(record | {"same": True})[0] == "open"
    assert claim_answer(record | {"seeds": None})[0] == "open"
    assert claim_answer(record | {"seeds": seeds | {"p": None}})[0] == "open"
