"""The papers together: each step and term of a combination counts; presets train and log every term."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope
from conftest import sentences
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.released.zero_logit import ZeroLogit
from isotrope.scores.instance_weight import InstanceWeight
from isotrope.scores.noise import Noise
from isotrope.terms.infonce import InfoNCE
from isotrope.types import Batch, Scores, Views

SETTINGS = [
    "views.sgw.groups=16",
    "scores.noise.step_size=0.05",
    "scores.noise.relative=true",
    "scores.noise.ratio=4.0",
]
DROPS = ["views.sgw", "views.mlp", "scores.hard_negatives", "scores.noise", "scores.instance_weight"]
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
    if name == "hard_negatives":  # the data brings some: without the step they are refused, not left out in silence
        with pytest.raises(UserError, match="the data has hard negatives, and no step uses them"):
            total(*rest)
        columns = 2
    else:
        columns = 3
    assert abs(total(*rest, columns) - whole) > 2e-5


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(1, 3), st.sampled_from([InstanceWeight, ZeroLogit]), st.integers(0, 10_000))
def test_without_noise_and_above_one_dclr_is_infonce(
    count: int, positives: int, kind: type[InstanceWeight], seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    stack = torch.randn(1 + positives, count, 6, generator=generator, dtype=torch.float64)
    rows = F.normalize(torch.randn(count, 6, generator=generator, dtype=torch.float64), dim=-1)
    batch = Batch(torch.arange(count), generator)
    plain = Scores.from_views(Views(batch, stack, stack.new_zeros(count, 0, 6), {"guide": rows}))
    dclr = kind("guide", 1.0 + 1e-6, noise=True)(Noise(ratio=0.0)(plain))
    assert InfoNCE()(dclr).item() == InfoNCE()(plain).item()


SATURATED = ["simcse", "whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three"]


@pytest.mark.parametrize("text", ["one sentence", "half of them twice"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("name", SATURATED)
def test_saturated_in_half_precision(name: str, dropout: float, text: str, tiny_model: Path) -> None:
    """Whole presets at τ = .01 under bf16 autocast: equal sentences, cosines of 1, equal eigenvalues, teacher ties."""
    preset = read_preset(name)
    overrides = [
        f"terms.{label}.{key}=0.01"
        for label, table in preset.terms.items()
        for key in ("temperature", "teacher_temperature")
        if key == "temperature" or table.get("kind") == "listnet"
    ]
    overrides += ["views.sgw.groups=16"] if "sgw" in preset.views else []
    encoder = isotrope.load(tiny_model, "mean", dropout=dropout, device="cpu").train()
    tied = dict.fromkeys(preset.teachers, lambda batch: F.normalize(torch.ones(len(batch.rows), 32), dim=-1))
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


QUICK = ["whitened-dclr", "dclr-rank"]  # each preset trains in the slow tests of the next file


@pytest.mark.parametrize("name", QUICK)
def test_presets_train_with_every_term_logged(name: str, tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    overrides = ["views.sgw.groups=16"] if name.startswith("whitened") else []
    overrides += [
        "train.batch_size=16", "train.epochs=1", "train.eval_steps=2", "encoder.pooling=mean", "train.save_steps=6",
    ]  # fmt: skip
    teachers = {label: [str(tiny_model)] for label in read_preset(name).teachers}
    run = isotrope.train(
        corpus_file, output=tmp_path / "run", preset=name, model=str(tiny_model), teachers=teachers, dev="none",
        labels="none", sentences=64, overrides=overrides,
    )  # fmt: skip
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    logged = [record for record in records if "loss" in record]
    assert logged
    for record in logged:
        terms = [record[term] for term in read_preset(name).terms]
        assert all(torch.isfinite(torch.tensor(terms)))
        assert sum(terms) == pytest.approx(record["loss"], abs=1e-2)
