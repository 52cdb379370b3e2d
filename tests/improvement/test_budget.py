"""How much a measurement may read: all, where it is cheap; less, where it would take too much of the time."""

from __future__ import annotations

import pytest

from isotrope.improvement.budget import FEWEST_QUERIES, GOOD_QUERIES, Amount, Size, measurement_size

FITTED, TASKS = Amount(1500, 95.0), [Amount(300, 107.0), Amount(300, 190.0), Amount(260, 155.0)]  # long abstracts


def cost(size: Size) -> float:
    return size.fitted_on * FITTED.words + sum(min(size.queries, task.count) * task.words for task in TASKS)


def test_a_fast_model_is_measured_on_everything() -> None:
    assert measurement_size(1200, 30_000, FITTED, TASKS, 256) == Size(300, 1500)
    assert not Size(300, 1500).told(300, 1500)


@pytest.mark.parametrize(("speed", "share"), [(6000, 30), (4500, 30), (2250, 20), (1200, 10), (560, 5)])
def test_post_steps_are_fitted_on_less_first_then_fewer_queries_are_asked(speed: float, share: int) -> None:
    """MiniLM reads some 2,250 words a second on a core."""
    found = measurement_size(1200, speed, FITTED, TASKS, 384)
    assert found is not None
    assert 0.7 * 1200 * speed / share < cost(found) <= 1200 * speed / share
    assert found.queries == 300 or found.fitted_on <= 2 * 384
    assert found.queries >= (GOOD_QUERIES if share >= 20 else FEWEST_QUERIES)
    assert found.fitted_on >= 1.25 * 384


def test_a_slow_model_gets_no_post_steps_and_a_very_slow_one_is_refused() -> None:
    slow = measurement_size(1200, 150, FITTED, TASKS, 1024)
    assert slow is not None
    assert slow.fitted_on == 0
    assert FEWEST_QUERIES <= slow.queries < GOOD_QUERIES
    assert slow.told(300, 1500) == [
        f"to save time, a task has {slow.queries} queries at most, not 300", "to save time, post steps are left out",
    ]  # fmt: skip
    assert measurement_size(1200, 50, FITTED, TASKS, 1024) is None


def test_few_documents_are_taken_as_they_are() -> None:
    assert measurement_size(60, 5000, Amount(40, 20.0), [Amount(55, 30.0)], 384) == Size(55, 40)
    assert measurement_size(60, 5000, Amount(0, 0.0), [Amount(55, 30.0)], 384) == Size(55, 0)
