"""What the encoder reads: stacked passes, and token embeddings of which some dimensions are erased."""

from functools import partial, update_wrapper
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor

from helpers.words import VOCABULARY, sentences
from isotrope import Objective, load
from isotrope.contract.features import (
    KEEP,
    LAYER_FEATURES,
    LAYER_TOKENS,
    POSITIONS,
    in_rows,
    outputs,
    stacked,
    step_features,
)
from isotrope.encoder.fast.packed import WIDTH
from isotrope.terms.infonce import InfoNCE
from isotrope.tokens.cutoff import Cutoff, LayerCutoff
from isotrope.tokens.shuffle import PositionShuffle

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertModel", {"max_position_embeddings": 40}),
    "roberta": ("RobertaModel", {"max_position_embeddings": 40, "pad_token_id": 1}),
    "mpnet": ("MPNetModel", {"max_position_embeddings": 40, "pad_token_id": 1}),
    "distilbert": ("DistilBertModel", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}),
}


def embed(model: SentenceTransformer, features: dict[str, Any]) -> Tensor:
    return outputs(model, features)[0]


@pytest.fixture(scope="module", params=[*FAMILIES, "modernbert"])
def family(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SentenceTransformer:
    """A small random encoder of each family; isotrope/tiny is a ModernBERT."""
    if request.param == "modernbert":
        return load("isotrope/tiny", "mean", device="cpu", dropout=0.0).eval()
    name, options = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *dict.fromkeys(VOCABULARY.split())]
    tokenizer = Tokenizer(
        models.WordLevel({piece: i for i, piece in enumerate(pieces)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(
        folder
    )
    kind = getattr(transformers, name)
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    sizes = {} if "dim" in options else sizes
    kind(kind.config_class(vocab_size=len(pieces), **sizes, **options)).save_pretrained(folder)
    return load(folder, "mean", device="cpu", dropout=0.0).eval()


def test_erased_features_in_every_family_equal_other_weights(family: SentenceTransformer) -> None:
    """The oracle: for one sentence, an embedding table whose columns are 0. Padding and positions
    are as ever.
    """
    table = family[0].auto_model.get_input_embeddings()
    column = family.preprocess(sentences(4))
    assert (column["attention_mask"] == 0).any(), "sentences of several lengths"
    step, weights = Cutoff("feature", 0.25), table.weight.detach().clone()
    changed = step({**column, **step_features(family, column)}, torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = embed(family, dict(changed))
        expected = torch.empty_like(found)
        for sentence, keep in enumerate(changed["feature_keep"]):
            table.weight.copy_(weights * keep)
            expected[sentence] = family(dict(column))["sentence_embedding"][sentence]
        table.weight.copy_(weights)
        plain = family(dict(column))["sentence_embedding"]
        unchanged = embed(family, {**column, **step_features(family, column)})
    assert torch.allclose(unchanged, plain, atol=1e-6), "nothing erased, nothing changed"
    assert torch.allclose(found, expected, atol=1e-6)
    assert not torch.allclose(found, plain, atol=1e-3)


def test_every_family_takes_what_consert_changes(family: SentenceTransformer) -> None:
    """Unchanged, it is the plain encoder; erased or moved, it is not; another pass sees none of it."""
    columns = [family.preprocess(sentences(4))]
    plain = Objective(family, {"infonce": InfoNCE()}).encode(columns, None).stack
    needs = (LAYER_TOKENS, LAYER_FEATURES, POSITIONS)
    with torch.no_grad():
        unchanged = embed(family, {**columns[0], **step_features(family, columns[0], needs)})
    assert torch.allclose(unchanged, plain[0], atol=1e-5)
    for step in (LayerCutoff("token", 0.3), LayerCutoff("feature", 0.3), PositionShuffle()):
        changed = (
            Objective(family, {"infonce": InfoNCE()}, tokens=[(step, [1])])
            .encode(columns, None)
            .stack
        )
        assert torch.allclose(changed[0], plain[0], atol=1e-5)
        assert not torch.allclose(changed[1], plain[1], atol=1e-3)


def test_fillers_of_a_packed_batch_do_not_move_what_is_erased(tiny_model: Path) -> None:
    """On a GPU, and where layers are compiled, more tokens than the real ones go through the
    embedding layer.
    """
    plain, packed = (
        load(tiny_model, "mean", device="cpu", dropout=0.0, packed=each).eval()
        for each in (False, True)
    )
    encoder = packed[0].auto_model
    encoder.forward = update_wrapper(
        partial(encoder.forward, width=WIDTH, multiple=None), encoder.forward
    )
    seen = []
    encoder.embeddings.register_forward_hook(
        lambda _module, _inputs, states: seen.append(states.shape[1])
    )
    column = plain.preprocess(sentences(4))
    changed = LayerCutoff("token", 0.4)(
        column | step_features(plain, column, (LAYER_TOKENS,)), torch.Generator().manual_seed(0)
    )
    with torch.no_grad():
        expected, found = embed(plain, dict(changed)), embed(packed, dict(changed))
    assert seen[0] > int(column["attention_mask"].sum()), "there are fillers"
    assert torch.allclose(found, expected, atol=1e-5)


def test_a_stack_of_passes_has_the_embeddings_of_each(family: SentenceTransformer) -> None:
    """Another pass's longer sentences, and its erased features, change nothing."""
    short, long = (family.preprocess(text) for text in (["the river"] * 2, sentences(2)))
    assert short["input_ids"].shape[1] < long["input_ids"].shape[1]
    passes = [{**column, **step_features(family, column)} for column in (short, long)]
    passes[1][KEEP][:, :, ::2] = 0
    with torch.no_grad():
        found = embed(family, stacked(passes))
        expected = torch.cat([embed(family, dict(one)) for one in passes])
        plain = family(dict(short))["sentence_embedding"]
    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(found[:2], plain, atol=1e-5)
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert not torch.allclose(found[2:], family(dict(long))["sentence_embedding"], atol=1e-3)


def test_positions_do_not_change_where_sentences_are_padded_on_the_left(
    family: SentenceTransformer,
) -> None:
    """RoBERTa counts them from the ids, which it does not see any more."""
    side = family.tokenizer.padding_side
    family.tokenizer.padding_side = "left"
    try:
        column = family.preprocess(sentences(4))
    finally:
        family.tokenizer.padding_side = side
    assert (column["attention_mask"][:, 0] == 0).any()
    with torch.no_grad():
        found = embed(family, {**column, **step_features(family, column)})
        assert torch.allclose(found, family(dict(column))["sentence_embedding"], atol=1e-5)


def test_word_vectors_read_rows_as_a_line() -> None:
    """Two passes of two texts each, one text empty: every row is the mean of its own words."""
    tokenizer = Tokenizer(
        models.WordLevel({"[UNK]": 0, "a": 1, "river": 2, "city": 3}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
    table = model[0].embedding.weight
    column = in_rows(model.preprocess(["a river city", "river", ""]))
    assert column["input_ids"].tolist() == [[1, 2, 3], [2, 0, 0], [0, 0, 0]]
    assert column["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    cut = {**column, "attention_mask": column["attention_mask"] * torch.tensor([1, 0, 1])}
    found = embed(model, stacked([column, cut]))
    river = table[2]
    expected = [table[1:4].mean(0), river, 0 * river, (table[1] + table[3]) / 2, river, 0 * river]
    assert torch.allclose(found, torch.stack(expected))
    plain = {"input_ids": torch.ones(2, 3, dtype=torch.long)}
    assert in_rows(plain) is plain
