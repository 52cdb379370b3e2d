"""A pretraining that takes seconds."""

import io
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from isotrope.console.plain import plain_console
from isotrope.pretraining import pretrain
from isotrope.pretraining.recipe import Recipe
from isotrope.training.checkpoints import whole_checkpoints

TOY = Recipe(
    layers=2, width=16, inner=16, heads=2, vocabulary=120, batch=4, tokens=1_280, block=16, warmup_steps=5,
    learning_rate=2e-2, max_positions=32, held_out_blocks=8,
)  # fmt: skip


def run_toy(corpus: Path, output: Path, **options: Any) -> Path:
    """Pretrain with a checkpoint at every step, and say nothing."""
    options = {
        "size": TOY,
        "checkpoint_minutes": 0.0,
        "console": plain_console(file=io.StringIO()),
        **options,
    }
    return pretrain([corpus], output=output, **options)


def weights(output: Path) -> dict[str, torch.Tensor]:
    """Of the last checkpoint."""
    return load_file(whole_checkpoints(output / "checkpoints")[-1] / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Bit for bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
