"""Several passes over one text: each with its token steps, all in one forward."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

import isotrope.objective.objective
import isotrope.objective.passes
from conftest import sentences
from isotrope import Objective, component, load
from isotrope.encoder.features import KEEP
from isotrope.encoder.gradient_cache import embed_in_parts
from isotrope.terms.infonce import InfoNCE


def student(folder: Path, dropout: float = 0.1) -> SentenceTransformer:
    return load(folder, "mean", dropout=dropout, device="cpu")


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [model.preprocess(text) for text in texts]


def test_token_steps_touch_their_passes_alone(tiny_model: Path) -> None:
    def blank(features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        return {**features, "input_ids": torch.full_like(features["input_ids"], 7)}

    model = student(tiny_model, dropout=0.0).eval()
    views = Objective(model, {"infonce": InfoNCE()}, tokens=[(blank, [1])]).encode(columns(model, sentences(4)), None)
    plain = Objective(model, {"infonce": InfoNCE()}).encode(columns(model, sentences(4)), None)
    assert torch.equal(views.stack[0], plain.stack[0])
    assert not torch.allclose(views.stack[1], plain.stack[1])


def test_a_step_that_lengthens_its_pass_leaves_the_others(tiny_model: Path) -> None:
    """Word repetition widens pass 1; what the padding hides changes nothing in pass 0."""
    model = student(tiny_model, dropout=0.0).eval()
    repeat = component("tokens", "repeat", ratio=0.5)
    objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(repeat, [1])])
    views = objective.encode(columns(model, sentences(6)), None)
    plain = Objective(model, {"infonce": InfoNCE()}).encode(columns(model, sentences(6)), None)
    assert torch.allclose(views.stack[0], plain.stack[0], atol=1e-5)
    assert not torch.allclose(views.stack[1], plain.stack[1], atol=1e-3)


@pytest.mark.parametrize(("kind", "options", "embedded"), [
    ("shuffle", {}, False), ("cutoff", {}, False), ("repeat", {}, False), ("cutoff", {"unit": "feature"}, True),
])  # fmt: skip
def test_only_erased_features_make_the_encoder_read_embeddings(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, str], embedded: bool
) -> None:
    model = student(tiny_model).train()
    step = component("tokens", kind, **options)
    objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(step, [1])])
    seen = []

    def spy(model: nn.Module, features: dict[str, Tensor], size: int | None) -> Tensor:
        seen.append(KEEP in features)
        return embed_in_parts(model, features, size)

    monkeypatch.setattr(isotrope.objective.passes, "embed_in_parts", spy)
    objective(columns(model, sentences(6)), None)
    assert seen == [embedded]
