"""The dtype of an encoding: recorded, kept when the work goes on, and the given model stays as it
was.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotrope.encoding.encode as room
from helpers.refusals import refused
from helpers.small_shards import contents, lines, stop_at
from isotrope import load
from isotrope.encoder.fast import dtype as choice
from isotrope.encoder.fast.dtype import dtype_of
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoder.fast.int8 import has_int8
from isotrope.encoding.encode import encode

needs_bf16 = pytest.mark.skipif(not has_bf16(), reason="this processor has no bf16")
needs_int8 = pytest.mark.skipif(not has_int8(), reason="this processor has no 8-bit products")


@pytest.fixture(autouse=True)
def always_faster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A tiny model is not: here auto means bf16, from 30 texts on."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(choice, "FASTER", 0)
    monkeypatch.setattr(choice, "CLOSE", 0.9)
    monkeypatch.setattr(room, "MIN_TEXTS_TO_MEASURE", 30)


def dtype_in(folder: Path) -> Any:
    return json.loads((folder / "_manifest.json").read_text())["made_from"]["dtype"]


@needs_bf16
def test_the_manifest_says_it(tmp_path: Path, tiny_model: Path, corpus_file: Path) -> None:
    found = {}
    for name, count, said in [
        ("auto", 30, "bf16"),
        ("float32", 30, "float32"),
        ("bf16", 30, "bf16"),
        ("auto", 29, "float32"),
    ]:
        folder = tmp_path / f"{name}{count}"
        encode(tiny_model, lines(corpus_file, tmp_path / "c.txt", count), folder, dtype=name)
        assert dtype_in(folder) == said
        found[folder.name] = contents(folder)["part-00000.parquet"]
    assert found["auto30"] == found["bf1630"] != found["float3230"]


@needs_bf16
def test_a_given_model_stays_as_it_was(tiny_model: Path, corpus_file: Path) -> None:
    model = load(tiny_model, device="cpu")
    texts = corpus_file.read_text(encoding="utf-8").splitlines()[:40]
    before = model.encode(texts)
    found = encode(model, texts)
    assert np.abs(found - before).max() > 1e-4  # it was encoded in bf16
    assert np.array_equal(found, encode(model, texts, dtype="bf16"))
    assert dtype_of(model) == "float32"
    assert np.array_equal(model.encode(texts), before)
    assert all(weight.requires_grad for weight in model.parameters())
    half = load(tiny_model, device="cpu", dtype="bf16")
    assert np.allclose(encode(half, texts, dtype="float32"), before, atol=1e-6)
    assert dtype_of(half) == "bf16"


@needs_bf16
@pytest.mark.parametrize("first", ["auto", "float32"])
def test_goes_on_as_it_was_begun(
    first: str, tmp_path: Path, tiny_model: Path, corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a measurement would now say something else."""
    file = lines(corpus_file, tmp_path / "c.txt", 40)
    encode(tiny_model, file, tmp_path / "whole", shard=20, dtype=first)
    with pytest.raises(KeyboardInterrupt):
        encode(tiny_model, file, tmp_path / "v", shard=20, dtype=first, progress=stop_at(20))
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "other"))
    monkeypatch.setattr(choice, "FASTER", 99 if first == "auto" else 0)
    other = "float32" if first == "auto" else "bf16"
    with refused("begun-differently", other):
        encode(tiny_model, file, tmp_path / "v", shard=20, dtype=other)
    encode(tiny_model, file, tmp_path / "v", shard=20)
    assert contents(tmp_path / "v") == contents(tmp_path / "whole")
    encode(tiny_model, file, tmp_path / "v", shard=20)  # finished: nothing is begun anew
    encode(tiny_model, file, tmp_path / "v", shard=20, restart=True)
    assert dtype_in(tmp_path / "v") == ("float32" if first == "auto" else "bf16")


@needs_int8
def test_8_bits_depend_on_the_texts_alone(
    tmp_path: Path, tiny_model: Path, corpus_file: Path
) -> None:
    """Whoever encodes the same texts gets the same vectors, also after a stop and with Ray."""
    file = lines(corpus_file, tmp_path / "c.txt", 40)
    encode(tiny_model, file, tmp_path / "whole", shard=20, dtype="int8")
    assert dtype_in(tmp_path / "whole") == "int8"
    exact = encode(tiny_model, file, dtype="float32")
    rounded = encode(tiny_model, file, dtype="int8")
    assert np.abs(exact - rounded).max() > 1e-5

    with pytest.raises(KeyboardInterrupt):
        encode(tiny_model, file, tmp_path / "v", shard=20, dtype="int8", progress=stop_at(20))
    encode(tiny_model, file, tmp_path / "v", shard=20)  # auto goes on in 8 bits
    assert contents(tmp_path / "v") == contents(tmp_path / "whole")

    quantised = load(tiny_model, device="cpu", dtype="int8")
    before = quantised.encode("a river")
    assert np.array_equal(encode(quantised, file, dtype="int8"), rounded)
    assert np.array_equal(quantised.encode("a river"), before)  # the given model stays as it was


@needs_int8
def test_auto_takes_8_bits_where_there_are_no_16(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "has_bf16", lambda: False)
    file = lines(corpus_file, tmp_path / "c.txt", 45)
    for same_hits, expected in ((0.0, "int8"), (1.01, "float32")):
        monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / expected))
        monkeypatch.setattr(choice, "SAME_HITS", same_hits)
        encode(tiny_model, file, tmp_path / "v", restart=True)
        assert dtype_in(tmp_path / "v") == expected
