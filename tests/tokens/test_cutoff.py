"""Token, span and feature cutoff: what is erased, and that a real encoder does not see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from conftest import VOCABULARY, sentences
from isotrope import Objective, component, load
from isotrope.encoder.features import embed, whole
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.cutoff import Cutoff, cutoff, feature_cutoff
from isotrope.tokens.repeat import Repeat
from isotrope.types import TokenStep
from token_batches import CLS, SEP, features, read, seeded

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None)
@given(lengths, st.booleans(), st.booleans(), st.floats(0, 1), st.integers(0, 10_000))
def test_cutoff_erases_a_share(counts: list[int], left: bool, span: bool, ratio: float, seed: int) -> None:
    batch = features(counts, left)
    after = Cutoff("span" if span else "token", ratio)(batch, seeded(seed))
    assert after["input_ids"].equal(batch["input_ids"])
    for tokens, count in zip(read(after), counts, strict=True):
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        gone = sorted(set(range(1, count + 1)) - set(tokens))
        assert len(gone) == int(torch.tensor(ratio, dtype=torch.float32) * count)
        if span and gone:
            assert gone == list(range(gone[0], gone[-1] + 1))


@pytest.mark.parametrize("span", [False, True])
def test_every_place_is_erased_alike(span: bool) -> None:
    mask = torch.ones(6000, 5, dtype=torch.long)
    erased = (cutoff(mask, 1 / 3, span, seeded()) == 0).sum(dim=0).tolist()
    assert erased[0] == erased[-1] == 0
    assert sum(erased) == 6000
    assert all(abs(number - 2000) < 200 for number in erased[1:-1])  # five standard deviations


@pytest.mark.parametrize("step", [Cutoff(ratio=0.4), Cutoff("span", 0.4)])
def test_a_draw_is_a_function_of_the_generator(step: TokenStep) -> None:
    batch = features([9, 9, 9, 9])
    kept = {key: value.clone() for key, value in batch.items()}
    first, again, other = (read(step(batch, seeded(seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other
    assert all(batch[key].equal(kept[key]) for key in batch)  # the other passes read the same features


@pytest.mark.parametrize("options", [{"ratio": 0.5}, {"unit": "span", "ratio": 0.5}])
def test_a_real_encoder_reads_them(tiny_model: Path, options: dict[str, object]) -> None:
    """One pass changes, the other does not; what is erased has no influence."""
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    column = model.preprocess(sentences(4))
    step = component("tokens", "cutoff", **options)
    views = Objective(model, {"infonce": InfoNCE()}, tokens=[(step, [1])]).encode([column], None)
    assert torch.allclose(views.stack[0], model.encode(sentences(4), convert_to_tensor=True), atol=1e-5)
    assert not torch.allclose(views.stack[1], views.stack[0], atol=1e-3)
    changed = step(dict(column), seeded())
    erased = changed["attention_mask"] != column["attention_mask"]
    blank = {**changed, "input_ids": changed["input_ids"].masked_fill(erased, 7)}
    embedded = [model(dict(batch))["sentence_embedding"] for batch in (changed, blank)]
    assert torch.allclose(embedded[0], embedded[1], atol=1e-6)


def test_impossible_settings_are_refused() -> None:
    for options in ({"ratio": 1.5}, {"unit": "word"}):
        with pytest.raises(UserError, match=r"tokens\.cutoff\."):
            component("tokens", "cutoff", **options)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.floats(0, 1), st.integers(0, 10_000))
def test_feature_cutoff_erases_a_share_of_the_features(count: int, width: int, ratio: float, seed: int) -> None:
    batch = {**features([3] * count), "feature_keep": torch.ones(count, 1, width)}
    after = Cutoff("feature", ratio)(batch, seeded(seed))
    assert after["feature_keep"].shape == (count, 1, width)
    assert ((after["feature_keep"] == 0).sum(dim=-1) == int(ratio * width)).all()
    assert ((after["feature_keep"] == 0) | (after["feature_keep"] == 1)).all()
    assert all(after[key] is batch[key] for key in ("input_ids", "attention_mask"))
    assert batch["feature_keep"].eq(1).all()


def test_every_feature_is_erased_alike_and_sentences_differ() -> None:
    keep = feature_cutoff(torch.ones(6000, 1, 6), 1 / 3, seeded())
    numbers = (keep == 0).sum(dim=(0, 1)).tolist()
    assert all(abs(number - 2000) < 200 for number in numbers)  # five standard deviations
    assert len({tuple(row) for row in keep[:, 0].tolist()}) == 15, "all choices of two of six"


FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {"max_position_embeddings": 40}),
    "roberta": ("RobertaModel", {"max_position_embeddings": 40, "pad_token_id": 1}),
    "mpnet": ("MPNetModel", {"max_position_embeddings": 40, "pad_token_id": 1}),
    "distilbert": ("DistilBertModel", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}),
}


@pytest.fixture(scope="module", params=[*FAMILIES, "modernbert"])
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SentenceTransformer:
    """A small random encoder of each family; isotrope/tiny is a ModernBERT."""
    if request.param == "modernbert":
        return load("isotrope/tiny", "mean", device="cpu", dropout=0.0).eval()
    name, options = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *dict.fromkeys(VOCABULARY.split())]
    tokenizer = Tokenizer(models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    sizes = {} if "dim" in options else sizes
    kind(kind.config_class(vocab_size=len(pieces), **sizes, **options)).save_pretrained(folder)
    return load(folder, "mean", device="cpu", dropout=0.0).eval()


def test_erased_features_in_every_family_equal_other_weights(family: SentenceTransformer) -> None:
    """The oracle: for one sentence, an embedding table whose columns are 0. Padding and positions are as ever."""
    table = family[0].auto_model.get_input_embeddings()
    column = family.preprocess(sentences(4))
    assert (column["attention_mask"] == 0).any(), "sentences of several lengths"
    step, weights = Cutoff("feature", 0.25), table.weight.detach().clone()
    changed = step({**column, **whole(family, column)}, seeded())
    with torch.no_grad():
        found = embed(family, dict(changed))
        expected = torch.empty_like(found)
        for sentence, keep in enumerate(changed["feature_keep"]):
            table.weight.copy_(weights * keep)
            expected[sentence] = family(dict(column))["sentence_embedding"][sentence]
        table.weight.copy_(weights)
        plain = family(dict(column))["sentence_embedding"]
        unchanged = embed(family, {**column, **whole(family, column)})
    assert torch.allclose(unchanged, plain, atol=1e-6), "nothing erased, nothing changed"
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found, plain, atol=1e-3)


def test_feature_cutoff_in_an_objective(family: SentenceTransformer) -> None:
    """One pass of three changes, beside a step that makes its pass wider; the erased features get no gradient."""
    columns = [family.preprocess(sentences(4))]
    steps = [(Cutoff("feature", 0.5), [1]), (Repeat(max_length=32), [2])]
    objective = Objective(family, {"infonce": InfoNCE()}, tokens=steps, passes=3)
    views = objective.encode(columns, None)
    plain = Objective(family, {"infonce": InfoNCE()}, passes=3).encode(columns, None)
    same = [torch.allclose(views.stack[p], plain.stack[p], atol=1e-5) for p in range(3)]
    assert same == [True, False, False]
    one = Objective(family, {"infonce": InfoNCE()}, tokens=[(Cutoff("feature", 1.0), [0])], passes=1)
    gradient = torch.autograd.grad(
        one.encode(columns, None).stack.sum(), family[0].auto_model.get_input_embeddings().weight
    )[0]
    assert gradient.abs().max() == 0


def test_an_encoder_that_takes_no_embeddings_is_refused() -> None:
    with pytest.raises(UserError, match="takes no input embeddings"):
        Cutoff("feature")(features([3, 4]), seeded())
    assert whole(torch.nn.Linear(2, 2), features([3])) == {}
