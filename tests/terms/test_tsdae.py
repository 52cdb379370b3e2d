"""TSDAE against a loop over the tokens; its gradients; every encoder; the student's weights stay its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor

from conftest import sentences
from drawn import draw
from isotrope import Objective, load
from isotrope.contract.context import BuildContext
from isotrope.contract.features import token_table
from isotrope.errors import UserError
from isotrope.terms.tsdae import TSDAE, tsdae
from isotrope.tokens.delete import Delete
from oracle import losses as oracle
from small_encoders import as_student, random_model


def objective(model: SentenceTransformer, **options: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(model, {"tsdae": TSDAE()}, tokens=[(Delete(), [0])], passes=1, **options).train()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_loop(dtype: torch.dtype, tolerance: float) -> None:
    logits, target = draw(3, 4, 7, dtype=dtype), torch.tensor([[1, 2, 3, 4, 5], [1, 6, 2, 0, 0], [1, 3, 0, 0, 0]])
    mask = (torch.arange(5) < torch.tensor([[5], [3], [2]])).long()
    expected = oracle.next_tokens(logits, target, mask)
    assert tsdae(logits, target, mask).tolist() == pytest.approx(expected, rel=tolerance)
    assert torch.autograd.gradcheck(lambda x: tsdae(x, target, mask), draw(3, 4, 7).requires_grad_())


KINDS = ["Bert", "Roberta", "MPNet", "DistilBert", "ModernBert", "Electra"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_sees_a_later_one(kind: str, tmp_path: Path) -> None:
    term: Any = objective(as_student(kind, tmp_path)).eval().terms["tsdae"]
    ids, vectors = torch.tensor([[5, 6, 7, 8, 9], [5, 6, 7, 8, 10]]), draw(2, term.sentence.in_features).float()
    scores = term.said(vectors[[0, 0]], ids)
    assert torch.allclose(scores[0, :4], scores[1, :4], atol=1e-5)
    assert not torch.allclose(scores[0, 4], scores[1, 4], atol=1e-3)
    assert not torch.allclose(scores[0], term.said(vectors[[1, 0]], ids)[0], atol=1e-3), "the vector is read"


def test_an_architecture_that_takes_no_such_mask_is_refused() -> None:
    with pytest.raises(UserError, match="a deberta-v2 cannot be the decoder"):
        TSDAE().build(BuildContext(width=16, student=random_model("DebertaV2")))


@pytest.mark.parametrize("left", [False, True])
def test_every_token_is_told_from_the_vector_and_the_tokens_before(tiny_model: Path, left: bool) -> None:
    """The value is that of a loop which shows the decoder one prefix after another, of one sentence after another."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    model.tokenizer.padding_side = "left" if left else "right"
    made, text = objective(model), model.preprocess(sentences(4))
    made.double()
    views = made.encode([text], None)
    losses = []
    for number, (ids, mask) in enumerate(zip(text["input_ids"], text["attention_mask"], strict=True)):
        tokens, vector = ids[mask.bool()], views.stack[0, number : number + 1]
        for place in range(1, len(tokens)):
            logits = made.terms["tsdae"].said(vector, tokens[None, :place])  # type: ignore[attr-defined]
            losses.append(-logits[0, -1].log_softmax(dim=-1)[tokens[place]])
    found = made.loss(views, [], made.terms)["tsdae"]
    assert found.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_encoder_learns_and_keeps_its_weights_until_then(kind: str, tmp_path: Path) -> None:
    """Building the decoder changes no weight of the student; a few steps lower the loss of the whole sentence."""
    model = as_student(kind, tmp_path).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made, text = objective(model), model.preprocess(sentences(8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert made.terms["tsdae"].words.table[0].weight.data_ptr() != token_table(model).weight.data_ptr(), "a copy"
    optimizer, losses = torch.optim.Adam(made.parameters(), lr=1e-2), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = made([dict(text)])["tsdae"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert sum(not torch.equal(value, before[name]) for name, value in model.state_dict().items()) > 5


def test_gradient_caching_gives_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        made = objective(load(tiny_model, "mean", dropout=0.0, device="cpu"), mini_batch_size=size)
        made([made.model.preprocess(sentences(8))])["tsdae"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert all(torch.allclose(gradient, found[1][name], atol=1e-6) for name, gradient in found[0].items())


def test_without_words_it_is_refused() -> None:
    model = SentenceTransformer(modules=[StaticEmbedding(load("isotrope/tiny").tokenizer, embedding_dim=8)])
    with pytest.raises(UserError, match="the model has no table of them"):
        TSDAE().build(BuildContext.of(model))


def test_each_width_has_a_decoder(tiny_model: Path) -> None:
    made = objective(load(tiny_model, "mean", device="cpu"), dims=[8, 32])
    losses: dict[str, Tensor] = made([made.model.preprocess(sentences(4))])
    assert set(losses) == {"tsdae@8", "tsdae@32"}
