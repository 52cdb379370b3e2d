"""Terms that read words or the states of tokens: by hand, through gradient caching; what is
refused.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from helpers.drawn import draw
from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.small_encoders import as_student, random_model
from helpers.token_batches import EveryThird
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.contract.features import token_table
from isotrope.errors import UserError
from isotrope.terms.diffcse import DiffCSE
from isotrope.terms.infocse import InfoCSE, infocse
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.mutual_information import MutualInformation
from isotrope.terms.paser import phrase_only
from isotrope.terms.tsdae import TSDAE
from oracle import losses as oracle

OPTIONS: dict[str, dict[str, Any]] = {
    "masked_words": {}, "mutual_information": {"channels": 8}, "paser": {"layers": 2}, "tsdae": {},
    "diffcse": {"weight": 1.0}, "infocse": {"weight": 1.0},
}  # fmt: skip
ON_TOKENS = {  # the token step of a term, and its pass
    "masked_words": (component("tokens", "hide", ratio=0.5), [0]),
    "paser": (EveryThird(), [1]),
    "tsdae": (component("tokens", "delete"), [0]),
}
WHOLE = ("diffcse", "infocse")  # they stand beside a contrast of two passes


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A masked language model with the words of the small BERT."""
    folder = tmp_path_factory.mktemp("generator")
    words = AutoTokenizer.from_pretrained(build_bert(folder))
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    torch.manual_seed(1)
    BertForMaskedLM(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder)
    return str(folder)


def student(
    folder: Path, pooling: str = "cls", *, packed: bool = True, left: bool = False
) -> SentenceTransformer:
    made = load(folder, pooling, dropout=0.0, device="cpu", packed=packed)
    made.tokenizer.padding_side = "left" if left else "right"
    return made


def objective(
    name: str, model: SentenceTransformer, size: int | None = None, **options: Any
) -> Objective:
    torch.manual_seed(0)
    terms = {name: component("terms", name, **OPTIONS[name], **options)}
    terms |= {"infonce": InfoNCE()} if name in WHOLE else {}
    tokens = [ON_TOKENS[name]] if name in ON_TOKENS else []
    views = [component("views", "projector")] if name == "diffcse" else []
    passes = 2 if name in (*WHOLE, "paser") else 1
    made = Objective(
        model, terms, tokens=tokens, views=views, passes=passes, mini_batch_size=size
    ).train()
    made.step = 1  # the first step refuses equal views
    return made


@pytest.mark.parametrize("name", OPTIONS)
def test_gradient_caching_and_the_order_change_nothing(
    name: str, tiny_model: Path, generator: str
) -> None:
    """What is hidden depends on the row, not on its place: so two processes hide what one does."""
    options, found, text = {"generator": generator} if name == "diffcse" else {}, [], sentences(6)
    cases: list[tuple[int | None, list[int]]] = [(None, [*range(6)]), (4, [*range(6)])]
    for size, rows in cases + ([(None, [3, 0, 5, 1, 4, 2])] if name in WHOLE else []):
        made = objective(
            name, student(tiny_model, "cls" if name in WHOLE else "mean"), size, **options
        )
        loss = made([made.model.preprocess([text[row] for row in rows])], torch.tensor(rows))[name]
        assert loss > 0
        loss.backward()
        found.append({key: p.grad for key, p in made.named_parameters() if p.grad is not None})
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(
            torch.allclose(gradient, other[key], atol=1e-5) for key, gradient in found[0].items()
        )
    assert {key.split(".")[0] for key in found[0]} == {"model", "components"}
    assert not any(
        part in key for key in made.state_dict() for part in ("shared", "table", "frozen")
    )


def test_masked_words_by_hand(tiny_model: Path) -> None:
    """Sentence by sentence, without padding, with the student's own table."""
    made, given = objective("masked_words", student(tiny_model, "mean")), []
    made.terms["masked_words"].register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    text = made.model.preprocess(sentences(5))
    found = made([dict(text)])["masked_words"]
    words, losses = made.terms["masked_words"].words, []
    plain = student(tiny_model, packed=False)[0].auto_model.eval()
    for row, length in enumerate(text["attention_mask"].sum(dim=1).tolist()):
        read = given[0].views.readings[0].read["input_ids"][row, :length]
        whole = text["input_ids"][row, :length]
        states = plain(read[None]).last_hidden_state[0][whole != read]
        losses += oracle.hidden_words(words(states), whole[whole != read])
    assert len(losses) > 3
    assert found.item() == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    assert words.table[0] is made.model[0].auto_model.get_input_embeddings()


def test_mutual_information_by_hand(tiny_model: Path) -> None:
    """Sentence by sentence, without padding: windows by torch's own convolution, their mean, all
    products.
    """
    made, text = objective("mutual_information", student(tiny_model, "mean")), sentences(4)
    found = made([made.model.preprocess(text)])["mutual_information"]
    local = []
    for sentence in text:
        states = made.model(made.model.preprocess([sentence]))["token_embeddings"][0].T  # (H, L)
        windows = made.terms["mutual_information"].windows
        rows = [F.conv1d(states, w.weight, w.bias, padding=w.kernel_size[0] // 2) for w in windows]
        local.append(torch.cat(rows).T)
    whole = torch.stack([rows.mean(dim=0) for rows in local])
    own = torch.tensor([number for number, rows in enumerate(local) for _ in rows])[
        :, None
    ] == torch.arange(4)
    assert found.item() == pytest.approx(
        oracle.mutual_information(torch.cat(local) @ whole.T, own), rel=1e-4
    )


def test_what_paser_says_by_hand() -> None:
    text = torch.tensor([[1, 5, 6, 7, 2], [0, 0, 1, 8, 2], [1, 5, 2, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [1, 1, 1, 0, 0]])
    hidden = torch.tensor([[0, 0, 1, 1, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]]).bool()
    ids, seen = phrase_only(text, mask, hidden)
    assert seen.tolist() == [[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]]
    assert [row[real > 0].tolist() for row, real in zip(ids, seen, strict=True)] == [
        [1, 6, 7, 2],
        [1, 8, 2],
        [],
    ]
    assert not phrase_only(text, mask, hidden & False)[1].any()


@pytest.mark.parametrize("left", [False, True])
def test_paser_by_hand(tiny_model: Path, left: bool) -> None:
    """Sentence by sentence and token by token: the decoder sees four vectors, and the hidden tokens
    before.
    """
    made = objective("paser", student(tiny_model, left=left))
    text, term, losses = made.model.preprocess(sentences(4)), made.terms["paser"], []
    made.components.double()
    views = made.encode([text], None)
    for row, (ids, mask) in enumerate(zip(text["input_ids"], text["attention_mask"], strict=True)):
        tokens = ids[mask > 0]
        phrase = [
            token
            for number, token in enumerate(tokens.tolist(), 1)
            if number % 3 == 0 and token != 7
        ]
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


KINDS = ["Bert", "Roberta", "MPNet", "DistilBert", "ModernBert", "Electra"]


@pytest.mark.parametrize("left", [False, True])
def test_every_token_is_told_from_the_vector_and_the_tokens_before(
    tiny_model: Path, left: bool
) -> None:
    """The value is that of a loop which shows the decoder one prefix after another, of one sentence
    after another.
    """
    model = student(tiny_model, "mean", left=left).eval()
    made, text = objective("tsdae", model).double(), model.preprocess(sentences(4))
    views, losses = made.encode([text], None), []
    for number, (ids, mask) in enumerate(
        zip(text["input_ids"], text["attention_mask"], strict=True)
    ):
        tokens, vector = ids[mask.bool()], views.stack[0, number : number + 1]
        for place in range(1, len(tokens)):
            logits = made.terms["tsdae"].decode(vector, tokens[None, :place])
            losses.append(-logits[0, -1].log_softmax(dim=-1)[tokens[place]])
    found = made.loss(views, [], made.terms)["tsdae"]
    assert found.item() == pytest.approx(torch.stack(losses).mean().item(), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_encoder_learns_by_tsdae_and_keeps_its_weights_until_then(
    kind: str, tmp_path: Path
) -> None:
    """Building the decoder changes no weight of the student; a few steps lower the loss of the
    whole sentence.
    """
    model = as_student(kind, tmp_path).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    made, text = objective("tsdae", model), model.preprocess(sentences(8))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert (
        made.terms["tsdae"].words.table[0].weight.data_ptr() != token_table(model).weight.data_ptr()
    ), "a copy"
    optimizer, losses = torch.optim.Adam(made.parameters(), lr=1e-2), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = made([dict(text)])["tsdae"]
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert (
        sum(not torch.equal(value, before[name]) for name, value in model.state_dict().items()) > 5
    )


def test_the_generator_says_the_hidden_words_and_no_others(
    tiny_model: Path, generator: str
) -> None:
    made = objective("diffcse", student(tiny_model), generator=generator)
    editor, text = made.terms["diffcse"].editor, made.model.preprocess(sentences(20))
    ids, mask = text["input_ids"], text["attention_mask"]
    noise = torch.rand(*ids.shape, 3, generator=torch.Generator().manual_seed(0))
    hidden, shown = editor.hiding(ids, mask, noise)
    edited, losses = editor(ids, mask, hidden, shown)
    assert torch.equal(edited[~hidden], ids[~hidden]), "marks, padding and all that was seen stay"
    assert len(losses) == hidden.sum() > 0
    with torch.no_grad():
        expected = editor.frozen(input_ids=shown, attention_mask=mask).logits.argmax(dim=-1)
    assert torch.equal(edited[hidden], expected[hidden])
    assert not editor.frozen.held[0].training


@pytest.mark.parametrize("packed", [False, True])
def test_the_vector_stands_for_the_first_token(
    tiny_model: Path, generator: str, packed: bool
) -> None:
    """With that layer's own output for [CLS], the second encoder gives what it gives; any other
    vector is seen.
    """
    term = objective("diffcse", student(tiny_model, packed=packed), generator=generator).terms[
        "diffcse"
    ]
    plain = student(tiny_model, packed=False)
    text, bert = plain.preprocess(sentences(5)), plain[0].auto_model.eval()
    first, real = bert.embeddings(text["input_ids"])[:, 0], text["attention_mask"].bool()
    expected = plain(dict(text))["token_embeddings"]
    assert torch.allclose(term.states(text, first)[real], expected[real], atol=1e-5)
    assert not torch.allclose(term.states(text, -first)[real], expected[real], atol=1e-3)
    vectors = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(term.states(text, vectors)[0, :, 0].sum(), vectors)
    assert gradient[0].abs().max() > 0
    assert gradient[1:].abs().max() == 0, "a sentence sees its own vector alone"


def test_a_generator_without_layers_for_words_learns_them_beside(tiny_model: Path) -> None:
    made = objective("diffcse", student(tiny_model), generator=str(tiny_model))
    sum(made([made.model.preprocess(sentences(6))], torch.arange(6)).values()).backward()
    (generator,) = made.terms["diffcse"].editor.frozen.held
    learnt = {name for name, weight in generator.named_parameters() if weight.grad is not None}
    assert learnt
    assert all(name.startswith("cls.") for name in learnt)
    saved = {name for name in made.state_dict() if ".editor.learnt" in name}
    assert len(saved) == len(learnt)


def test_the_student_stands_at_each_first_real_token() -> None:
    states, first = draw(3, 4, 2), draw(3, 2, seed=1)
    found = infocse(states, first, torch.tensor([[1, 1, 1, 1], [0, 0, 1, 1], [0, 1, 1, 0]]))
    for row, place in enumerate((0, 2, 1)):
        for column in range(4):
            assert torch.equal(
                found[row, column], first[row] if column == place else states[row, column]
            )


@pytest.mark.parametrize("packed", [False, True])
def test_infocse_by_hand(tiny_model: Path, packed: bool) -> None:
    """Sentence by sentence, without padding; the first half of two layers is the first."""
    made = objective("infocse", student(tiny_model, packed=packed))
    term, plain = made.terms["infocse"], student(tiny_model, packed=False)[0].auto_model.eval()
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
    assert not term.frozen.held[0].training
    assert not any(weight.requires_grad for weight in term.frozen.held[0].parameters())


def test_what_does_not_fit_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = student(tiny_model)
    context, text = BuildContext.of(model), model.preprocess(sentences(4))
    narrow = BuildContext(8, model.tokenizer, model)
    (tmp_path / "config.json").write_text("{}")
    static = SentenceTransformer(
        modules=[StaticEmbedding(load("isotrope/tiny").tokenizer, embedding_dim=8)]
    )
    for made, known, said_of_it in (
        (DiffCSE(), context, "read different words"),
        (DiffCSE(str(tmp_path)), context, "is no masked language model"),
        (DiffCSE(str(tiny_model)), narrow, "a vector of 8 dimensions among token embeddings of 32"),
        (
            TSDAE(),
            BuildContext(width=16, student=random_model("DebertaV2")),
            "a deberta-v2 cannot be the decoder",
        ),
        (TSDAE(), BuildContext.of(static), "the model has no table of them"),
    ):
        with pytest.raises(UserError, match=said_of_it):
            made.build(known)
    plain, of_another_view = (component("terms", "masked_words", view=view) for view in (0, 2))
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (plain, {"tokens": [ON_TOKENS["tsdae"]]}, "a token step moves words"),
        (of_another_view, {}, r"terms.masked_words = \[2\] is not possible: the views are 0 to 0"),
        (MutualInformation(), {"context": narrow}, "this model has others"),
    ]
    for term, options, said_of_it in cases:
        with pytest.raises(UserError, match=said_of_it):
            Objective(model, {"term": term}, passes=1, **options).train()([dict(text)])
    model.tokenizer.mask_token = None
    with refused("no-mask-token"):
        InfoCSE().build(context)
