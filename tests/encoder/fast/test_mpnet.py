"""MPNet over packed rows: its attention reads the packing, its relative positions stay those of each sentence."""

from __future__ import annotations

from copy import deepcopy
from threading import Thread

import pytest
import torch
from transformers.models.mpnet.modeling_mpnet import MPNetModel

from isotrope.encoder.fast import mpnet
from isotrope.encoder.fast.attention import Packing
from isotrope.encoder.fast.packed import pack
from small_encoders import VOCABULARY, batch, both, random_model, states


def test_weights_and_their_names_stay() -> None:
    plain = random_model("MPNet")
    taken = deepcopy(plain)
    mpnet.take_over(taken)
    assert type(taken) is MPNetModel
    before, after = plain.state_dict(), taken.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_without_a_packing_it_is_transformers_own_to_the_last_bit() -> None:
    plain = random_model("MPNet")
    taken = deepcopy(plain)
    mpnet.take_over(taken)
    assert torch.equal(taken(**batch()).last_hidden_state, plain(**batch()).last_hidden_state)


def test_other_models_are_left_alone() -> None:
    bert = random_model("Bert")
    before = [type(module) for module in bert.modules()]
    mpnet.take_over(bert)
    assert [type(module) for module in bert.modules()] == before


def test_relative_positions_are_those_within_a_sentence() -> None:
    """A large bias at some distances: packed as one row, the distances to other sentences' tokens must not count."""
    plain, packed = both("MPNet")
    features = batch()
    near = states(plain, features)
    with torch.no_grad():
        for model in (plain, packed):
            model.encoder.relative_attention_bias.weight.mul_(20)
    expected = states(plain, features)
    assert not torch.allclose(expected, near, atol=1e-2), "the bias matters"
    assert torch.allclose(states(packed, features), expected, atol=1e-4)


@pytest.mark.parametrize("first", [3, 11])
def test_a_sentence_does_not_see_its_neighbours_in_the_row(first: int) -> None:
    model = random_model("MPNet")
    pack(model)
    ids = torch.randint(4, VOCABULARY, (1, 9), generator=torch.Generator().manual_seed(2))
    own = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    beside = torch.randint(4, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(first))
    beside[1, :9], mask = ids, torch.ones(2, 12, dtype=torch.long)
    beside[1, 9:], mask[1, 9:], mask[0, first:] = 1, 0, 0
    found = model(input_ids=beside, attention_mask=mask).last_hidden_state
    assert torch.allclose(found[1, :9], own[0], atol=1e-5)


def test_a_packing_is_of_its_forward_pass_alone() -> None:
    """Not of another thread's, nor of the one around it, nor of those after an error."""
    one, other = (Packing.from_mask(torch.ones(n, 4, dtype=torch.long), 2, 1) for n in (1, 2))
    seen: list[Packing | None] = []

    def broken() -> None:
        with mpnet.passing(other):
            seen.append(mpnet._packing.get())
            raise RuntimeError("out of memory")

    with mpnet.passing(one):
        with pytest.raises(RuntimeError, match="out of memory"):
            broken()
        seen.append(mpnet._packing.get())
        thread = Thread(target=lambda: seen.append(mpnet._packing.get()))
        thread.start()
        thread.join()
    assert [found is expected for found, expected in zip(seen, (other, one, None), strict=True)] == [True] * 3
    assert mpnet._packing.get() is None
