"""What every generated table needs: the result files, how numbers are printed, the lines of a
table.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"
ARROW = {"better": " ↑", "worse": " ↓", "not significant": "", "no difference found": ""}


def read(name: str) -> Any:
    """A committed result file, by its path below docs/results without ``.json``."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def grid(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a column that holds only numbers is aligned to the right."""
    lines = [[str(cell) for cell in row] for row in rows]
    columns = zip(*lines, strict=True)
    number = [all(re.match(r"[\d*+−-]|$", cell) for cell in column) for column in columns]
    marks = ["--:" if right else "---" for right in number]
    return "\n".join(f"| {' | '.join(line)} |" for line in [list(header), marks, *lines])


def points(value: float) -> str:
    """A fraction as the papers print it: × 100."""
    return f"{100 * value:.2f}"


def signed(value: float) -> str:
    """Points with their sign."""
    return f"{value:+.2f}".replace("-", "−")


def change(of: Mapping[str, float]) -> str:
    """A difference of fractions in points, with its 95 % interval."""
    return (
        f"{signed(100 * of['difference'])} ({signed(100 * of['low'])} … {signed(100 * of['high'])})"
    )


def times(ratio: Mapping[str, float]) -> str:
    """A median with its quartiles."""
    return f"{ratio['median']:.2f} × ({ratio['low']:.2f} … {ratio['high']:.2f})"
