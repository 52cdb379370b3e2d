"""The similarity set that ships with isotrope: 330 pairs of sentences, written for it and graded
twice from 0 to 5.

`GUIDE.md` is what both graders were given; grading A is by the pairs' writer, B by a second grader
who saw no other grade. The pairs cover ten constructions (paraphrase, negation, swapped roles, …)
on everyday and technical topics.
"""

from importlib.resources import files

import numpy as np

from isotrope.evaluation.sets.graded_pairs import GradedPairs


def similarity_pairs() -> GradedPairs:
    """The pairs with the mean of their two grades, 0 … 5."""
    # all in one order
    rows, *graded = (_rows(name) for name in ("pairs.tsv", "grades_a.tsv", "grades_b.tsv"))
    gold = np.mean([[float(row["grade"]) for row in grades] for grades in graded], axis=0)
    return GradedPairs(
        "similarity", [row["first"] for row in rows], [row["second"] for row in rows], gold
    )


def _rows(file: str) -> list[dict[str, str]]:
    header, *lines = (
        line.split("\t") for line in (files(__name__) / file).read_text("utf-8").splitlines()
    )
    return [dict(zip(header, line, strict=True)) for line in lines]
