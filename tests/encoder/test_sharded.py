"""An encoder that is spread, here over one process; over two: `tests/training/test_sharded.py`."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from sentence_transformers import SentenceTransformer
from torch.distributed.tensor import DTensor

from isotrope import load
from isotrope.encoder.sharded import clip, collected, gathered, load_whole, shard

TEXTS = ["the river ran by the city", "a king played in the army"]


@pytest.fixture
def both(tiny_model: Path, tmp_path: Path) -> Iterator[tuple[SentenceTransformer, SentenceTransformer]]:
    """A plain model, and the same one spread."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    plain = load(tiny_model, "mean", dropout=0.0, device="cpu")
    sharded = deepcopy(plain)
    shard(sharded, torch.device("cpu"))
    yield plain, sharded
    dist.destroy_process_group()


def test_it_gives_what_the_plain_model_gives(both: tuple[SentenceTransformer, SentenceTransformer]) -> None:
    """Vectors, gradients behind two forward passes, their norm, and vectors after a step of the weights."""
    head = torch.nn.Parameter(torch.ones(3))
    norms = []
    for model in both:
        for scale in (1, 2):
            features = model.preprocess(TEXTS)
            (model.train()(features)["sentence_embedding"][:, 0].sum() * scale).backward()
        head.grad = torch.ones(3)
        norms.append(clip([*model.parameters(), head], 0.1))
        with torch.no_grad():
            for weight in model.parameters():
                weight -= 0 if weight.grad is None else weight.grad
    plain, sharded = both
    assert any(isinstance(weight, DTensor) for weight in sharded.parameters())
    torch.testing.assert_close(*norms)
    for name, weight in collected(sharded.state_dict()).items():
        assert type(weight) is torch.Tensor
        torch.testing.assert_close(weight, plain.state_dict()[name], msg=name)
    with gathered(sharded):
        torch.testing.assert_close(plain.eval().encode(TEXTS), sharded.eval().encode(TEXTS))


def test_plain_weights_can_be_loaded(both: tuple[SentenceTransformer, SentenceTransformer]) -> None:
    plain, sharded = both
    with torch.no_grad():
        for weight in plain.parameters():
            weight += 0.1
    load_whole(sharded, plain.state_dict())
    assert all(torch.equal(x, plain.state_dict()[name]) for name, x in collected(sharded.state_dict()).items())
