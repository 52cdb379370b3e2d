"""BERT's masking: which tokens are hidden, how they are shown, and on what that depends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from isotrope.contract.hiding import Hiding, noise_of_rows
from isotrope.errors import UserError

PAD, CLS, SEP, MASK, WORDS = 0, 1, 2, 3, 500


class Tokenizer(SimpleNamespace):
    def __len__(self) -> int:
        return WORDS


def hiding(ratio: float = 0.3) -> Hiding:
    return Hiding(Tokenizer(mask_token_id=MASK, all_special_ids=[PAD, CLS, SEP, MASK]), ratio)


def test_a_share_is_hidden_and_shown_in_three_ways() -> None:
    ids = torch.randint(4, WORDS, (400, 30), generator=torch.Generator().manual_seed(1))
    ids[:, 0], ids[:, -1] = CLS, SEP
    mask = (torch.arange(30) < torch.randint(5, 31, (400, 1))).long()
    hidden, shown = hiding()(ids, mask, torch.rand(400, 30, 3, generator=torch.Generator().manual_seed(0)))
    words = mask.bool() & (ids > MASK)
    assert not hidden[~words].any(), "neither marks nor padding"
    assert torch.equal(shown[~hidden], ids[~hidden])
    assert abs(hidden.sum() / words.sum() - 0.3) < 0.02
    masked, kept = shown[hidden] == MASK, shown[hidden] == ids[hidden]
    assert abs(masked.float().mean() - 0.8) < 0.03
    assert abs(kept.float().mean() - 0.1) < 0.03
    assert shown.max() < WORDS


def test_the_numbers_of_a_sentence_depend_on_its_seed_alone() -> None:
    mask = torch.tensor([[1, 1, 1, 0], [0, 0, 1, 1]])
    noise = noise_of_rows(mask, [7, 8])
    assert (noise[mask == 0] == 1).all(), "padding is never hidden"
    assert torch.equal(noise_of_rows(torch.tensor([[0, 0, 1, 1, 1]]), [7])[0, 2:], noise[0, :3])
    assert torch.equal(noise_of_rows(mask.flip(0), [8, 7]), noise.flip(0))


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    with pytest.raises(UserError, match="the model has no word"):
        Hiding(Tokenizer(mask_token_id=None, all_special_ids=[PAD]), 0.3)
