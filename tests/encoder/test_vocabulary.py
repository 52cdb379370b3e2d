"""Fewer tokens: what is kept, what stays equal to the last bit, and what is read in smaller pieces."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.small_vocabularies import ENGLISH, GERMAN, KINDS, WORDS, roberta
from isotrope.encoder import load, save
from isotrope.encoder.vocabulary import keep_tokens, token_counts, tokenizer_kind

LETTERS = 5 + 26 + 26  # the tokens of `build_bert` before its words


@pytest.fixture(scope="module", params=KINDS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[SentenceTransformer, ...]:
    """A model, and the same with the tokens that German needs most, saved and loaded again."""
    kind, place = request.param, tmp_path_factory.mktemp("models")
    whole, small = (load(roberta(kind, place), "mean", device="cpu") for _ in range(2))
    assert tokenizer_kind(whole) == kind.replace("bytes", "BPE")
    count = len(whole.tokenizer) - (20 if kind == "Unigram" else 40)
    small, kept = keep_tokens(small, count, token_counts(small, GERMAN.split(". ")))
    assert len(kept) == len(small.tokenizer) == small[0].auto_model.config.vocab_size == count
    save(small, place / "small")
    return whole, SentenceTransformer(str(place / "small"), device="cpu")


def pieces(model: SentenceTransformer, text: str) -> list[str]:
    return list(model.tokenizer.convert_ids_to_tokens(model.tokenizer(text)["input_ids"]))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from([*WORDS, "Zürich", "x", "🙂", "singing,"]), min_size=1, max_size=6
    ).map(" ".join)
)
def test_a_text_that_needs_no_lost_token_keeps_its_vector_to_the_last_bit(
    pair: tuple[SentenceTransformer, ...], text: str
) -> None:
    """And any other text is still read: letter for letter, if nothing else is left."""
    whole, small = pair
    before, after = pieces(whole, text), pieces(small, text)
    if set(before) <= small.tokenizer.get_vocab().keys():
        assert before == after
        np.testing.assert_array_equal(small.encode([text]), whole.encode([text]))
    else:
        assert len(after) >= len(before)
        assert after.count("<unk>") == before.count("<unk>"), "no letter is lost"


def test_both_cases_occur(pair: tuple[SentenceTransformer, ...]) -> None:
    """So the test above says something: German stays, some English goes."""
    whole, small = pair
    known = small.tokenizer.get_vocab().keys()
    same = [set(pieces(whole, word)) <= known for word in WORDS]
    assert any(same)
    assert not all(same)
    assert small.tokenizer.pad_token_id == 1, "RoBERTa counts places from it"
    assert small.tokenizer.mask_token_id == len(small.tokenizer) - 1
    np.testing.assert_array_equal(
        small.tokenizer("")["input_ids"], whole.tokenizer("")["input_ids"]
    )


def test_tokens_come_by_their_frequency_and_words_of_prompts_stay(tmp_path: Path) -> None:
    model = load(roberta("bytes", tmp_path), "mean", device="cpu")
    model.prompts = {"query": "winter"}
    (rare,) = model.tokenizer("winter", add_special_tokens=False)["input_ids"][:1]
    counts = token_counts(model, [ENGLISH])
    assert counts.sum() == len(model.tokenizer(ENGLISH, add_special_tokens=False)["input_ids"])
    counts[rare] = 0
    _, kept = keep_tokens(model, 300, counts)
    assert rare in kept
    gone = np.setdiff1d(np.arange(len(counts)), kept)
    made = [number for number in kept if number > 4 + 256 and number != rare]
    assert counts[gone].mean() < counts[made].mean()


def test_what_cannot_be_cut_is_refused(tmp_path: Path) -> None:
    model = load(roberta("bytes", tmp_path), "mean", device="cpu")
    for count in (10, len(model.tokenizer)):
        with refused("student-does-not-fit", count):
            keep_tokens(model, count)
    model[0].processor = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel()))
    with refused("student-does-not-fit"):
        token_counts(model, ["a"])


def test_the_places_of_unused_tokens_are_taken(tmp_path: Path) -> None:
    """BERT's first ids are such: the words behind the last kept id take them. Other words are read
    in pieces.
    """
    folder = build_bert(tmp_path / "teacher")
    state = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = state["model"]["vocab"]
    spare = sorted(vocabulary, key=vocabulary.__getitem__)[LETTERS : LETTERS + 2]
    for number, word in enumerate(spare):
        vocabulary[f"[unused{number}]"] = vocabulary.pop(word)
    (folder / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    whole, (cut, _) = load(folder, "mean"), keep_tokens(load(folder, "mean"), LETTERS + 2)
    assert len(cut.tokenizer) == cut[0].auto_model.config.vocab_size == LETTERS + 2
    words = sorted(vocabulary, key=vocabulary.__getitem__)[LETTERS + 2 : LETTERS + 4]
    assert [cut.tokenizer.convert_tokens_to_ids(word) for word in words] == [LETTERS, LETTERS + 1]
    np.testing.assert_allclose(
        cut.encode(["q z j", *words]), whole.encode(["q z j", *words]), atol=1e-6
    )
    assert whole.tokenizer.tokenize("king") == ["king"]
    assert cut.tokenizer.tokenize("king") == ["k", "##i", "##n", "##g"]
    assert cut.tokenizer.model_max_length == whole.tokenizer.model_max_length
