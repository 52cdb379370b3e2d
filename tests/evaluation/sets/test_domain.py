"""A domain made of labelled texts."""

import numpy as np

from isotrope.evaluation.sets.domain import same_class


def test_same_class_among_themselves_and_in_another_corpus() -> None:
    domain = same_class("toy", ["a", "b", "c"], ["x", "x", "y"])
    np.testing.assert_array_equal(domain.grades.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert domain.own
    other = same_class("toy", ["a", "b"], ["y", "z"], ["c", "d"], ["y", "x"])
    np.testing.assert_array_equal(other.grades.toarray(), [[1, 0], [0, 0]])
    assert not other.own
    assert other.labels is not None
    assert list(other.labels) == [1, 2]
