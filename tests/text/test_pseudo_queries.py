"""Pseudo-queries: each kind from a document that has it, and equal for equal seeds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isotrope.text.corpus import Document
from isotrope.text.pseudo_queries import HEADING, KINDS, MIXTURE, QUESTION, SENTENCE, SPAN, TITLE, pseudo_queries

PAGE = Document(
    "Returning goods",
    [
        "Within two weeks",
        "You may send back what you bought within fourteen days, and we pay the postage.",
        "Who pays? We do, in every country of the union.",
    ],
)


def kinds_of(document: Document) -> dict[str, list[str]]:
    found = pseudo_queries([document], KINDS)
    return {kind: [text for text, of in zip(found.texts, found.kinds, strict=True) if of == kind] for kind in KINDS}


def test_a_page_gives_every_kind() -> None:
    found = kinds_of(PAGE)
    assert found[TITLE] == ["Returning goods"]
    assert found[HEADING] == ["Within two weeks"]
    assert found[QUESTION] == ["Who pays?"]
    assert len(found[SENTENCE]) <= 1
    body = " ".join(PAGE.paragraphs)
    assert 1 <= len(found[SPAN]) <= 2
    assert all(8 <= len(span.split()) <= 19 and span in body for span in found[SPAN])


def test_a_title_by_itself_asks_for_nothing() -> None:
    assert TITLE not in pseudo_queries([Document("A title of some ten words which is all there is here", [])]).kinds


def test_they_know_their_documents() -> None:
    found = pseudo_queries([Document("", ["one two three four five six"]), PAGE])
    assert set(found.own) == {0, 1}
    assert len(found.texts) == len(found.kinds) == len(found.own)
    assert found.sample(2, seed=0).texts == found.sample(2, seed=0).texts
    assert len(found.sample(2, seed=0).texts) == 2


@given(st.lists(st.text(alphabet="ab .?\u4e00", max_size=60), min_size=1, max_size=4), st.integers(0, 9))
def test_any_text_gives_equal_queries_for_equal_seeds(paragraphs: list[str], seed: int) -> None:
    documents = [Document("", [" ".join(one.split()) for one in paragraphs if one.strip()])]
    one, two = (pseudo_queries(documents, MIXTURE, seed) for _ in range(2))
    assert one == two
    assert all(text.strip() for text in one.texts)
    assert np.all(one.own == 0)
