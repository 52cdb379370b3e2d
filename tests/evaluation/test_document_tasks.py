"""Tasks made from documents: what they ask, which documents each takes, and what is said of the
others.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.words import WORDS, sentences
from isotrope.evaluation.document_tasks import (
    DocumentTask,
    are_short,
    compare_on_documents,
    distinct_rows,
    make_document_tasks,
    scattered_of,
    spans_of,
    tasks_of_texts,
    usable_documents,
)
from isotrope.evaluation.embed import Embeddings
from isotrope.text.corpus import Document

TITLE, HALVES, SCATTERED = (
    "title → body",
    "half → half of short texts",
    "half of the words → the others",
)
NAMES = [TITLE, HALVES, SCATTERED, "neighbouring paragraphs"]
LONG = [text for text in sentences(700, seed=9) if len(text.split()) >= 12]
DOCUMENTS = [
    Document(f"On {' '.join(a.split()[:4])} {i}", [a, b])
    for i, (a, b) in enumerate(pairwise(LONG[:81]))
][::2]


def tasks(documents: list[Document], **options: int) -> dict[str, DocumentTask]:
    return {task.name: task for task in make_document_tasks(documents, fewest=1, **options).tasks}


def asked(task: DocumentTask) -> list[tuple[str, str]]:
    return [
        (query, task.corpus[answer])
        for query, answer in zip(task.queries, task.answers, strict=True)
    ]


class Bags:
    """Counts of the vocabulary's words, and noise."""

    def __init__(self, blur: float = 0.0) -> None:
        self.blur = blur

    def encode(self, texts: list[str]) -> np.ndarray:
        rows = (
            np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=float)
            + 1e-3
        )
        return rows + self.blur * np.random.default_rng(len(texts)).standard_normal(rows.shape)


def test_each_task_asks_for_another_part_of_the_document() -> None:
    found = tasks(DOCUMENTS)
    assert list(found) == NAMES
    bodies = [" ".join(document.paragraphs) for document in DOCUMENTS]
    assert asked(found[TITLE]) == [
        (d.title, body) for d, body in zip(DOCUMENTS, bodies, strict=True)
    ]
    assert [f"{a} {b}" for a, b in asked(found[HALVES])] == bodies
    for (some, others), body in zip(asked(found[SCATTERED]), bodies, strict=True):
        assert sorted([*some.split(), *others.split()]) == sorted(body.split())
    assert asked(found["neighbouring paragraphs"]) == [
        tuple(document.paragraphs) for document in DOCUMENTS
    ]


@pytest.mark.parametrize(
    ("title", "paragraphs", "query", "answer"),
    [
        ("The answer", ["The Answer.", LONG[0]], "The answer", LONG[0]),
        ("The  answer:", [f"the answer — {LONG[0]}"], "The answer", LONG[0]),
        ("答え", [f"答え: {LONG[0]}"], "答え", LONG[0]),
        ("Go", [f"Going {LONG[0]}"], "Go", f"Going {LONG[0]}"),
    ],
)
def test_a_text_that_begins_with_its_title_loses_it_there(
    title: str, paragraphs: list[str], query: str, answer: str
) -> None:
    assert asked(tasks([Document(title, paragraphs)])[TITLE]) == [(query, answer)]


def test_each_task_takes_the_documents_that_allow_it_and_says_what_is_left_out() -> None:
    plain = [Document("", [" ".join(document.paragraphs)]) for document in DOCUMENTS[:20]]
    made = make_document_tasks(
        [*plain, *DOCUMENTS[20:], Document("A title", ["too short"])], fewest=20
    )
    assert {task.name: len(task.queries) for task in made.tasks} == {
        TITLE: 20,
        HALVES: 40,
        SCATTERED: 40,
        "neighbouring paragraphs": 20,
    }
    assert made.told[0] == "title → body: 20 documents"
    assert made.told[-1] == "1 of 41 documents are in no task: they have fewer than 12 words"
    fewer = make_document_tasks([*plain, *DOCUMENTS[20:]], fewest=21)
    assert [task.name for task in fewer.tasks] == [HALVES, SCATTERED]
    assert (
        fewer.told[0]
        == "title → body: left out, 20 of 40 documents have a title of their own, 21 are needed"
    )
    for none in ([], [DOCUMENTS[0]] * 3000):
        assert make_document_tasks(none).tasks == []


@settings(max_examples=40)
@given(length=st.integers(12, 700), seed=st.integers(0, 5))
def test_spans_are_short_and_leave_at_least_half_of_the_text(length: int, seed: int) -> None:
    words = [f"w{i}" for i in range(length)]
    parts = spans_of(" ".join(words), seed)
    spans, rest = parts.queries, parts.answer
    assert len(spans) == (1 if length < 64 else 2 if length < 96 else 3)
    assert sorted([*" ".join(spans).split(), *rest.split()]) == sorted(words), (
        "no word twice, none lost"
    )
    assert 2 * len(rest.split()) >= length
    for span in spans:
        assert span in " ".join(words), "words that follow each other"
        assert 4 <= len(span.split()) <= 16
    assert spans == sorted(spans, key=lambda span: int(span.split()[0][1:]))


def test_the_spans_of_a_document_count_as_one() -> None:
    """Scores are means over the spans of a document; a smaller task takes whole documents."""
    many = [
        Document("", [text for d in DOCUMENTS[i : i + 5] for text in d.paragraphs])
        for i in range(0, 40, 5)
    ]
    task = tasks(many)["spans → rest"]
    assert len(task.queries) > task.size == len(task.corpus) == len(many)
    similar = Bags().encode(task.queries) @ Bags().encode(task.corpus).T
    similar /= np.linalg.norm(Bags().encode(task.corpus), axis=1)
    places = 1 + (similar > similar[np.arange(len(task.answers)), task.answers][:, None]).sum(
        axis=1
    )
    own = [
        [1 / place for place, of in zip(places, task.answers, strict=True) if of == answer]
        for answer in range(8)
    ]
    np.testing.assert_allclose(task.score(Bags()), [np.mean(each) for each in own])
    part = task.part(3)
    assert part.size == len(part.corpus) == 3
    assert set(asked(part)) < set(asked(task))
    assert part.documents.tolist() == [0, 2, 5]
    assert len(part.queries) == sum(answer in part.corpus for _, answer in asked(task))


def test_what_no_model_can_tell_apart_is_left_out() -> None:
    same_title = [Document("README", document.paragraphs) for document in DOCUMENTS[:3]]
    found = tasks([*same_title, *DOCUMENTS[3:]])
    assert len(found[TITLE].queries) == len(DOCUMENTS) - 3
    assert len(found[HALVES].queries) == len(DOCUMENTS)
    licence = "Copyright of all authors, all rights reserved."
    boilerplate = [Document("", [d.paragraphs[0], licence]) for d in DOCUMENTS[:3]]
    assert (
        len(tasks([*boilerplate, *DOCUMENTS[3:]])["neighbouring paragraphs"].queries)
        == len(DOCUMENTS) - 3
    )
    twice = Document("", [LONG[90], f"{LONG[90]} And more."])
    assert "neighbouring paragraphs" not in tasks([twice])


def test_copies_count_once_however_many_there_are_and_long_texts_are_cut() -> None:
    near = Document(DOCUMENTS[0].title, [*DOCUMENTS[0].paragraphs, "changed"])
    made = make_document_tasks([*[DOCUMENTS[0]] * 3000, near, DOCUMENTS[1]], fewest=1)
    assert len(made.tasks[1].queries) == 2
    assert made.told[-1] == ("3,000 of 3,002 documents are in no task: they are near-duplicates")
    task = tasks([Document("", [" ".join(map(str, range(5000)))])])["half → half"]
    assert len(task.queries[0].split()) == len(task.corpus[0].split()) == 300


def test_the_same_documents_and_seed_give_the_same_tasks() -> None:
    many = [Document("", [*a.paragraphs, *b.paragraphs]) for a, b in pairwise(DOCUMENTS)][::2]
    for name in ("spans → rest", "neighbouring paragraphs"):
        assert (
            asked(tasks(many)[name]) == asked(tasks(many)[name]) != asked(tasks(many, seed=1)[name])
        )


@pytest.mark.parametrize(
    ("before", "after", "verdict"), [(0, 3, "worse"), (3, 0, "better"), (0, 0, "not significant")]
)
def test_a_blurred_model_is_seen(before: float, after: float, verdict: str) -> None:
    """All that the tasks ask of a document goes together, so equal tasks say no more than one of
    them.
    """
    made = list(tasks(DOCUMENTS).values())
    found = compare_on_documents(Bags(before), Bags(after), made)
    assert found.verdict == verdict
    assert list(found.per_task) == NAMES
    assert found.after == pytest.approx(np.mean([one.after for one in found.per_task.values()]))
    again = replace(made[1], name="again")
    once, twice = (
        compare_on_documents(Bags(before), Bags(after), these)
        for these in ([made[1]], [made[1], again])
    )
    assert (once.low, once.high, once.p) == pytest.approx((twice.low, twice.high, twice.p))
    other = compare_on_documents(
        Bags(before), Bags(after), [made[1], replace(again, documents=again.documents[::-1])]
    )
    assert (other.high - other.low < once.high - once.low) == (before != after), (
        "of other documents, they say more"
    )


def test_where_most_documents_are_short_those_of_six_words_count() -> None:
    texts = list(dict.fromkeys(" ".join(text.split()[:7]) for text in LONG[:60]))
    short = [Document("", [text]) for text in texts]
    assert are_short(short)
    assert usable_documents(short) == short
    found = make_document_tasks(short, fewest=1).tasks
    assert [task.name for task in found] == [HALVES, SCATTERED]
    assert all(task.all_places for task in found)
    longer = [Document(d.title, [*d.paragraphs, *d.paragraphs[::-1]]) for d in DOCUMENTS]
    assert not any(task.all_places for task in tasks(longer).values())
    assert {"half → half", "spans → rest"} < tasks(longer).keys()
    sentences_alone = {name: task.all_places for name, task in tasks(DOCUMENTS).items()}
    assert sentences_alone.pop(TITLE) is False, "a title says much, also of a short text"
    assert all(sentences_alone.values()), "fewer than 30 words"
    mixed = [*short, *DOCUMENTS, *[Document("", [text]) for text in LONG[100:160]]]
    assert not are_short(mixed)
    assert not set(texts) & {document.paragraphs[0] for document in usable_documents(mixed)}


@settings(max_examples=40)
@given(length=st.integers(6, 40), seed=st.integers(0, 5))
def test_half_of_the_words_and_the_others_are_all_words_in_their_order(
    length: int, seed: int
) -> None:
    words = [f"w{i}" for i in range(length)]
    parts = scattered_of(" ".join(words), seed)
    (some,), others = parts.queries, parts.answer
    one, other = some.split(), others.split()
    assert len(one) == length // 2
    assert sorted([*one, *other], key=words.index) == words
    assert [one, other] == [sorted(part, key=words.index) for part in (one, other)]


def test_plain_texts_make_tasks_and_a_language_without_spaces_is_cut_between_letters() -> None:
    text = "東京は日本の首都であり世界最大の都市の一つである"
    task = tasks_of_texts([text], fewest=1)[0]
    assert (task.queries[0], task.corpus[0]) == (text[:12], text[12:])
    assert tasks_of_texts(LONG[:49]) == []


def test_near_duplicates_have_half_of_their_word_triples_in_common() -> None:
    generator, kept = np.random.default_rng(0), list[int]()
    texts = [" ".join(f"w{n}" for n in generator.zipf(3, size=30) % 20) for _ in range(60)]
    words = [text.split() for text in texts]
    triples = [{tuple(each[i : i + 3]) for i in range(len(each) - 2)} for each in words]
    for row, own in enumerate(triples):
        if all(len(own & triples[other]) / len(own | triples[other]) < 0.5 for other in kept):
            kept.append(row)
    assert 10 < len(kept) < 50
    assert distinct_rows(["too short", *texts], 60, 3) == [row + 1 for row in kept]
    assert distinct_rows(texts, 1, 1) == [0]


def test_all_places_count_where_the_first_ten_say_too_little() -> None:
    """Directions of four answers; the first query is nearest to its own, the last one meets a tie."""
    rows = {"a": 0.0, "b": 1.2, "c": 0.1, "d": 2.0, "w": 0.05, "x": 1.0, "y": 2.0, "z": 0.05}
    encoder = Embeddings(
        list(rows), np.array([[np.cos(angle), np.sin(angle)] for angle in rows.values()])
    )
    answers, of = np.array([1, 2, 0, 3]), np.array([2, 3, 5, 7])
    task = DocumentTask("t", list("abcd"), list("wxyz"), answers, of, all_places=True)
    assert task.score(encoder).tolist() == [2 / 3, 1 / 3, 2 / 3, 0], "in the order of the answers"
    part = task.part(2)
    assert (part.all_places, part.documents.tolist()) == (True, [2, 5])
