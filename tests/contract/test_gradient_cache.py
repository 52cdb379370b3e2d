"""Gradient caching: the full batch's loss and gradients from mini-batches, for every objective and
trainer.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.contract import features as reading
from isotrope.preset.preset import build_objective, read_preset
from isotrope.terms.infonce import InfoNCE
from isotrope.types import Batch

N, PART = 12, 5  # the last part is smaller
PRESETS = [
    "simcse",
    "whitenedcse",
    "dclr",
    "rankcse-listnet",
    "rankcse-listmle",
    "all-three",
    "adapt",
]
Step = tuple[dict[str, Tensor], dict[str, Tensor]]  # losses and gradients, by name


def student(name: str | Path, dropout: float = 0.0) -> SentenceTransformer:
    torch.manual_seed(0)
    return load(name, "mean", dropout=dropout, device="cpu").train()


def columns(model: SentenceTransformer, count: int) -> list[dict[str, Tensor]]:
    """N sentences, then their positives and hard negatives."""
    text = sentences(count * N)
    return [model.preprocess(text[start : start + N]) for start in range(0, len(text), N)]


def step(
    objective: Objective,
    features: list[dict[str, Tensor]],
    autocast: bool = False,
    scale: float = 1.0,
) -> Step:
    """One training step, but for the optimizer; every call draws the same dropout."""
    objective.zero_grad()
    objective.step = 1  # past the first step's check that views differ
    torch.manual_seed(3)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        losses = objective([dict(column) for column in features], torch.arange(N))
    (torch.stack(list(losses.values())).sum() * scale).backward()
    found = {name: p.grad.clone() for name, p in objective.named_parameters() if p.grad is not None}
    assert sum(float(grad.abs().sum()) for grad in found.values()) > 0
    return losses, found


def difference(found: Step, expected: Step) -> float:
    """The largest of any number of losses and gradients, in units of the largest number there is,
    if that is above 1.

    (Through the whitening of twelve sentences gradients are as large as 100, and so is float32's
    rounding.)
    """
    assert [set(part) for part in found] == [set(part) for part in expected]
    pairs = [
        (a[name].detach(), b[name].detach())
        for a, b in zip(found, expected, strict=True)
        for name in a
    ]
    largest = max(float(b.abs().max()) for _, b in pairs)
    return max(float((a - b).abs().max()) for a, b in pairs) / max(1.0, largest)


def cached(
    objective: Objective, features: list[dict[str, Tensor]], size: int = PART, **options: Any
) -> Step:
    objective.mini_batch_size = size
    try:
        return step(objective, features, **options)
    finally:
        objective.mini_batch_size = None


def taught(batch: Batch) -> Tensor:
    """A teacher: random unit rows by row id."""
    table = torch.randn(N, 32, generator=torch.Generator().manual_seed(1))
    return torch.nn.functional.normalize(table, dim=-1)[batch.rows]


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("texts", [2, 4])
def test_every_preset_has_the_full_batchs_loss_and_gradients(
    tiny_model: Path, name: str, texts: int
) -> None:
    """With a positive; with two hard negatives besides. To 1e-5, and in float64 to its rounding."""
    preset = read_preset(name)
    preset = read_preset(name, ["views.sgw.groups=16"] if "sgw" in preset.views else [])
    model = student(tiny_model)
    objective = build_objective(preset, model, teachers=dict.fromkeys(preset.teachers, taught))
    features = columns(model, texts)
    assert difference(cached(objective, features), step(objective, features)) < 1e-5
    objective.double()
    assert difference(cached(objective, features), step(objective, features)) < 1e-12


@pytest.mark.parametrize("name", ["shuffle", "cutoff", "repeat"])
def test_token_steps_give_the_same_copies_twice(tiny_model: Path, name: str) -> None:
    """Three passes over one text, two of them changed, with Matryoshka dimensions."""
    model = student(tiny_model)
    change = component(
        "tokens", name, **({"unit": "feature", "ratio": 0.5} if name == "cutoff" else {})
    )
    objective = Objective(
        model, {"infonce": InfoNCE()}, tokens=[(change, [1, 2])], passes=3, dims=[8, 32]
    )
    features = columns(model, 1)
    whole = step(objective, features)
    assert set(whole[0]) == {"infonce@8", "infonce@32"}
    assert difference(cached(objective, features), whole) < 1e-5


@pytest.mark.parametrize(
    ("name", "checkpoints"), [("bert", False), ("bert", True), ("isotrope/tiny", False)]
)
def test_dropout_is_the_same_in_both_runs(
    tiny_model: Path, name: str, checkpoints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the mini-batches were one graph; where the random state is not kept, gradients are
    others.
    """
    model = student(tiny_model if name == "bert" else name, dropout=0.1)
    if checkpoints:
        model[0].auto_model.activation_checkpointing_enable()
    objective = build_objective(read_preset("simcse"), model)
    features = columns(model, 1)
    torch_checkpoint = reading.checkpoint
    found = cached(objective, features)
    after = torch.rand(3)
    monkeypatch.setattr(reading, "checkpoint", _one_graph)
    expected = cached(objective, features)
    assert torch.equal(after, torch.rand(3)), (
        "backward leaves torch's generator where forward left it"
    )
    assert difference(found, expected) < 1e-6
    monkeypatch.setattr(reading, "checkpoint", partial(torch_checkpoint, preserve_rng_state=False))
    assert difference(cached(objective, features), expected) > 1e-3


def _one_graph(function: Callable[..., Tensor], *arguments: Any, use_reentrant: bool) -> Tensor:
    return function(*arguments)


def test_bf16_is_as_near_as_the_full_batch(tiny_model: Path) -> None:
    """A sentence at a time: gradients of weight matrices are summed in float32, not in the
    precision of products.
    """
    model = student(tiny_model)
    objective = build_objective(read_preset("simcse"), model)
    features = columns(model, 4)
    exact, whole = step(objective, features), step(objective, features, autocast=True)
    parts = cached(objective, features, size=1, autocast=True)

    def error(found: Step) -> float:
        matrices = {name: grad for name, grad in exact[1].items() if name.endswith("dense.weight")}
        return sum(
            float((found[1][name] - grad).norm() / grad.norm()) for name, grad in matrices.items()
        )

    assert 0 < error(parts) < 1.1 * error(whole)


def test_forward_keeps_embeddings_alone(tiny_model: Path) -> None:
    """No more than a mini-batch is in the encoder at a time, in both runs, and what it computes
    there is not kept.
    """
    model = student(tiny_model)
    objective = build_objective(read_preset("simcse"), model)
    features = columns(model, 2)
    rows: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0]["input_ids"])))
    kept = {}
    for size in (None, PART):
        saved: list[int] = []
        objective.mini_batch_size, objective.step = size, 1
        with torch.autograd.graph.saved_tensors_hooks(_counting(saved), lambda tensor: tensor):
            loss = objective([dict(column) for column in features])["infonce"]
        kept[size] = sum(saved)
    assert rows == [N, N, 5, 5, 2, 5, 5, 2]
    loss.backward()
    assert rows[8:] == [2, 5, 5, 2, 5, 5], "backward, from the last to the first"
    assert kept[PART] < kept[None] / 10


def _counting(saved: list[int]) -> Callable[[Tensor], Tensor]:
    def pack(tensor: Tensor) -> Tensor:
        saved.append(0 if isinstance(tensor, nn.Parameter) else tensor.numel())
        return tensor

    return pack
