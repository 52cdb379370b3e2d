"""Tasks made from documents alone, for choosing between models where nobody has labels.

Four tasks ask whether a part of a document finds another part of it, among the same parts of other
documents:

    title → body              the title; the text without it
    half → half               the first half of the text; the second
    spans → rest              up to three short spans of the text, each a query; what is left
    neighbouring paragraphs   a paragraph; the next one

Where most documents are short, half of the words, drawn from all places, must find the others, in
place of the spans. The measure is MRR@10; the queries of a document count as one. Queries are
short, as a user's are: with long ones, a good model finds nearly every answer, and nothing is left
to compare.

Such tasks see large harm, such as full whitening of a model that was trained on labels. They miss
smaller harm: they preferred centring where labels show a loss (docs/whiten.md).
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from isotrope.evaluation.self_made import SHARE, SelfMadeTask
from isotrope.text.corpus import Document
from isotrope.text.split import words_of
from isotrope.types import Matrix

FEWEST_WORDS = 12  # of a text: each half then has six
FEWEST_TEXTS = 50  # with fewer, only a change of many points shows
MOST_TEXTS = 700  # more texts cost time and narrow the interval little
FEW_WORDS = 6  # of a document, where most are shorter than 12 words: each half then has three
WORDS_USED = 600  # words of a document that are used: more than models read
# words: where most documents have fewer, their parts say too little to be found among the first ten
FEW_TO_FIND = 30
SHORTEST_PARAGRAPH = 6  # words: as many as a half has
# of a text: spans, words of one, and their share of its words at most
MOST_SPANS, SPAN_WORDS, SPAN_SHARE = 3, 16, 0.3
NEAR = 0.5  # two texts with so large a share of common word triples (Jaccard) are near-duplicates
TITLE, SPANS, NEIGHBOURS = "title → body", "spans → rest", "neighbouring paragraphs"
# Halves judge short texts, and only check longer ones (`isotrope.improvement.decide`). So they have
# two names.
HALVES, HALVES_OF_SHORT = "half → half", "half → half of short texts"
SCATTERED = "half of the words → the others"
_MARKS = " \t.:;,!?…-–—|"  # between a title and the text

_Parts = tuple[list[str], str]  # of a document: queries and their answer


class DocumentTasks(NamedTuple):
    """The tasks that some documents allow, and lines on how many documents each has, or why it is
    left out.
    """

    tasks: list[SelfMadeTask]
    told: list[str]


def make_document_tasks(
    documents: Sequence[Document],
    seed: int = 0,
    *,
    most: int = MOST_TEXTS,
    fewest: int = FEWEST_TEXTS,
) -> DocumentTasks:
    """The tasks of documents that no candidate was fitted or trained on. Equal documents and seeds
    give equal tasks.

    Near-duplicates are left out, and documents of fewer than 12 words; where most are shorter than
    that, those of fewer than 6. A text that begins with its title loses it there. A query or an
    answer that occurs twice in a task is left out, as no model can tell which is meant; so is a
    query that stands in its answer. A task has at most ``most`` documents, and is left out if it
    has fewer than ``fewest``.
    """
    bodies = [_body(document) for document in documents]
    shortest = _shortest(bodies)
    rows = distinct_rows(bodies, most, shortest)
    chosen, texts = [documents[row] for row in rows], [bodies[row] for row in rows]
    few_to_find = 2 * sum(_count(text) < FEW_TO_FIND for text in texts) >= len(texts) > 0
    titles = [
        ([title], text) if (title := _title(d)) else None
        for d, text in zip(chosen, texts, strict=True)
    ]
    # Name -> what a document must have, and its parts.
    asked: dict[str, tuple[str, Sequence[_Parts | None]]] = {
        TITLE: ("a title of their own", titles)
    }
    asked[HALVES_OF_SHORT if few_to_find else HALVES] = (
        "two different halves",
        [halves_of(text) for text in texts],
    )
    if few_to_find:
        asked[SCATTERED] = (
            "two different halves of their words",
            [scattered_of(text, seed) for text in texts],
        )
    else:
        asked[SPANS] = "a span of their own", [spans_of(text, seed) for text in texts]
    asked[NEIGHBOURS] = (
        "two paragraphs that follow each other",
        [_neighbours(d, seed) for d in chosen],
    )
    tasks, told = [], []
    for name, (need, parts) in asked.items():
        kept = _unambiguous(parts)
        if len(kept) < fewest:
            count = f"{len(kept):,} of {len(chosen):,} documents"
            told.append(f"{name}: left out, {count} have {need}, {fewest} are needed")
            continue
        told.append(f"{name}: {len(kept):,} documents")
        queries = [query for own, _ in kept.values() for query in own]
        places = np.repeat(np.arange(len(kept)), [len(own) for own, _ in kept.values()])
        answers, all_places = [answer for _, answer in kept.values()], few_to_find and name != TITLE
        tasks.append(SelfMadeTask(name, queries, answers, places, np.array([*kept]), all_places))
    if few_to_find and any(task.name != TITLE for task in tasks):
        told.append(f"most documents are short: without titles, a score is the {SHARE}")
    few = sum(_count(body) < shortest for body in bodies)
    others = "they are near-duplicates" + (
        f", or {most:,} are enough without them" if len(chosen) >= most else ""
    )
    for left, why in (
        (few, f"they have fewer than {shortest} words"),
        (len(documents) - few - len(chosen), others),
    ):
        if left:
            told.append(f"{left:,} of {len(documents):,} documents are in no task: {why}")
    return DocumentTasks(tasks, told)


def tasks_of_texts(texts: Sequence[str], fewest: int = FEWEST_TEXTS) -> list[SelfMadeTask]:
    """`make_document_tasks` of texts without titles; [] if there are too few."""
    return make_document_tasks([Document("", [text]) for text in texts], fewest=fewest).tasks


def usable_documents(documents: Sequence[Document], most: int = MOST_TEXTS) -> list[Document]:
    """Those that `make_document_tasks` makes tasks from."""
    bodies = [_body(document) for document in documents]
    return [documents[row] for row in distinct_rows(bodies, most, _shortest(bodies))]


def are_short(documents: Sequence[Document]) -> bool:
    """Whether most documents have fewer than 12 words, as single sentences do."""
    return _shortest([_body(document) for document in documents]) < FEWEST_WORDS


def _shortest(bodies: Sequence[str]) -> int:
    """Fewest words of a document in a task."""
    long = sum(_count(body) >= FEWEST_WORDS for body in bodies)
    return FEWEST_WORDS if 2 * long >= len(bodies) else FEW_WORDS


def _count(text: str) -> int:
    return len(words_of(text)[0])


def _body(document: Document) -> str:
    """The text without its title, cut to its first words."""
    text, title = " ".join(" ".join(document.paragraphs).split()), _title(document)
    follows = text[len(title) : len(title) + 1]
    if title and text[: len(title)].casefold() == title.casefold() and not follows.isalnum():
        text = text[len(title) :].lstrip(_MARKS)
    words, between = words_of(text)
    return between.join(words[:WORDS_USED])


def _title(document: Document) -> str:
    return " ".join(document.title.split()).rstrip(_MARKS)


def _generator(text: str, seed: int) -> np.random.Generator:
    # whatever other texts there are
    return np.random.default_rng([seed, zlib.crc32(text.encode())])


def _neighbours(document: Document, seed: int) -> _Parts | None:
    """Two paragraphs that follow each other, at a drawn place."""
    paragraphs = document.paragraphs
    found = [
        pair
        for pair in pairwise(paragraphs)
        if all(_count(each) >= SHORTEST_PARAGRAPH for each in pair)
    ]
    if not found:
        return None
    first, second = found[int(_generator(" ".join(paragraphs), seed).integers(len(found)))]
    return [first], second


def halves_of(text: str) -> _Parts:
    """The first half of a text's words, and the second."""
    words, between = words_of(text)
    middle = (len(words) + 1) // 2
    return [between.join(words[:middle])], between.join(words[middle:])


def spans_of(text: str, seed: int) -> _Parts:
    """One to three spans, each at a drawn place in an equal part of the text, and what is left, at
    least half of it.
    """
    words, between = words_of(text)
    count = min(MOST_SPANS, max(1, len(words) // (2 * SPAN_WORDS)))
    length = min(SPAN_WORDS, round(SPAN_SHARE * len(words)))
    generator = _generator(text, seed)
    spans, rest, done = [], [], 0
    for part in range(1, count + 1):
        end = part * len(words) // count
        begin = int(generator.integers(done, end - length + 1))
        spans.append(between.join(words[begin : begin + length]))
        rest += [*words[done:begin], *words[begin + length : end]]
        done = end
    return spans, between.join(rest)


def scattered_of(text: str, seed: int) -> _Parts:
    """Half of the text's words, drawn, in their order; and the others."""
    words, between = words_of(text)
    halves = np.split(_generator(text, seed).permutation(len(words)), [len(words) // 2])
    one, other = (between.join(words[place] for place in np.sort(half)) for half in halves)
    return [one], other


def _unambiguous(parts: Sequence[_Parts | None]) -> dict[int, _Parts]:
    """By document, without queries and answers that occur again, and queries that are copied in
    their answer.
    """
    asked = {document: found for document, found in enumerate(parts) if found}
    queries = Counter(query.casefold() for own, _ in asked.values() for query in own)
    answers = Counter(answer.casefold() for _, answer in asked.values())

    def clear(query: str, answer: str) -> bool:
        # "Python" is in many
        copied = _count(query) >= SHORTEST_PARAGRAPH and query.casefold() in answer.casefold()
        return queries[query.casefold()] == 1 and answers[answer.casefold()] == 1 and not copied

    kept = {
        n: ([query for query in own if clear(query, answer)], answer)
        for n, (own, answer) in asked.items()
    }
    return {document: found for document, found in kept.items() if found[0]}


def distinct_rows(texts: Sequence[str], most: int, shortest: int) -> list[int]:
    """The first ``most`` of 2 · ``most`` texts of at least ``shortest`` words that are no
    near-duplicates.
    """
    long = list(
        islice((text for text in dict.fromkeys(texts) if _count(text) >= shortest), 2 * most)
    )
    if not long:
        return []
    near = _jaccard(long) >= NEAR  # (N, N)
    kept: list[int] = []
    for row in range(len(long)):
        if len(kept) < most and not near[row, kept].any():
            kept.append(row)
    return [texts.index(long[row]) for row in kept]


def _jaccard(texts: Sequence[str]) -> Matrix:
    """Common word triples over all word triples of two texts: (N, N)."""
    counter = CountVectorizer(
        preprocessor=str.casefold,
        tokenizer=lambda text: words_of(text)[0],
        token_pattern=None,
        ngram_range=(3, 3),
        binary=True,
        dtype=np.float32,
    )
    counted = counter.fit_transform(texts)  # (N, triples)
    common = (counted @ counted.T).toarray()
    sizes = common.diagonal()
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))
