"""The clock of a race: it counts on after a stop, and interrupts what takes too long."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from isotrope.improvement.clock import Clock


def test_it_counts_what_an_earlier_call_has_used() -> None:
    clock = Clock(100, spent=60)
    assert 60 <= clock.spent < 61
    assert 39 < clock.left <= 40


def test_the_alarm_interrupts_as_ctrl_c_does() -> None:
    clock = Clock(0.1)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), clock.alarm():
        time.sleep(20)
    assert time.monotonic() - began < 10
    assert clock.rang


def test_the_alarm_rings_where_a_script_started_the_job_in_the_background() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), Clock(0.1).alarm():
            time.sleep(20)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_alarm_after_the_work_is_done_or_in_another_thread() -> None:
    clock = Clock(0.1)
    with clock.alarm():
        pass
    time.sleep(0.2)
    assert not clock.rang
    soon = Clock(0.1)
    other = threading.Thread(target=lambda: _slept(soon))
    other.start()
    other.join()
    assert not soon.rang


def _slept(clock: Clock) -> None:
    with clock.alarm():
        time.sleep(0.2)


def test_time_is_kept_back_for_what_comes_after_the_race() -> None:
    times = iter([0.0, 10.0])
    clock = Clock(100, now=lambda: next(times))
    clock.kept_back = 30
    assert clock.left == 60


def test_when_the_time_is_over_nothing_begins() -> None:
    clock, began = Clock(10, spent=11), []
    with pytest.raises(KeyboardInterrupt), clock.alarm():
        began.append(True)
    assert clock.rang
    assert not began
