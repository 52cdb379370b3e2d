"""The clock of a race: it counts on after a stop, and interrupts what takes too long."""

from __future__ import annotations

import threading
import time

import pytest

from isotrope.choice.clock import Clock


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


def test_no_alarm_after_the_work_is_done_or_in_another_thread() -> None:
    clock = Clock(0.1)
    with clock.alarm():
        pass
    time.sleep(0.2)
    assert not clock.rang
    other = threading.Thread(target=lambda: _slept(clock))
    other.start()
    other.join()
    assert not clock.rang


def _slept(clock: Clock) -> None:
    with clock.alarm():
        time.sleep(0.2)
