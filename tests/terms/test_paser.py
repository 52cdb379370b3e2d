"""PaSeR: its parts against loops, and the whole term by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from conftest import sentences
from drawn import draw
from isotrope import Objective, load
from isotrope.terms.paser import PaSeR, said, signals
from oracle import losses as oracle
from token_batches import EveryThird


def objective(model: Path, size: int | None = None, left: bool = False) -> Objective:
    student = load(model, "cls", dropout=0.0, device="cpu")
    student.tokenizer.padding_side = "left" if left else "right"
    torch.manual_seed(0)
    tokens = [(EveryThird(), [1])]
    return Objective(student, {"paser": PaSeR(layers=2)}, tokens=tokens, mini_batch_size=size).train()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_signals_equal_the_loop(dtype: torch.dtype) -> None:
    whole, rest = draw(3, 4, dtype=dtype), draw(3, 4, seed=1, dtype=dtype)
    found = signals(whole, rest)
    for row in range(3):
        for place in range(4):
            a, b = whole[row, place], rest[row, place]
            assert found[row, :, place].tolist() == [a * b, a - b, a, b]
    assert torch.autograd.gradcheck(signals, (draw(3, 4).requires_grad_(), draw(3, 4, seed=1).requires_grad_()))


def test_what_is_to_be_said_by_hand() -> None:
    text = torch.tensor([[1, 5, 6, 7, 2], [0, 0, 1, 8, 2], [1, 5, 2, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    hidden = torch.tensor([[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()
    ids, seen = said(text, mask, hidden)
    assert seen.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert [row[real > 0].tolist() for row, real in zip(ids, seen, strict=True)] == [[1, 6, 7, 2], [1, 8, 2], []]
    ids, seen = said(text, mask, hidden & False)
    assert not seen.any()


@pytest.mark.parametrize("left", [False, True])
def test_the_whole_term_by_hand(tiny_model: Path, left: bool) -> None:
    """Sentence by sentence and token by token: the decoder sees four vectors, and the hidden tokens before."""
    made = objective(tiny_model, left=left)
    text = made.model.preprocess(sentences(4))
    term, losses = made.terms["paser"], []
    made.components.double()
    views = made.encode([text], None)
    for row, (ids, mask) in enumerate(zip(text["input_ids"], text["attention_mask"], strict=True)):
        tokens = ids[mask > 0]
        phrase = [token for number, token in enumerate(tokens.tolist(), 1) if number % 3 == 0 and token != 7]
        asked = torch.tensor([[tokens[0], *phrase, tokens[-1]]])
        if len(tokens) % 3 == 0:  # the step changes the last token too
            asked = asked[:, :-1]
        whole, rest = views.stack[0, row].double(), term.projection(views.stack[1, row].double())
        known = torch.stack([whole * rest, whole - rest, whole, rest])[None]
        for place in range(1, asked.shape[1]):
            logits = term.decoder(known, asked[:, :place])[:, -1:]
            losses += oracle.next_tokens(logits, asked[:, place - 1 : place + 1], torch.ones(1, 2))
    found = made.loss(views, [], made.terms)["paser"]
    assert len(losses) > 8
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-9)


def test_gradient_caching_gives_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        made = objective(tiny_model, size)
        made([made.model.preprocess(sentences(8))])["paser"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert all(torch.allclose(gradient, found[1][name], atol=1e-6) for name, gradient in found[0].items())
    assert not any("shared" in name for name in made.state_dict()), "the table is the student's"
