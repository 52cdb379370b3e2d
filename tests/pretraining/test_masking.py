"""What is hidden, and that a sentence in a block is read alone."""

import numpy as np
import pytest
import torch

from isotrope.pretraining.masking import Blocks, MaskingCollator, hide
from isotrope.pretraining.model import build_model
from toy import TOY


def test_hiding_is_a_pure_function_of_seed_and_place_with_a_fixed_count():
    ids = np.array([2, *range(5, 45), 3, 2, *range(45, 64)])
    one, labels = hide(ids, TOY, 5, 120, seed=1, place=9)
    again, _ = hide(ids, TOY, 5, 120, seed=1, place=9)
    other, _ = hide(ids, TOY, 5, 120, seed=1, place=10)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (labels != -100).sum() == round(0.3 * len(ids))
    assert np.array_equal(labels[labels != -100], ids[labels != -100])
    assert np.array_equal(one[labels == -100], ids[labels == -100])
    assert (labels[ids < 5] == -100).all()


def test_of_the_chosen_tokens_the_recipe_s_parts_are_masked_and_random():
    ids = np.random.default_rng(0).integers(5, 120, 20_000)
    shown, labels = hide(ids, TOY, 5, 120, seed=0, place=0)
    chosen = labels != -100
    as_mask, kept = (shown[chosen] == 4).mean(), (shown[chosen] == ids[chosen]).mean()
    assert as_mask == pytest.approx(0.9, abs=0.02)
    assert kept == pytest.approx(0.05, abs=0.02)
    assert shown.min() >= 2
    assert shown.max() < 120


def test_every_pass_reads_every_block_once_in_a_new_order():
    rows = Blocks(np.arange(30, dtype=np.uint16).reshape(10, 3), 30, seed=0)
    passes = [[int(rows[place]["ids"][0]) for place in range(start, start + 10)] for start in (0, 10, 20)]
    assert all(sorted(order) == list(range(0, 30, 3)) for order in passes)
    assert passes[0] != passes[1] != passes[2]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_sentence_in_a_block_is_encoded_as_if_it_stood_alone(tokenizer, attention):
    model = build_model(TOY, tokenizer, seed=0, attention=attention).eval()
    alone = [tokenizer(text)["input_ids"] for text in ("the cat sees a dog .", "a red bird .", "the")]
    block = np.array([id for ids in alone for id in ids], dtype=np.uint16)
    batch = MaskingCollator(TOY, len(tokenizer), 2, 5, seed=0, attention=attention)([{"ids": block, "place": 0}])
    with torch.no_grad():
        mask = batch["attention_mask"]
        packed = model.model(input_ids=torch.tensor(block.astype(int))[None], attention_mask=mask).last_hidden_state[0]
        single = torch.cat([model.model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in alone])
    assert torch.allclose(packed, single, atol=1e-5)
