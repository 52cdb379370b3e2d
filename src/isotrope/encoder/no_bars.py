"""Hide the progress bars and reports of transformers, which would break into ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


@contextmanager
def without_bars() -> Iterator[None]:
    """No bar of transformers within; afterwards as before."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def without_reports() -> Iterator[None]:
    """Neither bars nor warnings of transformers within, for a model whose missing layers we make ourselves."""
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars():
            yield
    finally:
        logging.set_verbosity(level)
