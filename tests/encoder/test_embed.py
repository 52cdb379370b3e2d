"""The one embedding loop: order, batches and memory; models that only encode keep 16 bits."""

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.small_encoders import KINDS, as_student
from helpers.words import WORDS
from isotrope import load
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import freed_memory, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.errors import UserError


class Lengths:
    """A text's vector is its length, twice; remembers what it was asked."""

    def __init__(self, convert: Callable[[np.ndarray], Any] = lambda rows: rows) -> None:
        self.convert, self.calls = convert, list[list[str]]()

    def encode(self, sentences: list[str]) -> Any:
        self.calls.append(sentences)
        return self.convert(np.array([[len(text), len(text)] for text in sentences], np.float32))


TEXTS = ["bb", "a", "bb", "dddd", "ccc", "a"]


def test_one_call_in_the_order_of_first_occurrence_and_the_longest_first_in_batches() -> None:
    """A step that is fitted on the target needs all of it at once; its rounding depends on the
    order.
    """
    encoder, done = Lengths(), list[int]()
    assert vectors_of(encoder, TEXTS)[:, 0].tolist() == [2, 1, 2, 4, 3, 1]
    assert vectors_of(encoder, TEXTS, batch_size=3, progress=done.append)[:, 0].tolist() == [
        2,
        1,
        2,
        4,
        3,
        1,
    ]
    assert encoder.calls == [["bb", "a", "dddd", "ccc"], ["dddd", "ccc", "bb"], ["a"]]
    assert done == [0, 4, 6]


@pytest.mark.parametrize(
    ("threads", "length", "texts_a_pass"), [(1, 64, 2), (2, 64, 4), (1, 10, 8), (1, 20, 4)]
)
def test_a_pass_has_fewer_of_the_long_texts(
    threads: int, length: int, texts_a_pass: int, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About 40 tokens each: two texts for a thread of 80 tokens; the short ones come sixteen passes
    later.
    """
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
        (lambda rows: torch.from_numpy(rows).bfloat16(), np.float32),
        (lambda rows: [torch.from_numpy(row) for row in rows], np.float32),
        (lambda rows: rows.tolist(), np.float64),
        (lambda rows: rows.astype(np.float16), np.float32),
        (lambda rows: torch.from_numpy(rows).double().requires_grad_(), np.float64),
    ],
)
def test_arrays_tensors_and_lists(convert: Callable[[np.ndarray], Any], dtype: type) -> None:
    vectors = vectors_of(Lengths(convert), TEXTS)
    assert vectors.dtype == dtype
    assert vectors[:, 1].tolist() == [2, 1, 2, 4, 3, 1]


def _spoilt(value: float) -> Lengths:
    return Lengths(lambda rows: np.where(rows == 3, value, rows))


@pytest.mark.parametrize(
    ("encoder", "problem"),
    [
        ("a name", "'a name' is not an encoder"),
        (Lengths(lambda rows: rows[1:]), r"shape \(\d, 2\) for \d sentences"),
        (Lengths(lambda rows: rows[:, 0]), r"gave shape \(\d,\)"),
        (_spoilt(np.nan), r"row 104 \(counted from 0\), 'ccc'"),
        (_spoilt(np.inf), "infinity"),
        (_spoilt(1e20), "beyond 1e\\+15"),
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


def test_a_model_reads_less_for_a_while(tiny_model: Path) -> None:
    model = load(tiny_model)
    for length, read in ((5, 5), (1000, 64), (None, 64)):
        with limit_length(model, length):
            assert model.max_seq_length == read
        assert model.max_seq_length == 64


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc can be asked")
def test_pieces_between_what_is_kept_are_given_back() -> None:
    pieces = [bytearray(100_000) for _ in range(3_000)]  # below the size that is mapped alone
    kept = pieces[::30]
    del pieces
    before = psutil.Process().memory_info().rss
    freed_memory.give_back()
    assert psutil.Process().memory_info().rss < before - 50e6
    assert len(kept) == 100


TEXTS_STORED = [" ".join(WORDS[:3]), " ".join(WORDS[5:12]), WORDS[1]]


def narrow(folder: Path, kind: torch.dtype) -> None:
    """Store the weights of a model in 16 bits, in place; its configuration asks for 32."""
    path = folder / "model.safetensors"
    save_file(
        {name: value.to(kind) for name, value in load_file(path).items()},
        path,
        metadata={"format": "pt"},
    )
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_the_vectors_are_those_of_32_bits(kind: str, stored: torch.dtype, tmp_path: Path) -> None:
    as_student(kind, tmp_path)
    narrow(tmp_path, stored)
    for pooling in (
        ("mean", "cls_head", "first_last", "embeddings") if kind == "Bert" else ("mean",)
    ):
        plain, frozen = (
            load(tmp_path, pooling, device="cpu", frozen=frozen) for frozen in (False, True)
        )
        assert frozen[0].auto_model.get_input_embeddings().weight.dtype.itemsize == 2
        assert not any(weights.requires_grad for weights in frozen.parameters())
        assert {weights.dtype for weights in plain.parameters()} == {torch.float32}
        found = frozen.encode(TEXTS_STORED)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, plain.encode(TEXTS_STORED))
        # vectors of one are those of the other
        assert model_checksum(frozen) == model_checksum(plain)
