"""The papers together: each step and term of a combination counts; presets train, log every term, and resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope
from conftest import sentences
from isotrope.objective import Objective
from isotrope.preset import build_objective, read_preset
from isotrope.scores.instance_weight import InstanceWeight
from isotrope.types import Batch

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
    assert abs(total(*built(tiny_model, *passes, f"{dropped}=false", *extra)) - whole) > 2e-5


def test_noise_and_weights_reach_every_positive(tiny_model: Path) -> None:
    objective, encoder = built(tiny_model)
    seen = []
    last = objective.scores[-1]
    assert isinstance(last, InstanceWeight)

    def spy(scores):  # type: ignore[no-untyped-def]
        seen.append(last(scores))
        return seen[-1]

    objective.scores[-1] = spy
    total(objective, encoder, columns=1)
    (scores,) = seen
    positives, anchors, candidates = scores.cosines.shape
    assert positives == 2, "three views of one pass: an anchor and two positives"
    assert candidates == anchors + 4 * 16, "batch and noise"
    assert scores.keep[:, :anchors].sum() < anchors**2, "the weights removed some"
    assert torch.equal(scores.keep.diagonal(), torch.ones(anchors))


WHITENED = ["whitenedcse", "whitenedcse-bert-base-released", "whitened-dclr", "whitened-rank", "all-three"]
OTHERS = ["dclr", "rankcse-listnet", "rankcse-listmle", "dclr-rank"]


@pytest.mark.parametrize("name", [*WHITENED, *OTHERS])
def test_presets_train_with_every_term_logged(name: str, tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    overrides = ["views.sgw.groups=16"] if name in WHITENED else []
    overrides += [
        "train.batch_size=16", "train.epochs=1", "train.eval_steps=5", "encoder.pooling=mean", "train.save_steps=6",
    ]  # fmt: skip
    teachers = {label: [str(tiny_model)] for label in read_preset(name).teachers}
    run = isotrope.train(
        corpus_file, output=tmp_path / "run", preset=name, backbone=str(tiny_model), teachers=teachers, dev="none",
        test="none", sentences=160, overrides=overrides,
    )  # fmt: skip
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    logged = [record for record in records if "loss" in record]
    assert logged
    for record in logged:
        terms = [record[term] for term in read_preset(name).terms]
        assert all(torch.isfinite(torch.tensor(terms)))
        assert sum(terms) == pytest.approx(record["loss"], abs=1e-2)


def test_a_paper_s_preset_resumes_exactly(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """Head, running statistics, random steps and teachers: a run stopped half-way ends as one that was not."""
    overrides = ["views.sgw.groups=16", "train.batch_size=16", "train.save_steps=4", "encoder.pooling=mean"]

    def run(name: str, resume: bool = False) -> dict[str, Tensor]:
        done = isotrope.train(
            corpus_file, output=tmp_path / name, preset="all-three", backbone=str(tiny_model), dev="none", test="none",
            teachers={"rank": [str(tiny_model)]}, sentences=160, overrides=overrides, resume=resume,
        )  # fmt: skip
        return load_file(done.model / "model.safetensors")

    whole = run("whole")
    run("cut")
    checkpoints = tmp_path / "cut" / "checkpoints"
    (checkpoints / "checkpoint-10" / "complete.json").unlink()  # as if killed while it was written
    (tmp_path / "cut" / "result.json").unlink()
    again = run("cut", resume=True)
    assert all(torch.equal(whole[name], again[name]) for name in whole)
