"""How much of its text a model reads, and what its tokenizer does not know."""

from pathlib import Path
from typing import Any

import pytest
from sentence_transformers import SentenceTransformer

from helpers.corpora import corpus, write
from isotrope import load
from isotrope.text import coverage as coverage_module
from isotrope.text.corpus import Texts
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import Sample


@pytest.fixture(scope="module")
def model(tiny_model: Path) -> SentenceTransformer:
    return load(str(tiny_model))


def look(
    model: SentenceTransformer, corpus: Texts, limit: int, prompt: str = "", **options: Any
) -> list[str]:
    return coverage(
        model, prompt, Sample(corpus, None, 0), limit, **{"longest": 512, "split": True} | options
    )


def test_cut_texts_and_what_is_read_of_them(
    tmp_path: Path, model: SentenceTransformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters are tokens of this tokenizer; [CLS] and [SEP] count, since they take room too."""
    # 5, 6 and 20 tokens
    opened = corpus(write(tmp_path / "c.txt", "a b c\nd e f g\nx" + " y" * 17 + "\n"))
    said, warning = look(model, opened, 10)
    assert said == "1 of 3 texts are longer than 10 tokens; 68 % of the text is read", "21 of 31"
    assert warning.endswith(
        "cut off: add --split sentences, or read more with --set train.max_length=20"
    )
    assert look(model, opened, 10, longest=10, split=False)[1].endswith(
        "cut off: give shorter texts"
    )
    assert look(model, opened, 20) == [
        "0 of 3 texts are longer than 20 tokens; 100 % of the text is read"
    ]
    prompted = look(model, opened, 10, "p q ")[0]
    assert prompted.endswith("68 % of the text is read"), "a prompt takes room: 7, 8 and 22 tokens"
    # 4, 4, 5 and 5
    pairs = corpus(
        write(tmp_path / "c.csv", "a,b\na b,c d e\nf g,h i j\n"), text_column="a", positive="b"
    )
    assert (
        look(model, pairs, 4)[0]
        == "2 of 4 texts are longer than 4 tokens; 89 % of the text is read"
    )
    monkeypatch.setattr(coverage_module, "LOOKED_AT", 2)
    assert "of 2 texts looked at are longer" in look(model, opened, 32)[0]


ENGLISH = (
    "Machine learning turns sentences into vectors, and similar sentences are near each other."
)
GERMAN = "Die Maschinen lernen, ähnliche Sätze über weite Entfernungen zu erkennen, weil Wörter häufig vorkommen."
RUSSIAN = (
    "Машинное обучение превращает предложения в векторы, и похожие предложения оказываются рядом."
)
CHINESE = "机器学习模型可以把句子变成向量。我们今天去北京旅游，天气很好。"
# one has the letters of other scripts, the other does not
MODELS = ("isotrope/tiny", "isotrope/small")


@pytest.mark.parametrize("name", MODELS)
def test_a_text_in_another_script_is_one_warning_with_the_advice(name: str) -> None:
    model = load(name)
    for text in (RUSSIAN, CHINESE):
        warning = unknown_warning(model, [text] * 3)
        assert warning.startswith("warning: ")
        assert "\n" not in warning
        assert warning.endswith("take a multilingual model, or one of this language")
    assert "such as " in unknown_warning(model, [CHINESE])
    assert unknown_warning(model, [ENGLISH, GERMAN]) == ""
    assert unknown_warning(model, [GERMAN] * 3) == "", "umlauts are no other script"
    model.encode(["a", ENGLISH])
    assert unknown_warning(model, ["Print a page.", ENGLISH * 3]) == "", "padding is no letter"


def test_letters_without_words_are_another_script_and_few_unknown_tokens_are_not(
    model: SentenceTransformer,
) -> None:
    """Letters are tokens of the latter's tokenizer."""
    warning = unknown_warning(load("isotrope/tiny"), [RUSSIAN])
    assert "has no words of this script: 98 % of the tokens are single letters" in warning
    warning = unknown_warning(model, ["a " * 97 + "😀 😀 😀"])
    assert "3 % of the tokens are unknown to the model's tokenizer, such as 😀;" in warning
    assert unknown_warning(model, ["a " * 99 + "😀"]) == ""
