"""InfoCSE: its equations against loops, what the student's first token does, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import sentences
from drawn import draw
from isotrope import Objective, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms._words import hidden_words
from isotrope.terms.infocse import InfoCSE, infocse
from isotrope.terms.infonce import InfoNCE
from oracle import losses as oracle


def objective(model: Path, size: int | None = None, packed: bool = True) -> Objective:
    student = load(model, "cls", dropout=0.0, device="cpu", packed=packed)
    torch.manual_seed(0)
    made = Objective(student, {"infonce": InfoNCE(), "infocse": InfoCSE(weight=1.0)}, mini_batch_size=size).train()
    made.step = 1  # the first step refuses equal views
    return made


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_loops(dtype: torch.dtype, tolerance: float) -> None:
    logits, words = draw(5, 7, dtype=dtype), torch.tensor([3, 0, 6, 3, 1])
    assert hidden_words(logits, words).tolist() == pytest.approx(oracle.hidden_words(logits, words), rel=tolerance)
    assert torch.autograd.gradcheck(lambda x: hidden_words(x, words), draw(5, 7).requires_grad_())
    states, first = draw(3, 4, 2, dtype=dtype), draw(3, 2, seed=1, dtype=dtype)
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]])
    found = infocse(states, first, mask)
    for row, place in enumerate((0, 2, 1)):
        for column in range(4):
            assert torch.equal(found[row, column], first[row] if column == place else states[row, column])
    assert torch.autograd.gradcheck(lambda x: infocse(draw(3, 4, 2), x, mask), draw(3, 2).requires_grad_())


@pytest.mark.parametrize("packed", [False, True])
def test_the_whole_term_by_hand(tiny_model: Path, packed: bool) -> None:
    """Sentence by sentence, without padding; the first half of two layers is the first."""
    made = objective(tiny_model, packed=packed)
    term = made.terms["infocse"]
    plain = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False)[0].auto_model.eval()
    text, found = made.model.preprocess(sentences(4)), []
    noise = torch.rand(*text["input_ids"].shape, 3, generator=torch.Generator().manual_seed(0))
    hidden, shown = term.hiding(text["input_ids"], text["attention_mask"], noise)
    firsts = plain(text["input_ids"], text["attention_mask"]).last_hidden_state[:, 0]
    for row, length in enumerate(text["attention_mask"].sum(dim=1).tolist()):
        layers = plain(shown[row : row + 1, :length], output_hidden_states=True).hidden_states
        states = layers[-(-(len(layers) - 1) // 2)][0]
        given = torch.cat([firsts[row : row + 1], states[1:]])
        logits = term.words(term.network(given[None])[0])
        found += [logits[place] for place in range(length) if hidden[row, place]]
    expected = term.words(term.filled(firsts, shown, text["attention_mask"])[hidden])
    assert torch.allclose(torch.stack(found), expected, atol=1e-4)
    assert not term.frozen[0].training


def test_the_loss_moves_the_student_by_its_first_token_alone(tiny_model: Path) -> None:
    """And neither gradient caching nor the order of the sentences changes it."""
    found, text = [], sentences(6)
    for size, rows in ((None, [*range(6)]), (4, [*range(6)]), (None, [3, 0, 5, 1, 4, 2])):
        made = objective(tiny_model, size)
        losses = made([made.model.preprocess([text[row] for row in rows])], torch.tensor(rows))
        losses["infocse"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(torch.allclose(gradient, other[name], atol=1e-5) for name, gradient in found[0].items())
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert not any("frozen" in name or "table" in name for name in made.state_dict())
    kept = made.terms["infocse"].frozen[0].state_dict()
    assert all(not value.requires_grad for value in kept.values())


def test_what_does_not_fit_is_refused(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", device="cpu")
    made = Objective(model, {"infocse": InfoCSE()}, passes=1).train()
    made.terms["infocse"].words.layer.in_features = 8
    with pytest.raises(UserError, match="this model has others"):
        made([model.preprocess(sentences(4))])
    model.tokenizer.mask_token = None
    with pytest.raises(UserError, match="the model has no word"):
        InfoCSE().build(BuildContext.of(model))
