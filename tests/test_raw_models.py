"""The recipe for raw language models makes one that a training can begin with."""

from pathlib import Path

import pytest

import isotrope
from benchmarks.models.pretrain import BLOCK, Size, pretrain
from helpers.words import sentences

TOY = Size(layers=2, width=16, inner=16, heads=2, vocabulary=200, batch_size=2, tokens=6 * BLOCK)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences(400)) + "\n", encoding="utf-8")
    return pretrain([str(text)], tmp_path / "raw", TOY, TOY.tokens, seed=0)


def test_it_is_a_plain_encoder_with_its_tokenizer(raw: Path) -> None:
    model = isotrope.load(raw, "mean", device="cpu")
    assert model.encode(["the river ran by the city"]).shape == (1, TOY.width)
