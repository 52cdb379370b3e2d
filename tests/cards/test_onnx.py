"""The card of an exported graph."""

from __future__ import annotations

import re
from typing import Any

import yaml

from isotrope.cards.base import Base
from isotrope.cards.card import Card, Data, Step
from isotrope.cards.onnx import onnx_card
from isotrope.cards.verdict import Judgement

FACTS: dict[str, Any] = {
    "model": "mine", "dimensions": 8, "max_length": 64, "prompt": "", "prompts": {"query": "find: "},
    "largest_difference": 2e-6, "versions": {"torch": "2.13.0"},
}  # fmt: skip
BASE = Base(name="their/model", hub="their/model", about={"license": "mit", "language": "en"})
STEP = Step(
    action="Whitened with",
    method="BERT-whitening",
    data=Data(name="notes.txt", rows=9, used=8, checksum="0a1b"),
    cites=["su2021whitening"],
    limits=["It fits the text."],
)
VERDICT = Judgement(word="better", advice="use it", how="On 50 pairs.", header=["", "p"], rows=[["pairs", "0.01"]])


def card(facts: dict[str, Any]) -> str:
    return onnx_card(facts, Card(base=BASE))


def test_it_says_what_the_card_of_the_model_says() -> None:
    text = onnx_card(FACTS, Card(base=BASE, steps=[STEP], verdict=VERDICT, max_length=64))
    head = yaml.safe_load(text.split("---\n")[1])
    assert {key: head[key] for key in ("license", "language", "base_model", "library_name")} == {
        "license": "mit", "language": "en", "base_model": "their/model", "library_name": "onnx",
    }  # fmt: skip
    for words in ("`notes.txt`", "**better**: use it.", "It fits the text.", "first 64 tokens",
                  "@misc{su2021whitening,", "@software{isotrope,", "licence of the base model | `mit`"):  # fmt: skip
        assert words in text, words


def test_a_model_as_it_came_is_not_said_to_be_better_or_trained() -> None:
    text = card(FACTS)
    assert "Is it better" not in text
    assert "licence of the text" not in text
    assert "\n\n\n#" not in text
    assert "licence of the base model | `mit`" in text


def test_names_are_never_markup() -> None:
    evil = "a|b`c`[x](y)<img src=x>\n\x1b# {{ 7 * 7 }}"
    text = onnx_card(FACTS | {"model": evil, "prompts": {evil: evil}, "prompt": evil}, Card(base=Base(name=evil)))
    body = text.split("\n---\n", 1)[1]
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"```python.*?```", "", body, flags=re.DOTALL))
    assert "<img" not in outside
    assert "\x1b" not in text
    rows = [line.replace(r"\|", "") for line in body.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {3}
    assert "49" not in text


def test_a_model_without_default_prompt_encodes_texts_as_they_are() -> None:
    text = card(FACTS)
    assert "encode_batch(texts)" in text
    assert "| prompt `query` | `'find: '`: put it before each text |" in text
    assert "model_int8.onnx" not in text
    assert "2e-06 of a vector's length" in text


def test_the_default_prompt_is_in_the_snippet() -> None:
    text = card(FACTS | {"prompt": "find: "})
    assert "encode_batch(['find: ' + text for text in texts])" in text
    assert "as the snippet does" in text


def test_the_quantised_graph_is_named_with_its_cosine() -> None:
    text = card(FACTS | {"int8_cosine": {"mean": 0.991, "least": 0.95}})
    assert "| `model_int8.onnx`, cosine to torch | 0.9910 on average, 0.9500 at least; not judged on any task |" in text
    assert "{folder}/model_int8.onnx" in text
