"""The similarity set that ships with isotrope: 330 pairs of sentences, written for it and graded
twice from 0 to 5.

`GUIDE.md` is what both graders were given; grading A is by the pairs' writer, B by a second grader
who saw no other grade. The pairs cover ten constructions (paraphrase, negation, swapped roles, …)
on everyday and technical topics.
"""

import csv
from importlib.resources import files

import numpy as np

from isotrope.evaluation.sets.graded_pairs import GradedPairs


def similarity_pairs() -> GradedPairs:
    """The pairs with the mean of their two grades, 0 … 5."""
    pairs = _rows("pairs.tsv")  # all files are in one order
    grades = [_rows("grades_a.tsv"), _rows("grades_b.tsv")]
    gold = np.mean([[float(row["grade"]) for row in rows] for rows in grades], axis=0)
    first = [row["first"] for row in pairs]
    second = [row["second"] for row in pairs]
    return GradedPairs("similarity", first, second, gold)


def _rows(file: str) -> list[dict[str, str]]:
    lines = (files(__name__) / file).read_text("utf-8").splitlines()
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE, strict=True))
