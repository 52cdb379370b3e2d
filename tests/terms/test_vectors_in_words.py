"""DiffCSE and InfoCSE: a sentence's vector among its words, by hand; what is hidden and replaced; what is refused."""

from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from conftest import build_bert, sentences
from drawn import draw
from isotrope import Objective, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms.diffcse import DiffCSE
from isotrope.terms.infocse import InfoCSE, infocse
from isotrope.terms.infonce import InfoNCE
from isotrope.views.projector import Projector


@pytest.fixture(scope="module")
def generator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A masked language model with the words of the small BERT."""
    folder = tmp_path_factory.mktemp("generator")
    words = AutoTokenizer.from_pretrained(build_bert(folder))
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    torch.manual_seed(1)
    BertForMaskedLM(config).save_pretrained(folder)
    return folder


def objective(model: Path, generator: Path | str, size: int | None = None, packed: bool = True) -> Objective:
    student = load(model, "cls", dropout=0.0, device="cpu", packed=packed)
    torch.manual_seed(0)
    terms = {"infonce": InfoNCE(), "diffcse": DiffCSE(str(generator), weight=1.0)}
    made = Objective(student, terms, views=[Projector()], mini_batch_size=size).train()
    made.step = 1  # the first step refuses equal views
    return made


def test_the_generator_says_the_hidden_words_and_no_others(tiny_model: Path, generator: Path) -> None:
    made = objective(tiny_model, generator).terms["diffcse"].editor
    model = load(tiny_model, "cls", device="cpu")
    text = model.preprocess(sentences(20))
    ids, mask = text["input_ids"], text["attention_mask"]
    noise = torch.rand(*ids.shape, 3, generator=torch.Generator().manual_seed(0))
    hidden, shown = made.hiding(ids, mask, noise)
    edited, losses = made(ids, mask, hidden, shown)
    assert torch.equal(edited[~hidden], ids[~hidden]), "marks, padding and all that was seen stay"
    assert len(losses) == hidden.sum() > 0
    with torch.no_grad():
        expected = made.frozen(input_ids=shown, attention_mask=mask).logits.argmax(dim=-1)
    assert torch.equal(edited[hidden], expected[hidden])
    assert not made.frozen.held[0].training


@pytest.mark.parametrize("packed", [False, True])
def test_the_vector_stands_where_the_embedding_layer_had_the_first_token(
    tiny_model: Path, generator: Path, packed: bool
) -> None:
    """With that layer's own output for [CLS], the second encoder gives what it gives; any other vector is seen."""
    term = objective(tiny_model, generator, packed=packed).terms["diffcse"]
    text = load(tiny_model, "cls", device="cpu").preprocess(sentences(5))
    plain = load(tiny_model, "cls", dropout=0.0, device="cpu", packed=False)
    bert = plain[0].auto_model.eval()
    first = bert.embeddings(text["input_ids"])[:, 0]
    real = text["attention_mask"].bool()
    expected = plain(dict(text))["token_embeddings"]
    assert torch.allclose(term.states(text, first)[real], expected[real], atol=1e-5)
    assert not torch.allclose(term.states(text, -first)[real], expected[real], atol=1e-3)
    vectors = first.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(term.states(text, vectors)[0, :, 0].sum(), vectors)
    assert gradient[0].abs().max() > 0
    assert gradient[1:].abs().max() == 0, "a sentence sees its own vector alone"


def test_gradient_caching_and_the_order_of_sentences_change_nothing(tiny_model: Path, generator: Path) -> None:
    """What is hidden depends on the row, not on its place: so two processes hide what one does."""
    found, text = [], sentences(6)
    order = [3, 0, 5, 1, 4, 2]
    for size, rows in ((None, range(6)), (4, range(6)), (None, order)):
        made = objective(tiny_model, generator, size)
        losses = made([made.model.preprocess([text[row] for row in rows])], torch.tensor([*rows]))
        sum(losses.values()).backward()
        assert losses["diffcse"] > 0
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(torch.allclose(gradient, other[name], atol=1e-5) for name, gradient in found[0].items())
    trained = {".".join(name.split(".")[:3]) for name in found[0]}
    assert {"components.0.net", "components.1.second", "components.1.detector"} < trained
    assert not any(name.startswith("components.1.editor.learnt") for name in found[0])
    assert not any("frozen" in name for name in made.state_dict()), "its files have it"


def test_a_generator_without_layers_for_words_learns_them_beside(tiny_model: Path) -> None:
    made = objective(tiny_model, tiny_model)
    sum(made([made.model.preprocess(sentences(6))], torch.arange(6)).values()).backward()
    (generator,) = made.terms["diffcse"].editor.frozen.held
    learnt = {name for name, weight in generator.named_parameters() if weight.grad is not None}
    assert learnt
    assert all(name.startswith("cls.") for name in learnt)
    saved = {name for name in made.state_dict() if name.startswith("components.1.editor.learnt")}
    assert len(saved) == len(learnt)


def test_what_does_not_fit_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = load(tiny_model, "cls", device="cpu")
    context = BuildContext.of(model)
    with pytest.raises(UserError, match="read different words"):
        DiffCSE().build(context)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match="is no masked language model"):
        DiffCSE(str(tmp_path)).build(context)
    with pytest.raises(UserError, match="a vector of 8 dimensions among token embeddings of 32"):
        DiffCSE(str(tiny_model)).build(BuildContext(8, model.tokenizer, model))


def objective_infocse(model: Path, size: int | None = None, packed: bool = True) -> Objective:
    student = load(model, "cls", dropout=0.0, device="cpu", packed=packed)
    torch.manual_seed(0)
    made = Objective(student, {"infonce": InfoNCE(), "infocse": InfoCSE(weight=1.0)}, mini_batch_size=size).train()
    made.step = 1  # the first step refuses equal views
    return made


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_the_loops(dtype: torch.dtype) -> None:
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
    made = objective_infocse(tiny_model, packed=packed)
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
    assert not term.frozen.held[0].training


def test_the_loss_moves_the_student_by_its_first_token_alone(tiny_model: Path) -> None:
    """And neither gradient caching nor the order of the sentences changes it."""
    found, text = [], sentences(6)
    for size, rows in ((None, [*range(6)]), (4, [*range(6)]), (None, [3, 0, 5, 1, 4, 2])):
        made = objective_infocse(tiny_model, size)
        losses = made([made.model.preprocess([text[row] for row in rows])], torch.tensor(rows))
        losses["infocse"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    for other in found[1:]:
        assert found[0].keys() == other.keys()
        assert all(torch.allclose(gradient, other[name], atol=1e-5) for name, gradient in found[0].items())
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert not any("frozen" in name or "table" in name for name in made.state_dict())
    kept = made.terms["infocse"].frozen.held[0].state_dict()
    assert all(not value.requires_grad for value in kept.values())


def test_what_does_not_fit_is_refused_infocse(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", device="cpu")
    made = Objective(model, {"infocse": InfoCSE()}, passes=1).train()
    made.terms["infocse"].words.layer.in_features = 8
    with pytest.raises(UserError, match="this model has others"):
        made([model.preprocess(sentences(4))])
    model.tokenizer.mask_token = None
    with pytest.raises(UserError, match="the model has no word"):
        InfoCSE().build(BuildContext.of(model))
