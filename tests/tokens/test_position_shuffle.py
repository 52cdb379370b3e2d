"""Shuffled positions against a naive oracle: one sentence at a time, its position ids given to BERT."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

from conftest import sentences
from isotrope import Objective, load
from isotrope.contract.features import POSITIONS
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.position_shuffle import PositionShuffle
from isotrope.tokens.repeat import Repeat
from token_batches import features, seeded


def with_positions(counts: list[int], left: bool = False) -> dict[str, torch.Tensor]:
    batch = features(counts, left)
    return batch | {POSITIONS: torch.arange(batch["input_ids"].shape[1]).repeat(len(counts), 1)}


@pytest.mark.parametrize("left", [False, True])
def test_real_tokens_share_their_positions_out_anew(left: bool) -> None:
    batch = with_positions([9, 4], left)
    after = PositionShuffle()(batch, seeded())
    for mask, old, new in zip(batch["attention_mask"].bool(), batch[POSITIONS], after[POSITIONS], strict=True):
        assert sorted(new[mask].tolist()) == old[mask].tolist()
        assert new[mask].tolist() != old[mask].tolist()
        assert new[~mask].tolist() == old[~mask].tolist()
    assert all(after[name] is batch[name] for name in ("input_ids", "attention_mask"))


def test_every_order_is_as_likely_the_frame_moves_too() -> None:
    after = PositionShuffle()(with_positions([1] * 6000), seeded())[POSITIONS]
    orders = Counter(map(tuple, after.tolist()))
    assert len(orders) == 6
    assert all(abs(number - 1000) < 150 for number in orders.values())  # five standard deviations


@pytest.mark.parametrize("packed", [True, False])
def test_equals_bert_with_these_positions(tiny_model: Path, packed: bool) -> None:
    model = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=packed).eval()
    bert = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False).eval()[0].auto_model
    column = model.preprocess(sentences(4))
    drawn = []

    def watched(batch: dict[str, torch.Tensor], generator: torch.Generator) -> dict[str, torch.Tensor]:
        drawn.append(PositionShuffle()(batch, generator))
        return drawn[-1]

    watched.needs = PositionShuffle.needs  # type: ignore[attr-defined]
    with torch.no_grad():
        views = Objective(model, {"infonce": InfoNCE()}, tokens=[(watched, [1])]).encode([column], None).stack
        for i, length in enumerate(column["attention_mask"].sum(dim=1).tolist()):
            ids, positions = column["input_ids"][i : i + 1, :length], drawn[0][POSITIONS][i : i + 1, :length]
            shuffled = bert(input_ids=ids, position_ids=positions).last_hidden_state[0, 0]
            assert torch.allclose(views[1, i], shuffled, atol=1e-5)
            assert torch.allclose(views[0, i], bert(input_ids=ids).last_hidden_state[0, 0], atol=1e-5)
            assert not torch.allclose(views[0, i], views[1, i], atol=1e-3)


def test_what_does_not_go_is_refused() -> None:
    with pytest.raises(UserError, match="do not go together"):
        Repeat()(with_positions([3, 4]), seeded())
