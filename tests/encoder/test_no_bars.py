"""The bars of transformers are hidden for a while, and then as before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from transformers.utils import logging

from isotrope.encoder.no_bars import without_bars, without_reports


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    shown = logging.is_progress_bar_enabled()
    yield
    (logging.enable_progress_bar if shown else logging.disable_progress_bar)()


@pytest.mark.parametrize("shown", [True, False])
def test_afterwards_it_is_as_before(shown: bool) -> None:
    """A user who has switched them off does not get them back."""
    (logging.enable_progress_bar if shown else logging.disable_progress_bar)()
    with without_bars():
        assert not logging.is_progress_bar_enabled()
        with without_bars():
            pass
        assert not logging.is_progress_bar_enabled()
    assert logging.is_progress_bar_enabled() is shown


def test_also_after_an_error() -> None:
    logging.enable_progress_bar()
    with pytest.raises(KeyboardInterrupt), without_bars():
        raise KeyboardInterrupt
    assert logging.is_progress_bar_enabled()


def test_reports_are_silent_within_alone() -> None:
    before = logging.get_verbosity()
    with without_reports():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == before
