"""Cutoff behind the embedding layer against a naive oracle: one sentence at a time, by hand through BERT's layers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.contract.features import LAYER_FEATURES, LAYER_TOKENS
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.layer_cutoff import LayerCutoff, token_cutoff
from token_batches import seeded


def by_hand(folder: Path, ids: Tensor, zero: list[tuple[int, int | None]]) -> Tensor:
    """[CLS] of one sentence (L,), without padding. ``zero``: (row, column) of the embedding layer; None: all."""
    bert = load(folder, "cls", dropout=0.0, device="cpu", packed=False)[0].auto_model.eval()
    states = bert.embeddings(input_ids=ids[None])
    for token, feature in zero:
        states[0, token, slice(None) if feature is None else feature] = 0.0
    return bert.encoder(states).last_hidden_state[0, 0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("unit", ["token", "feature"])
@pytest.mark.parametrize("packed", [True, False])
def test_equals_what_is_erased_by_hand(tiny_model: Path, unit: str, packed: bool) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=packed).eval()
    column = model.preprocess(sentences(4))
    lengths = column["attention_mask"].sum(dim=1).tolist()
    assert len(set(lengths)) > 1, "some are padded"
    drawn = []

    class Watched(LayerCutoff):
        def __call__(self, features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
            drawn.append(super().__call__(features, generator))
            return drawn[-1]

    step = Watched(unit, 0.4)  # type: ignore[arg-type]
    with torch.no_grad():
        views = Objective(model, {"infonce": InfoNCE()}, tokens=[(step, [1])]).encode([column], None).stack
        for i, length in enumerate(lengths):
            ids = column["input_ids"][i, :length]
            if unit == "token":
                zero = [(t, None) for t in range(length) if drawn[0][LAYER_TOKENS][i, t] == 0]
                assert len(zero) == int(0.4 * length)
            else:
                gone = (drawn[0][LAYER_FEATURES][i, 0] == 0).nonzero().flatten().tolist()
                zero = [(t, f) for t in range(length) for f in gone]
                assert len(gone) == int(0.4 * 32)
            assert torch.allclose(views[1, i], by_hand(tiny_model, ids, zero), atol=1e-5)
            assert torch.allclose(views[0, i], by_hand(tiny_model, ids, []), atol=1e-5)
            assert not torch.allclose(views[0, i], views[1, i], atol=1e-3)


def test_every_token_is_erased_alike_the_frame_too() -> None:
    mask = torch.ones(6000, 5, dtype=torch.long)
    erased = (token_cutoff(torch.ones(6000, 5), mask, 0.4, seeded()) == 0).sum(dim=0).tolist()
    assert sum(erased) == 12000
    assert all(abs(number - 2400) < 200 for number in erased)  # five standard deviations


def test_in_parts_and_on_another_pass_it_is_the_same(tiny_model: Path) -> None:
    """Gradient caching runs the embedding layer twice, a part at a time; nothing stays behind it."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    column = model.preprocess(sentences(6))
    made = [
        Objective(model, {"infonce": InfoNCE()}, tokens=[(LayerCutoff("token", 0.5), [0])], mini_batch_size=size)
        for size in (None, 4)
    ]
    whole, parts = (each.encode([dict(column)], None).stack for each in made)
    assert torch.allclose(whole, parts, atol=1e-6)
    (gradient,) = torch.autograd.grad(parts.square().sum(), model[0].auto_model.get_input_embeddings().weight)
    assert torch.isfinite(gradient).all()
    plain = torch.as_tensor(model.encode(sentences(6)))
    assert torch.allclose(whole[1], plain, atol=1e-5)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(UserError, match=r"tokens\.layer_cutoff\.unit"):
        component("tokens", "layer_cutoff", unit="span")
