"""Terms that ask for words of the text: against loops, by hand, through gradient caching; what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from conftest import sentences
from drawn import draw
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.contract.features import token_table
from isotrope.errors import UserError
from isotrope.terms.masked_words import MaskedWords
from isotrope.terms.mutual_information import MutualInformation
from isotrope.terms.paser import PaSeR, said
from isotrope.terms.tsdae import TSDAE
from isotrope.tokens.delete import Delete
from oracle import losses as oracle
from small_encoders import as_student, random_model
from token_batches import EveryThird


def objective(model: Path, size: int | None = None, step: str = "hide") -> Objective:
    student = load(model, "mean", dropout=0.0, device="cpu")
    torch.manual_seed(0)
    tokens = [(component("tokens", step, ratio=0.5), [0])]
    return Objective(student, {"masked_words": MaskedWords()}, tokens=tokens, passes=1, mini_batch_size=size).train()


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


def test_what_cannot_be_read_is_refused(tiny_model: Path) -> None:
    made = objective(tiny_model, step="delete")
    with pytest.raises(UserError, match="a token step moves words"):
        made([made.model.preprocess(sentences(4))])
    made = objective(tiny_model)
    made.terms["masked_words"].view = 2
    with pytest.raises(UserError, match=r"terms.masked_words = \[2\] is not possible: the views are 0 to 0"):
        made([made.model.preprocess(sentences(4))])


def objective_mutual_information(model: Path, size: int | None = None) -> Objective:
    torch.manual_seed(0)
    student = load(model, "mean", dropout=0.0, device="cpu")
    terms = {"mutual_information": MutualInformation(channels=8)}
    return Objective(student, terms, passes=1, mini_batch_size=size).train()


def test_the_whole_term_by_hand_mutual_information(tiny_model: Path) -> None:
    """Sentence by sentence, without padding: windows by torch's own convolution, their mean, all products."""
    made = objective_mutual_information(tiny_model)
    text = sentences(4)
    found = made([made.model.preprocess(text)])["mutual_information"]
    windows = made.terms["mutual_information"].windows
    local = []
    for sentence in text:
        states = made.model(made.model.preprocess([sentence]))["token_embeddings"][0].T  # (H, L)
        rows = [F.conv1d(states, w.weight, w.bias, padding=w.kernel_size[0] // 2) for w in windows]
        local.append(torch.cat(rows).T)
    whole = torch.stack([rows.mean(dim=0) for rows in local])
    own = torch.tensor([number for number, rows in enumerate(local) for _ in rows])[:, None] == torch.arange(4)
    assert found.item() == pytest.approx(oracle.mutual_information(torch.cat(local) @ whole.T, own), rel=1e-4)


def test_what_does_not_fit_is_refused(tiny_model: Path) -> None:
    student = load(tiny_model, "mean", device="cpu")
    made = Objective(student, {"mi": MutualInformation()}, passes=1, context=BuildContext(8, student=student)).train()
    with pytest.raises(UserError, match="this model has others"):
        made([student.preprocess(sentences(4))])


def objective_paser(model: Path, size: int | None = None, left: bool = False) -> Objective:
    student = load(model, "cls", dropout=0.0, device="cpu")
    student.tokenizer.padding_side = "left" if left else "right"
    torch.manual_seed(0)
    tokens = [(EveryThird(), [1])]
    return Objective(student, {"paser": PaSeR(layers=2)}, tokens=tokens, mini_batch_size=size).train()


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
def test_the_whole_term_by_hand_paser(tiny_model: Path, left: bool) -> None:
    """Sentence by sentence and token by token: the decoder sees four vectors, and the hidden tokens before."""
    made = objective_paser(tiny_model, left=left)
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


def objective_tsdae(model: SentenceTransformer, **options: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(model, {"tsdae": TSDAE()}, tokens=[(Delete(), [0])], passes=1, **options).train()


KINDS = ["Bert", "Roberta", "MPNet", "DistilBert", "ModernBert", "Electra"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_token_sees_a_later_one(kind: str, tmp_path: Path) -> None:
    term: Any = objective_tsdae(as_student(kind, tmp_path)).eval().terms["tsdae"]
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
    made, text = objective_tsdae(model), model.preprocess(sentences(4))
    made.double()
    views = made.encode([text], None)
    losses = []
    for number, (ids, mask) in enumerate(zip(text["input_ids"], text["attention_mask"], strict=True)):
        tokens, vector = ids[mask.bool()], views.stack[0, number : number + 1]
        for place in range(1, len(tokens)):
            logits = made.terms["tsdae"].said(vector, tokens[None, :place])
            losses.append(-logits[0, -1].log_softmax(dim=-1)[tokens[place]])
    found = made.loss(views, [], made.terms)["tsdae"]
    assert found.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_encoder_learns_and_keeps_its_weights_until_then(kind: str, tmp_path: Path) -> None:
    """Building the decoder changes no weight of the student; a few steps lower the loss of the whole sentence."""
    model = as_student(kind, tmp_path).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made, text = objective_tsdae(model), model.preprocess(sentences(8))
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


def test_without_words_it_is_refused() -> None:
    model = SentenceTransformer(modules=[StaticEmbedding(load("isotrope/tiny").tokenizer, embedding_dim=8)])
    with pytest.raises(UserError, match="the model has no table of them"):
        TSDAE().build(BuildContext.of(model))


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("masked_words", objective), ("mutual_information", objective_mutual_information), ("paser", objective_paser),
        ("tsdae", lambda model, size: objective_tsdae(load(model, dropout=0.0, device="cpu"), mini_batch_size=size)),
    ],
)  # fmt: skip
def test_gradient_caching_gives_the_same_gradients(name: str, made: Callable[..., Objective], tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        whole = made(tiny_model, size)
        whole([whole.model.preprocess(sentences(8))])[name].backward()
        found.append({name: p.grad for name, p in whole.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert all(torch.allclose(gradient, found[1][name], atol=1e-6) for name, gradient in found[0].items())
    assert not any("shared" in name for name in whole.state_dict()), "the table is the student's"
