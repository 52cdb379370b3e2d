"""The card of an exported graph."""

from __future__ import annotations

from typing import Any

from isotrope.encoder.onnx_card import card

FACTS: dict[str, Any] = {
    "model": "mine", "dimensions": 8, "max_length": 64, "prompt": "", "prompts": {"query": "find: "},
    "largest_difference": 2e-6, "versions": {"torch": "2.13.0"},
}  # fmt: skip


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
    assert "| `model_int8.onnx`, cosine to torch | 0.9910 on average, 0.9500 at least |" in text
    assert "{folder}/model_int8.onnx" in text
