"""Negation on tokens, in words, and the user's own column in its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import isotrope
from component_contract import WORDS, words
from isotrope import component, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.tokens.negate import Negate
from token_batches import read, seeded


def negated(texts: list[str], model: str = "isotrope/tiny", **options: int) -> list[str]:
    encoder = load(model, "mask", device="cpu")
    step = component("tokens", "negate", **options).build(BuildContext.of(encoder))
    after = step(encoder.preprocess(texts), seeded())
    found = encoder.tokenizer.batch_decode(read(after))
    return [one.partition('" ')[2].partition(' " means')[0] for one in found]


def test_it_says_the_opposite() -> None:
    pairs = {
        "the river is old": "the river is not old",
        "she was born in a city and can sing": "she was not born in a city and can sing",
        "they do not live there, and he did not": "they do live there, and he did not",
        "old stones lie there": "not old stones lie there",
        "Is it old?": "is not it old?",
        "": "not",
    }
    assert negated(list(pairs)) == list(pairs.values())
    assert negated([opposite for _, opposite in list(pairs.items())[:2]]) == list(pairs)[:2], "and back"


def test_a_text_at_the_longest_stays() -> None:
    assert negated(["the river is old", "a boat"], max_length=14) == ["the river is old", "not a boat"]


def test_padding_may_stand_on_either_side() -> None:
    step = component("tokens", "negate").build(BuildContext(tokenizer=words()))
    rows = [[0, 0, 1, 2, 3, 5, 9], [1, 2, 3, 4, 5, 6, 9], [1, 5, 9, 0, 0, 0, 0]]  # "a is river", "a is not river boat"
    ids = torch.tensor(rows)
    after = step({"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": 0 * ids}, seeded())
    assert [" ".join(WORDS[token] for token in row[1:-1]) for row in read(after)] == [
        "a is not river",
        "a is river boat",
        "not river",
    ]
    assert after["token_type_ids"].shape == after["input_ids"].shape


def test_a_tokenizer_without_the_word_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError, match=r"no token for the word not.*--negative COLUMN, and terms.soft.view=0"):
        Negate().build(BuildContext.of(load(tiny_model, device="cpu")))


def test_the_users_own_negations_take_its_place(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    texts = corpus_file.read_text().splitlines()[:32]
    table = tmp_path / "table.jsonl"
    table.write_text("\n".join(json.dumps({"text": one, "same": one, "no": f"no {one}"}) for one in texts))
    more = ["tokens.negate=false", "views.passes=2", "tokens.other.on=[1]", "scores=false", "terms.soft.view=0"]
    done = isotrope.train(
        table, output=tmp_path / "run", preset="sncse", model=str(tiny_model), dev="none", labels="none",
        text="text", positive="same", negatives=["no"], overrides=[*more, "train.batch_size=8", "train.max_length=40"],
    )  # fmt: skip
    assert (done.folder / "model").is_dir(), "the term reads the negatives, so that no step must"
