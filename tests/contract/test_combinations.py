"""The papers together: each step and term of a combination counts; presets train and log every
term.
"""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope
from helpers.refusals import refused
from helpers.words import sentences
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.types import Batch

SETTINGS = [
    "views.sgw.groups=16",
    "scores.noise.step_size=0.05",
    "scores.noise.relative=true",
    "scores.noise.ratio=4.0",
]
DROPS = [
    "views.sgw",
    "views.mlp",
    "scores.hard_negatives",
    "scores.noise",
    "scores.instance_weight",
]
DROPS += ["terms.infonce", "terms.consistency", "terms.rank"]


def teacher(batch: Batch) -> Tensor:
    """Rows of which some are near each other, so that the weights remove a few."""
    drawn = torch.randn(len(batch.rows), 8, generator=torch.Generator().manual_seed(1))
    drawn[1::3] = drawn[::3][: len(drawn[1::3])] + 0.05 * drawn[1::3]
    return F.normalize(drawn, dim=-1)


def built(model: Path, *overrides: str) -> tuple[Objective, SentenceTransformer]:
    encoder = isotrope.load(model, "mean", dropout=0.0, device="cpu").train()
    torch.manual_seed(0)
    preset = read_preset("all-three", [*SETTINGS, *overrides])
    return build_objective(preset, encoder, teachers={"rank": teacher}), encoder


def total(objective: Objective, encoder: SentenceTransformer, columns: int = 3) -> float:
    text = sentences(48)
    features = [encoder.preprocess(part) for part in (text[:16], text[16:32], text[32:])[:columns]]
    return sum(value.item() for value in objective(features, torch.arange(16)).values())


@pytest.mark.parametrize("dropped", DROPS)
def test_deleting_any_step_or_term_changes_the_loss(tiny_model: Path, dropped: str) -> None:
    stage, name = dropped.split(".")
    preset = read_preset("all-three", SETTINGS)
    order = [label for label in getattr(preset, stage).get("order", []) if label != name]
    extra = [f"{stage}.order={json.dumps(order)}"] if order else []
    passes = ["views.passes=2"]  # so that a whole is left without whitening's copies too
    whole = total(*built(tiny_model, *passes))
    assert total(*built(tiny_model, *passes)) == whole, "the same objective, the same loss"
    rest = built(tiny_model, *passes, f"{dropped}=false", *extra)
    # the data brings some: without the step they are refused, not left out in silence
    if name == "hard_negatives":
        with refused("unused-negatives"):
            total(*rest)
        columns = 2
    else:
        columns = 3
    assert abs(total(*rest, columns) - whole) > 2e-5


SATURATED = ["simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three"]


@pytest.mark.parametrize("text", ["one sentence", "half of them twice"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", SATURATED)
def test_saturated_in_half_precision(
    name: str, dropout: float, text: str, tiny_model: Path
) -> None:
    """Whole presets at τ = .01 under bf16 autocast: equal sentences, cosines of 1, equal
    eigenvalues, teacher ties.
    """
    preset = read_preset(name)
    overrides = [
        f"terms.{label}.{key}=0.01"
        for label, table in preset.terms.items()
        for key in ("temperature", "teacher_temperature")
        if key == "temperature" or table.get("kind") == "listnet"
    ]
    overrides += ["views.sgw.groups=16"] if "sgw" in preset.views else []
    encoder = isotrope.load(tiny_model, "mean", dropout=dropout, device="cpu").train()
    tied = dict.fromkeys(
        preset.teachers, lambda batch: F.normalize(torch.ones(len(batch.rows), 32), dim=-1)
    )
    torch.manual_seed(0)
    objective = build_objective(read_preset(name, overrides), encoder, teachers=tied).train()
    objective.step = 1  # the first step refuses equal views, where nothing is to be learned
    drawn = sentences(8)
    chosen = [drawn[0]] * 12 if text == "one sentence" else [*drawn, *drawn[:4]]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = objective([encoder.preprocess(chosen)], torch.arange(12))
    sum(losses.values()).backward()
    assert all(loss.dtype == torch.float32 and torch.isfinite(loss) for loss in losses.values())
    gradients = [weight.grad for weight in objective.parameters() if weight.grad is not None]
    assert gradients
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
