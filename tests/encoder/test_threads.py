"""Several threads load, encode and search at once, as a web service does: the same as one by one."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from transformers import PreTrainedModel
from transformers.utils import logging

import isotrope
from isotrope.encoder.embed import Vectors

THREADS = 8
MODEL = "isotrope/tiny"
TEXTS = [
    f"{subject} {verb} in {place}."
    for subject in ("A train", "The bread", "Rain", "The court")
    for verb in ("waits", "is late", "fell all night", "sits on Monday")
    for place in ("Ghent", "a small town", "the north")
]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    isotrope.encode(MODEL, TEXTS, tmp_path / "index.parquet")
    return tmp_path / "index.parquet"


def first_hits(index: Path, queries: list[str]) -> list[int]:
    return [hits[0].row for hits in isotrope.search(index, queries, top=1)]


def vectors_of_a_new_model(texts: list[str]) -> Vectors:
    return np.asarray(isotrope.load(MODEL, device="cpu").encode(texts))


def work_for(seconds: float, rounds: int, index: Path) -> None:
    """Mix loading, encoding and searching in eight threads, and compare with one thread."""
    shared = isotrope.load(MODEL, device="cpu")
    expected_vectors = np.asarray(shared.encode(TEXTS))
    expected_hits = first_hits(index, TEXTS)
    end = time.monotonic() + seconds

    def one_thread(seed: int) -> int:
        generator, done = random.Random(seed), 0
        while done < rounds or time.monotonic() < end:
            rows = generator.sample(range(len(TEXTS)), 5)
            texts = [TEXTS[row] for row in rows]
            job: Callable[[], None] = generator.choice([search, encode, load])
            job(texts, rows)  # type: ignore[call-arg]
            done += 1
        return done

    def search(texts: list[str], rows: list[int]) -> None:
        assert first_hits(index, texts) == [expected_hits[row] for row in rows]

    def encode(texts: list[str], rows: list[int]) -> None:
        np.testing.assert_allclose(
            isotrope.encode(shared, texts), expected_vectors[rows], atol=1e-6
        )

    def load(texts: list[str], rows: list[int]) -> None:
        np.testing.assert_allclose(vectors_of_a_new_model(texts), expected_vectors[rows], atol=1e-6)

    with ThreadPoolExecutor(THREADS) as pool:
        done = list(pool.map(one_thread, range(THREADS)))
    assert min(done) >= rounds


def test_eight_threads_equal_one(index: Path) -> None:
    work_for(0, 3, index)


@pytest.mark.slow
def test_eight_threads_equal_one_for_a_minute(index: Path) -> None:
    work_for(60, 3, index)


def test_nothing_of_transformers_is_replaced(index: Path) -> None:
    """A method that was replaced without a lock ended all loading in the process."""
    method = PreTrainedModel.__dict__["from_pretrained"]
    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    seen = []

    def search(query: str) -> None:
        seen.append(PreTrainedModel.__dict__["from_pretrained"])
        first_hits(index, [query])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(search, TEXTS[:4]))
    assert all(found is method for found in seen)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (level, has_bars)
