"""A corpus in a cache beside the test's files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from corpora import open_corpus
from isotrope.text.corpus import Texts


@pytest.fixture
def corpus(tmp_path: Path) -> Callable[..., Texts]:
    """open_corpus with a cache beside the test's files."""
    return lambda *paths, **options: open_corpus(paths, cache=tmp_path / "cache", **options)
