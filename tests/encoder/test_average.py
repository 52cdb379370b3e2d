"""Weights between two models."""

from copy import deepcopy
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.encoder.average import average
from isotrope.encoder.pooling import dense

TEXTS = ["the river ran by the city", "a king played in the army"]
Models = tuple[SentenceTransformer, SentenceTransformer]


@pytest.fixture
def models(tiny_model: Path) -> Models:
    """A model with a layer behind it, and the same after some changes."""
    start = load(tiny_model, "first_last")
    start.append(dense(torch.eye(32), torch.zeros(32)))
    trained = deepcopy(start)
    torch.manual_seed(0)
    with torch.no_grad():
        for weights in trained.parameters():
            weights += 0.1 * torch.randn_like(weights)
    return start, trained


def test_both_ends_are_exact_and_halfway_is_the_mean_of_every_modules_weights(
    models: Models,
) -> None:
    """Buffers of whole numbers are those of the trained model."""
    for alpha, model in enumerate(models):
        wanted = model.state_dict()
        assert all(
            torch.equal(value, wanted[name])
            for name, value in average(*models, alpha).state_dict().items()
        )
    for count, model in enumerate(models):
        model[0].register_buffer("steps", torch.tensor(count))
    start, trained = (model.state_dict() for model in models)
    found = average(*models, 0.5).state_dict()
    assert any(name.startswith("3.") for name in found), "the layer behind the pooling"
    for name, value in found.items():
        wanted = (start[name] + trained[name]) / 2 if value.is_floating_point() else trained[name]
        torch.testing.assert_close(value, wanted, msg=name)


def test_sums_of_half_precision_are_in_float32(tiny_model: Path) -> None:
    """And the result is rounded once."""
    start = load(tiny_model).to(torch.bfloat16)
    trained = deepcopy(start)
    name, weights = next(iter(trained.named_parameters()))
    with torch.no_grad():
        weights *= 1.5
    found, old = (
        dict(average(start, trained, 0.3).named_parameters())[name],
        dict(start.named_parameters())[name],
    )
    assert found.dtype == torch.bfloat16
    wanted = (0.7 * old.float() + 0.3 * weights.float()).bfloat16()
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-8)
