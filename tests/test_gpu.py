"""On a GPU: the same vectors as on the processor, also compiled, and a few steps of most methods."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.words import sentences
from isotrope import load, train
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.fast.packed import compile_layers
from isotrope.preset.preset import read_preset

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
FAST = [
    "train.batch_size=16",
    "train.learning_rate=1e-3",
    "train.warmup=0",
    "train.epochs=1",
    "train.max_length=32",
]
METHODS = (
    "simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three", "consert", "mixcse", "arccse",
    "esimcse", "mocose", "ct", "pcl", "vascl", "tsdae", "isbert", "paser",
)  # fmt: skip


def test_vectors_are_those_of_the_processor(tiny_model: Path) -> None:
    texts = sentences(300)
    there, here = (vectors_of(load(tiny_model, device=device), texts) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(there, here, atol=2e-3)  # a GPU may multiply in 19 bits


def test_a_compiled_encoder_gives_the_same_vectors(tiny_model: Path) -> None:
    texts, model = sentences(64), load(tiny_model, device="cuda")
    before = vectors_of(model, texts)
    compile_layers(model)
    np.testing.assert_allclose(vectors_of(model, texts), before, atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains(method: str, tiny_model: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(sentences(64)))
    taught = {"guide": [str(tiny_model)], "rank": [str(tiny_model)]}
    recipe = read_preset(method)
    groups = ["views.sgw.groups=8"] if "sgw" in recipe.views else []
    done = train(
        text,
        output=tmp_path / "run",
        preset=method,
        model=tiny_model,
        overrides=[*FAST, *groups],
        dev="none",
        teachers={label: taught[label] for label in recipe.teachers},
    )
    losses = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    assert losses, "it logged"
    assert np.isfinite(vectors_of(done.model, sentences(8))).all()
