"""Texts to sentences: several languages, what the rules must not do, and texts that are hard on them."""

from pathlib import Path

import pytest

from corpora import corpus, texts, write
from isotrope.errors import UserError
from isotrope.text.split import language_of, split_text, words_of

TEXTS = {
    "en": ["Dr. Smith paid 3.5 dollars (cf. Fig. 3).", '"Was it good?" he asked.', "He lives in the U.S.", "Yes!"],
    "de": ["Am 3. Mai kam Dr. Müller z. B. nach Berlin.", "War es gut?", "Ja!"],
    "es": ["El Sr. García llegó.", "¿Qué quería?", "¡Nada!"],
    "zh": ["今天天气很好。", "我们去公园吧！", "你觉得怎么样？"],
    "hi": ["यह एक वाक्य है।", "क्या यह तीसरा है?"],
    "ru": ["Он родился в 1990 г. в России.", "А. С. Пушкин был поэтом."],
}


@pytest.mark.parametrize("language", TEXTS)
def test_sentences_of_several_languages(language: str) -> None:
    assert [s.strip() for s in split_text(" ".join(TEXTS[language]), language)] == TEXTS[language]
    if language == "zh":
        assert list(split_text("".join(TEXTS["zh"]))) == TEXTS["zh"], "the rules of English end them too"


def test_an_empty_line_ends_a_sentence_and_a_single_line_end_does_not() -> None:
    found = [s.strip() for s in split_text("A title\n\nA first one\nthat goes on. A second")]
    assert found == ["A title", "A first one that goes on.", "A second"]


def test_no_text_is_lost_and_none_takes_long() -> None:
    for text in ("“a " * 40_000, "x" * 100_000, "A. " * 40_000, "« a. " * 10_000):  # unclosed, unbroken, unclear
        assert "".join(split_text(text)).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize("text", ["", "  \n\n ", "bad \udcff byte. Another."])
def test_what_has_no_sentence_comes_back_whole(text: str) -> None:
    assert list(split_text(text)) == [text]


@pytest.mark.parametrize("split", ["words", "sentences:", "sentences:german", "sentences:de-AT", ""])
def test_an_unknown_split_is_one_line(split: str) -> None:
    with pytest.raises(UserError, match=f"split = '{split}' is unknown: choose sentences, or"):
        language_of(split)


def test_a_corpus_of_sentences(tmp_path: Path) -> None:
    lines = ['{"t": "One apple. Two pears.\\n\\nThree plums"}', "", '{"t": "Two pears. Four figs?"}']
    path = write(tmp_path / "c.jsonl", "\n".join(lines))
    whole, split = corpus(path), corpus(path, split="sentences")
    assert len(whole) == 2
    assert texts(split) == ["One apple.", "Two pears.", "Three plums", "Four figs?"]
    assert str(split.report).splitlines()[0] == (
        "3 texts read from 1 file, split into 6 sentences, 4 kept, 2 dropped"  # a blank line, a duplicate
    )
    assert split.report.examples["duplicate"] == f"{path}:3 'Two pears.'"
    assert len({whole.key, split.key, corpus(path, split="sentences:de").key}) == 3
    assert split.key == corpus(path, split="sentences:en").key


def test_pairs_are_not_split(tmp_path: Path) -> None:
    path = write(tmp_path / "c.csv", "a,b\nOne a. Two b.,Three c.\n")
    with pytest.raises(UserError, match="a text with a positive cannot be split: leave out the split"):
        corpus(path, text="a", positive="b", split="sentences")


def test_letters_count_as_words_if_there_are_no_spaces() -> None:
    assert words_of("a few  words") == (["a", "few", "words"], " ")
    japanese = "吾輩は猫である。名前はまだ無い。どこで生れたか"
    assert words_of(japanese) == (japanese, "")
    assert words_of("") == ([], " ")
