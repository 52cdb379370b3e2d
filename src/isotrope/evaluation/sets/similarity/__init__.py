"""The similarity set that ships with isotrope: 330 pairs of sentences, written for it and graded twice from 0 to 5.

`GUIDE.md` is what both graders were given; grading A is by the pairs' writer, B by a second grader who saw no other
grade. The pairs cover ten constructions (paraphrase, negation, swapped roles, …) on everyday and technical topics.
"""

from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from isotrope.evaluation.sets.pairs import Pairs, read_text

_REMEDY = "install isotrope again"


def similarity_pairs() -> Pairs:
    """The pairs with the mean of their two grades, 0 … 5."""
    rows = _rows("pairs.tsv")
    gold = (_grades("grades_a.tsv") + _grades("grades_b.tsv")) / 2
    return Pairs("similarity", [row["first"] for row in rows], [row["second"] for row in rows], gold)


def agreement() -> dict[str, float]:
    """Of the two gradings: Spearman's correlation, and the shares of equal grades and of those within half a point."""
    a, b = _grades("grades_a.tsv"), _grades("grades_b.tsv")
    apart = np.abs(a - b)
    return {
        "spearman": float(spearmanr(a, b).statistic),
        "equal": float(np.mean(apart == 0)),
        "within_half": float(np.mean(apart <= 0.5)),
    }


def _grades(file: str) -> npt.NDArray[np.float64]:
    """Grades (N,) in the order of the pairs."""
    grade = {row["id"]: float(row["grade"]) for row in _rows(file)}
    return np.array([grade[row["id"]] for row in _rows("pairs.tsv")])


def _rows(file: str) -> list[dict[str, str]]:
    with as_file(files(__name__).joinpath(file)) as path:
        header, *lines = (line.split("\t") for line in read_text(path, _REMEDY).splitlines())
    return [dict(zip(header, line, strict=True)) for line in lines]
