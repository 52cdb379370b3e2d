"""Other words around the text, and words without a text, against the tokenizer itself."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.tokens.template import hide_text, reframe
from isotrope.views.denoised import Denoised
from token_batches import features, read, seeded

OTHER = 'The sentence "{text}" is long {mask}.'
lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(lengths, st.booleans(), st.integers(1, 3), st.integers(1, 3))
def test_frames_by_loops(counts: list[int], left: bool, before: int, behind: int) -> None:
    batch = features(counts, left)
    first, last = torch.arange(100, 100 + before), torch.arange(200, 200 + behind)
    ids, mask = reframe(batch["input_ids"], batch["attention_mask"], (1, 1), (first, last))
    found = read({"input_ids": ids, "attention_mask": mask})
    assert found == [[*first.tolist(), *tokens[1:-1], *last.tolist()] for tokens in read(batch)]
    bare = read({"input_ids": ids, "attention_mask": hide_text(mask, before, behind)})
    assert bare == [[*first.tolist(), *last.tolist()]] * len(counts)


def test_another_template_is_what_the_tokenizer_makes_of_it(tiny_model: Path) -> None:
    plain, encoder = load(tiny_model, device="cpu"), load(tiny_model, "mask", device="cpu")
    step = component("tokens", "template", words=OTHER, hidden=False).build(BuildContext.of(encoder))
    text = sentences(6)
    after = step(encoder.preprocess(text), seeded())
    mask = plain.tokenizer.mask_token
    expected = plain.preprocess([OTHER.replace("{text}", one).replace("{mask}", mask) for one in text])
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(after[name], expected[name]), name


@pytest.mark.parametrize("packed", [True, False])
def test_the_bias_is_the_template_alone_at_the_same_positions(tiny_model: Path, packed: bool) -> None:
    """Against the encoder itself, fed with the template's tokens and the positions that they have around the text."""
    encoder = load(tiny_model, "mask", dropout=0.0, device="cpu", packed=packed).eval()
    step = component("tokens", "template")
    objective = Objective(
        encoder, {"infonce": component("terms", "infonce")}, tokens=[(step, [2])], views=[Denoised([2])], passes=3
    )
    batch = encoder.preprocess(sentences(4))
    stack = objective.encode([dict(batch)], None).stack
    (before, behind), length = objective.tokens[0][0].old, batch["attention_mask"].sum(dim=1)
    bert = load(tiny_model, device="cpu", packed=False)[0].auto_model.eval()
    for row in range(4):
        places = [*range(before), *range(int(length[row]) - behind, int(length[row]))]
        ids = batch["input_ids"][row, places]
        states = bert(input_ids=ids[None], position_ids=torch.tensor([places])).last_hidden_state[0]
        bias = states[ids == encoder.tokenizer.mask_token_id][0]
        assert torch.allclose(stack[2, row], bias, atol=1e-5)
        assert torch.allclose(objective.view([dict(batch)], None).stack[0, row], stack[0, row] - bias, atol=1e-5)
