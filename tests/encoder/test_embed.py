"""The one embedding loop: each distinct text once, in order, checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotrope import load
from isotrope.encoder.embed import cut, vectors_of
from isotrope.errors import UserError


class Lengths:
    """A text's vector is its length, twice; remembers what it was asked."""

    def __init__(self, convert: Callable[[np.ndarray], Any] = lambda rows: rows) -> None:
        self.convert, self.calls = convert, list[list[str]]()

    def encode(self, sentences: list[str]) -> Any:
        self.calls.append(sentences)
        return self.convert(np.array([[len(text), len(text)] for text in sentences], np.float32))


TEXTS = ["bb", "a", "bb", "dddd", "ccc", "a"]


def test_one_call_in_the_order_of_first_occurrence() -> None:
    """A step that is fitted on the target needs all of it at once; its rounding depends on the order."""
    encoder = Lengths()
    assert vectors_of(encoder, TEXTS)[:, 0].tolist() == [2, 1, 2, 4, 3, 1]
    assert encoder.calls == [["bb", "a", "dddd", "ccc"]]


def test_the_longest_first_in_batches() -> None:
    encoder, done = Lengths(), list[int]()
    assert vectors_of(encoder, TEXTS, batch_size=3, progress=done.append)[:, 0].tolist() == [2, 1, 2, 4, 3, 1]
    assert encoder.calls == [["dddd", "ccc", "bb"], ["a"]]
    assert done == [0, 4, 6]


def test_a_chinese_letter_counts_more(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.encoder.embed.TOKENS", 60)
    monkeypatch.setattr("torch.get_num_threads", lambda: 1)
    done = list[int]()
    texts = [f"{'河' * 37}{i:03}" for i in range(8)]  # 114 bytes each, but 40 letters
    vectors_of(load(tiny_model, device="cpu"), texts, batch_size=8, progress=done.append)
    assert done == [*range(0, 9, 2), 8]


def test_every_forward_pass_is_told(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of a sentence-transformers model may take minutes: a pass is what can be counted."""
    told = list[tuple[object, ...]]()
    monkeypatch.setattr("isotrope.encoder.embed.tell", lambda *state: told.append(state))
    texts = [f"river {i}" for i in range(80)] * 2
    vectors_of(load(tiny_model), texts)
    assert told == [("encoded", done, 160) for done in (0, 64, 128, 160, 160)]  # 32 distinct sentences a pass


@pytest.mark.parametrize(("threads", "length", "texts_a_pass"), [(1, 64, 2), (2, 64, 4), (1, 10, 8), (1, 20, 4)])
def test_a_pass_has_fewer_of_the_long_texts(
    threads: int, length: int, texts_a_pass: int, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About 40 tokens each: two texts for a thread of 80 tokens; the short ones come sixteen passes later."""
    monkeypatch.setattr("isotrope.encoder.embed.TOKENS", 80)
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    model = load(tiny_model, device="cpu", max_length=length)
    done = list[int]()
    count = 16 * texts_a_pass
    texts = [f"{'river ' * 26}{i:03}" for i in range(count)] + [f"{i}" for i in range(30)]
    vectors = vectors_of(model, texts, batch_size=8, progress=done.append)
    assert np.diff(done)[:16].tolist() == [texts_a_pass] * 16
    assert max(np.diff(done)[16:]) == 8
    np.testing.assert_allclose(vectors[-1], model.encode([texts[-1]])[0], atol=1e-6)


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (torch.from_numpy, np.float32),
        (lambda rows: torch.from_numpy(rows).bfloat16(), np.float32),
        (lambda rows: [torch.from_numpy(row) for row in rows], np.float32),
        (lambda rows: rows.tolist(), np.float64),
        (lambda rows: rows.astype(np.float16), np.float32),
        (lambda rows: rows.astype(np.float64), np.float64),
        (lambda rows: torch.from_numpy(rows).double().requires_grad_(), np.float64),
    ],
)
def test_arrays_tensors_and_lists(convert: Callable[[np.ndarray], Any], dtype: type) -> None:
    vectors = vectors_of(Lengths(convert), TEXTS)
    assert vectors.dtype == dtype
    assert vectors[:, 1].tolist() == [2, 1, 2, 4, 3, 1]


def _spoilt(value: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: np.where(rows == 3, value, rows)


@pytest.mark.parametrize(
    ("encoder", "problem"),
    [
        ("a name", "'a name' is not an encoder"),
        (3, "3 is not an encoder"),
        (Lengths(lambda rows: rows[1:]), r"shape \(\d, 2\) for \d sentences"),
        (Lengths(lambda rows: rows[:, 0]), r"gave shape \(\d,\)"),
        (Lengths(lambda rows: rows[:, :0]), r"gave shape \(\d, 0\)"),
        (Lengths(_spoilt(np.nan)), r"row 104 \(counted from 0\), 'ccc'"),
        (Lengths(_spoilt(np.inf)), "infinity"),
        (Lengths(_spoilt(1e20)), "beyond 1e\\+15"),
    ],
)
def test_one_line_for_what_is_no_vector(encoder: Any, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        vectors_of(encoder, TEXTS, batch_size=3, first_row=100)


def test_a_model_gives_the_same_vectors_in_any_order(tiny_model: Path) -> None:
    model = load(tiny_model)
    texts = ["the king", "a river in the city was built by the army", "the king", "a fish"]
    vectors = vectors_of(model, texts, batch_size=2)
    np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-5)
    np.testing.assert_array_equal(vectors[0], vectors[2])


@pytest.mark.parametrize(("length", "read"), [(5, 5), (1000, 64), (None, 64)])
def test_a_model_reads_less_for_a_while(tiny_model: Path, length: int | None, read: int) -> None:
    model = load(tiny_model)
    with cut(model, length):
        assert model.max_seq_length == read
    assert model.max_seq_length == 64
