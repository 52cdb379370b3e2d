"""Tokens made ahead of time: the same features as the model's own collator, found again, never
stale, never half.
"""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator

import isotrope
from helpers.words import sentences
from isotrope.text import read_text
from isotrope.text.corpus import Texts
from isotrope.text.permutation import RowIds
from isotrope.text.tokens import TextReader, TokenStore, token_data

LONG = " and so on, for longer than anyone reads: Größe, 日本語, don't" * 9


@pytest.fixture
def corpus(tmp_path: Path) -> Texts:
    """90 rows of three columns; every seventh is cut."""
    lines = [
        [f"{text}{LONG if (i + at) % 7 == 0 else ''} {i}{at}" for at, text in enumerate(row)]
        for i, row in enumerate(zip(*(sentences(90, seed=seed) for seed in range(3)), strict=True))
    ]
    path = tmp_path / "corpus.tsv"
    path.write_text("q\tp\tn\n" + "".join("\t".join(row) + "\n" for row in lines), encoding="utf-8")
    return read_text(path, text_column="q", positive="p", negatives=["n"]).texts()


def stored(
    model: SentenceTransformer,
    corpus: Texts,
    rows: RowIds | None = None,
    length: int = 16,
    file: Path | None = None,
) -> TokenStore:
    with (file or Path(os.devnull)).open("a") as out:
        dataset, store = token_data(model, corpus, rows, length, Console(file=out))
    assert isinstance(store, TokenStore)
    assert dataset.column_names == ["label"]
    return store


def folders(cached: Path) -> set[str]:
    return {path.name for path in (cached / "tokens").iterdir() if path.is_dir()}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(found) == list(expected)
    for key, value in expected.items():
        if isinstance(value, torch.Tensor):
            assert value.dtype == found[key].dtype
            assert torch.equal(value, found[key]), key
        else:
            assert value == found[key], key


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("prompt", [None, "query: "])
# with token types; a ModernBERT, without
@pytest.mark.parametrize("backbone", ["bert", "isotrope/tiny"])
def test_features_are_those_of_the_models_own_collator(
    tiny_model: Path, corpus: Texts, backbone: str, prompt: str | None, side: str
) -> None:
    model = isotrope.load(tiny_model if backbone == "bert" else backbone, device="cpu")
    if backbone == "bert":
        model.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    model.tokenizer.padding_side = model.tokenizer.truncation_side = side
    if prompt is not None:
        model.prompts, model.default_prompt_name = {"query": prompt}, "query"
    own = SentenceTransformerDataCollator(model.preprocess, max_length=24, prompts=prompt)
    store = stored(model, corpus, length=24)
    widths = set()
    for rows in ([0], [5, 3], list(range(90)), [89, 7, 7, 1], [1, 2, 3]):
        expected = own([corpus.dataset[row] for row in rows])
        found = store([{"label": row} for row in rows])
        same(found, expected)
        widths.add(found["text_input_ids"].shape[1])
    assert 24 in widths, "some are cut"
    assert len(widths) > 1, "a batch is as wide as its longest"
    assert ("text_token_type_ids" in expected) == (backbone == "bert")
    assert {"text_input_ids", "positive_input_ids", "negative_0_input_ids"} <= expected.keys()


@pytest.mark.parametrize("backbone", ["bert", "slow"])
def test_positives_may_have_a_prompt_of_their_own(
    prompted_model: Path,
    corpus: Texts,
    cached: Path,
    backbone: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As e5 wants it: its own words before queries and before passages; also where there is no
    store.
    """
    model = isotrope.load(prompted_model, device="cpu", prompt_name="query")
    if backbone == "slow":
        monkeypatch.setattr(TextReader, "agrees", lambda *_: False)
    words = {"text": "song of ", "positive": "red ", "negative_0": "red "}
    own = SentenceTransformerDataCollator(model.preprocess, max_length=24, prompts=words)
    dataset, store = token_data(model, corpus, None, 24, Console(file=io.StringIO()), "red ")
    expected, found = (
        own([corpus.dataset[row] for row in (5, 3)]),
        store([dataset[row] for row in (5, 3)]),
    )
    assert expected["text_prompt_length"] != expected["positive_prompt_length"]
    same(found, expected)
    if backbone == "bert":
        token_data(model, corpus, None, 24, Console(file=io.StringIO()))
        assert len(folders(cached)) == 2, "other words, other tokens"


def test_a_sample_is_made_into_tokens_alone(tiny_model: Path, corpus: Texts) -> None:
    model = isotrope.load(tiny_model, device="cpu")
    whole, part = stored(model, corpus), stored(model, corpus, np.array([70, 3, 41]))
    assert (len(whole.bounds), len(part.bounds)) == (3 * 90 + 1, 3 * 3 + 1)
    assert isinstance(part.ids, np.memmap)
    assert part.ids.dtype == np.uint16
    rows = [{"label": row} for row in (41, 70, 3)]
    same(part(rows), whole(rows))
    assert stored(model, corpus, np.random.default_rng(0).permutation(90)).rows is None, (
        "all rows are no sample"
    )


def test_tokens_are_found_again_and_never_stale(
    tiny_model: Path, corpus: Texts, cached: Path
) -> None:
    model, said = isotrope.load(tiny_model, device="cpu"), cached.with_suffix(".txt")
    for _ in range(2):
        stored(model, corpus, file=said)
    assert said.read_text() == "making tokens of 90 sentences\n", "once"
    before = folders(cached)
    stored(model, corpus, length=15)
    stored(model, corpus, np.array([4, 2]))
    stored(model, corpus, np.array([2, 4]))  # the same rows
    model.prompts, model.default_prompt_name = {"query": "q: "}, "query"
    stored(model, corpus)
    model.default_prompt_name = None
    model.tokenizer.backend_tokenizer.add_tokens(["so"])
    stored(model, corpus)
    assert len(folders(cached) - before) == 4


def test_features_that_the_store_cannot_make_are_left_to_the_model(
    tiny_model: Path, corpus: Texts, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Token types that are no zeros, as XLNet has them."""
    model = isotrope.load(tiny_model, device="cpu")
    preprocess = model.preprocess

    def other(*args: object, **kwargs: object) -> dict[str, torch.Tensor]:
        features = preprocess(*args, **kwargs)
        return features | {"token_type_ids": torch.full_like(features["input_ids"], 2)}

    monkeypatch.setattr(model, "preprocess", other)
    dataset, collator = token_data(model, corpus, None, 16, Console(quiet=True))
    assert isinstance(collator, SentenceTransformerDataCollator)
    assert dataset is corpus.dataset
    assert not (cached / "tokens").exists()
