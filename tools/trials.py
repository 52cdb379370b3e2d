"""Draws every trial of the study "fair" by its STS-B dev score:
docs/results/studies/fair/trials.svg.

python tools/trials.py
"""

import tomllib

from grid import RESULTS
from isotrope.report.figures import new_figure, style, svg
from isotrope.report.page import AFTER, BEFORE, INK
from isotrope.store.files import write_text


def main() -> None:
    """One line for each method, the best at the top."""
    folder = RESULTS / "studies" / "fair"
    found = tomllib.loads((folder / "search.toml").read_text(encoding="utf-8"))["rows"]
    rows = sorted(found.items(), key=lambda one: float(one[1]["dev"]))
    with style():
        figure, axes = new_figure(0.9 + 0.2 * len(rows), 5.4)
        for place, (_, row) in enumerate(rows):
            scores = sorted(trial["dev"] for trial in row["trials"])
            axes.plot(scores[:-1], [place] * (len(scores) - 1), "o", color=BEFORE)
            axes.plot(scores[-1:], [place], "o", color=AFTER)
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        axes.tick_params(axis="y", labelcolor=INK)
        axes.set(
            xlabel="STS-B dev, points, of eight settings; blue: the chosen one",
            ylim=(-0.6, len(rows) - 0.4),
        )
        write_text(folder / "trials.svg", svg(figure))


if __name__ == "__main__":
    main()
