"""A figure's files, and what its caption says."""

from __future__ import annotations

from pathlib import Path

from isotrope.report import figures
from isotrope.report.plots import PAPERS, Plot, draw_plot


def test_a_figure_has_its_files_and_a_link_to_its_paper(tmp_path: Path) -> None:
    with figures.style():
        figure = figures.changes(["one", "two"], [0.01, -0.02], [0.0, -0.03], [0.02, -0.01])
        plot = Plot("one", "One", "What it shows. See", figure, "DCLR Fig. 1")
        shown = draw_plot(plot, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"one.svg", "one.png"}
    assert (shown.caption, shown.link) == ("What it shows. See", PAPERS["DCLR Fig. 1"])
    assert "two" in shown.svg
