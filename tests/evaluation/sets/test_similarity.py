"""The similarity set's integrity."""

from collections import Counter
from pathlib import Path

import isotrope.evaluation.sets.similarity
from isotrope.evaluation.sets.similarity import similarity_pairs


def test_the_similarity_set_is_whole() -> None:
    pairs = similarity_pairs()
    assert len(pairs) == len(pairs.second) == len(pairs.gold) == 330
    assert len({*zip(pairs.first, pairs.second, strict=True)}) == 330
    assert all(s == s.strip() and len(s.split()) >= 2 for s in (*pairs.first, *pairs.second))
    folder = Path(isotrope.evaluation.sets.similarity.__file__).parent
    rows = [line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines()[1:]]
    assert [row[3] for row in rows] == pairs.first
    assert set(Counter(row[2] for row in rows).values()) == {33}
    grades: list[dict[str, float]] = []
    for name in ("grades_a.tsv", "grades_b.tsv"):
        lines = [line.split("\t") for line in (folder / name).read_text().splitlines()[1:]]
        grades.append({i: float(grade) for i, grade in lines})
        assert [i for i, _ in lines] == [row[0] for row in rows]
        assert all(0 <= g <= 5 and (2 * g).is_integer() for g in grades[-1].values())
    assert pairs.gold.tolist() == [(grades[0][row[0]] + grades[1][row[0]]) / 2 for row in rows]
