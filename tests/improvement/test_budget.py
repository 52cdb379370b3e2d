"""The budget: how much is measured in the time, and a clock that counts on and interrupts what
takes too long.
"""

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from isotrope.improvement.budget import (
    FEWEST_QUERIES,
    FIRST_SHARE,
    GOOD_QUERIES,
    NOTES,
    PAIR_WORDS,
    STEP_COST,
    Budget,
    Clock,
    Size,
    measurement_size,
)
from isotrope.store.files import write_json

# texts and their words: long abstracts
FITTED, TASKS = (1500, 95.0), [(300, 107.0), (300, 190.0), (260, 155.0)]


@pytest.mark.parametrize(
    ("speed", "share"),
    [(30_000, 0), (6000, 30), (4500, 30), (3000, 20), (2250, 10), (1200, 10), (560, 5)],
)
def test_post_steps_are_fitted_on_less_first_then_fewer_queries_are_asked(
    speed: float, share: int
) -> None:
    """MiniLM reads some 2,250 words a second on a core. A fast model is measured on everything."""
    found = measurement_size(1200 * speed, FITTED, TASKS, 384)
    assert found is not None
    if not share:
        assert (found, found.told(300, 1500)) == (Size(300, 1500), [])
        return
    cost = found.fitted_on * FITTED[1] + sum(
        min(found.queries, count) * words for count, words in TASKS
    )
    assert 0.7 * 1200 * speed / share < cost <= 1200 * speed / share
    assert found.queries == 300 or found.fitted_on <= 2 * 384
    assert found.queries >= (GOOD_QUERIES if share >= 20 else FEWEST_QUERIES)
    assert found.fitted_on >= 1.25 * 384


def test_a_slow_model_gets_no_post_steps_and_a_very_slow_one_is_refused() -> None:
    slow = measurement_size(1200 * 150, FITTED, TASKS, 1024)
    assert slow is not None
    assert slow.fitted_on == 0
    assert FEWEST_QUERIES <= slow.queries < GOOD_QUERIES
    assert slow.told(300, 1500) == [
        f"to save time, a task has {slow.queries} queries at most, not 300",
        "to save time, post steps are left out",
    ]
    assert measurement_size(1200 * 50, FITTED, TASKS, 1024) is None


def test_few_documents_are_taken_as_they_are() -> None:
    assert measurement_size(60 * 5000, (40, 20.0), [(55, 30.0)], 384) == Size(55, 40)
    assert measurement_size(60 * 5000, (0, 0.0), [(55, 30.0)], 384) == Size(55, 0)


@pytest.mark.parametrize(
    ("seconds", "plan"), [(1200, [5440] * 6), (450, [1216] * 6), (200, [1984] * 2), (40, [384])]
)
def test_trainings_become_shorter_before_they_become_fewer(
    tmp_path: Path, seconds: float, plan: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, 1,014 pairs fitted of 1,024, and all six were left out."""
    monkeypatch.setattr(Budget, "clock", Clock(lambda: 0.0, None, None))
    clock = Budget(tmp_path, seconds)
    clock.kept |= {"speed": 100 * PAIR_WORDS * STEP_COST, "measuring": 5.0}  # 100 pairs a second
    found = clock.pairs_in("first", list("abcdef"), FIRST_SHARE, 1, 10**6)
    assert found == dict(zip("abcdef", plan, strict=False))


def test_it_counts_what_an_earlier_call_has_used_and_keeps_time_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / NOTES, {"spent": 60})
    times = iter([0.0, 10.0, 10.0])
    monkeypatch.setattr(Budget, "clock", Clock(lambda: next(times), None, None))
    clock = Budget(tmp_path, 100)
    assert clock.spent == 70
    clock.kept_back = 20  # for what comes after the race
    assert clock.left == 10


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_the_alarm_interrupts_as_ctrl_c_does(tmp_path: Path, handler: Any) -> None:
    """Also where a script has started the job in the background, so that SIGINT is ignored."""
    before, clock, began = (
        signal.signal(signal.SIGINT, handler),
        Budget(tmp_path, 0.1),
        time.monotonic(),
    )
    try:
        with pytest.raises(KeyboardInterrupt), clock.alarm():
            time.sleep(20)
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 10
    assert clock.rang


def test_no_alarm_after_the_work_is_done_or_in_another_thread(tmp_path: Path) -> None:
    clock, soon = Budget(tmp_path, 0.1), Budget(tmp_path, 0.1)
    with clock.alarm():
        pass

    def slept() -> None:
        with soon.alarm():
            time.sleep(0.2)

    other = threading.Thread(target=slept)
    other.start()
    other.join()
    assert not clock.rang
    assert not soon.rang


def test_when_the_time_is_over_nothing_begins(tmp_path: Path) -> None:
    clock, began = Budget(tmp_path, -1), []
    with pytest.raises(KeyboardInterrupt), clock.alarm():
        began.append(True)
    assert clock.rang
    assert not began
