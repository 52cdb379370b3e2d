"""Figures draw the numbers that they are given."""

from pathlib import Path

import numpy as np
import pytest

from isotrope.evaluation.geometry import unit
from isotrope.report import figures
from isotrope.report.space import Space


def test_a_histogram_clips_what_lies_outside_and_labels_are_pushed_apart_in_order() -> None:
    edges = np.linspace(-1, 1, 5)
    assert figures.histogram(np.array([-1.01, -0.6, 0.0, 1.0, 1 + 1e-9]), edges).tolist() == [2, 0, 1, 2]
    assert figures.push_apart([0.5, 0.1, 0.52], 0.1) == pytest.approx([0.5, 0.1, 0.6])


def test_a_figure_has_its_files_and_a_link_to_its_paper(tmp_path: Path) -> None:
    with figures.style():
        figure = figures.changes(["one", "two"], [0.01, -0.02], [0.0, -0.03], [0.02, -0.01])
        plot = figures.Plot("one", "One", "What it shows. See", figure, "DCLR Fig. 1")
        shown = plot.draw(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"one.svg", "one.png"}
    assert (shown.caption, shown.link) == ("What it shows. See", figures.PAPERS["DCLR Fig. 1"])
    assert "two" in shown.svg


def test_a_space_is_what_plain_loops_say() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 4)) + 1
    space, rows = Space.of(vectors), unit(vectors)
    assert space.cosines == pytest.approx([rows[i] @ rows[j] for i in range(12) for j in range(i + 1, 12)])
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    assert space.shares == pytest.approx(values / values.sum())
    nearest = max((j for j in range(12) if j != 2), key=lambda j: rows[2] @ rows[j])
    assert space.nearest[2][0] == (nearest, pytest.approx(rows[2] @ rows[nearest]))
    assert [len(found) for found in space.nearest] == [3] * 6
