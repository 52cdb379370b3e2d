"""The masked language model beside a contrast: which words it asks for, its value by hand, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.errors import UserError
from isotrope.terms._words import changed
from isotrope.terms.masked_words import MaskedWords
from oracle import losses as oracle


def objective(model: Path, size: int | None = None, step: str = "hide") -> Objective:
    student = load(model, "mean", dropout=0.0, device="cpu")
    torch.manual_seed(0)
    tokens = [(component("tokens", step, ratio=0.5), [0])]
    return Objective(student, {"masked_words": MaskedWords()}, tokens=tokens, passes=1, mini_batch_size=size).train()


def test_changed_are_the_real_tokens_that_differ() -> None:
    text, read = torch.tensor([[1, 5, 6, 0]]), torch.tensor([[1, 9, 6, 9]])
    assert changed(text, read, torch.tensor([[1, 1, 1, 0]])).tolist() == [[False, True, False, False]]


def test_the_whole_term_by_hand(tiny_model: Path) -> None:
    """Sentence by sentence, without padding, with the student's own table."""
    made, given = objective(tiny_model), []
    made.terms["masked_words"].register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    text = made.model.preprocess(sentences(5))
    found = made([dict(text)])["masked_words"]
    words, losses = made.terms["masked_words"].words, []
    plain = load(tiny_model, "mean", dropout=0.0, device="cpu", packed=False)[0].auto_model.eval()
    for row, length in enumerate(text["attention_mask"].sum(dim=1).tolist()):
        read = given[0].views.readings[0].read["input_ids"][row, :length]
        whole = text["input_ids"][row, :length]
        losses += oracle.hidden_words(
            words(plain(read[None]).last_hidden_state[0][whole != read]), whole[whole != read]
        )
    assert len(losses) > 3
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    assert words.table[0] is made.model[0].auto_model.get_input_embeddings()
    assert not any("table" in name for name in made.state_dict())


def test_gradient_caching_gives_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        made = objective(tiny_model, size)
        made([made.model.preprocess(sentences(8))])["masked_words"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert all(torch.allclose(gradient, found[1][name], atol=1e-6) for name, gradient in found[0].items())


def test_what_cannot_be_read_is_refused(tiny_model: Path) -> None:
    made = objective(tiny_model, step="delete")
    with pytest.raises(UserError, match="a token step moves words"):
        made([made.model.preprocess(sentences(4))])
    made = objective(tiny_model)
    made.terms["masked_words"].term = MaskedWords(view=2)  # type: ignore[assignment]
    with pytest.raises(UserError, match="masked_words reads pass 2, and the student reads 0"):
        made([made.model.preprocess(sentences(4))])
