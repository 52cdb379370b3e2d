"""Tasks made from documents alone, for choosing between models where nobody has labels.

Four tasks ask whether a part of a document finds another part of it, among the same parts of other documents:

    title → body              the title; the text without it
    half → half               the first half of the text; the second
    span → rest               a span of the text; what is left
    neighbouring paragraphs   a paragraph; the next one

Each task has one query from each document that allows it, so tasks have different documents. The measure is MRR@10.
Titles judge best, where there are any. What such tasks see and miss: docs/whiten.md.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from isotrope.evaluation.self_made import (
    FEWEST_TEXTS,
    FEWEST_WORDS,
    MOST_TEXTS,
    SelfMadeTask,
    halves_of,
    span_of,
    usable_rows,
)  # fmt: skip
from isotrope.text.document_rows import Document
from isotrope.text.words import words_of

FEW_WORDS = 6  # of a document, where most are shorter than 12 words: each half then has three
WORDS_USED = 600  # words of a document that are used: more than models read
SHORTEST_PARAGRAPH = 6  # words: as many as a half has
_MARKS = " \t.:;,!?…-–—|"  # between a title and the text

_Pair = tuple[str, str]  # query and answer


@dataclass(frozen=True, slots=True)
class DocumentTasks:
    """The tasks that some documents allow.

    Attributes:
        tasks: those with enough queries.
        told: a line for each task, how many documents it has or why it is left out; and how many documents are in none.
    """

    tasks: list[SelfMadeTask]
    told: list[str]


def make_document_tasks(
    documents: Sequence[Document], seed: int = 0, *, most: int = MOST_TEXTS, fewest: int = FEWEST_TEXTS
) -> DocumentTasks:
    """The tasks of documents that no candidate was fitted or trained on. Equal documents and seeds give equal tasks.

    Near-duplicates are left out, and documents of fewer than 12 words; where most are shorter than that, those of
    fewer than 6. A text that begins with its title loses it there.
    A query or an answer that occurs twice in a task is left out, as no model can tell which is meant; so is a query
    that stands in its answer.

    Args:
        documents: in any order.
        seed: of the spans and paragraphs that are drawn.
        most: documents of a task.
        fewest: a task with fewer queries is left out.
    """
    bodies = [_body(document) for document in documents]
    shortest = _shortest(bodies)
    rows = usable_rows(bodies, most, shortest)
    chosen, texts = [documents[row] for row in rows], [bodies[row] for row in rows]
    made: dict[str, tuple[list[_Pair | None], str]] = {
        "title → body": ([_titled(d, text) for d, text in zip(chosen, texts, strict=True)], "a title of their own"),
        "half → half": ([halves_of(text) for text in texts], "two different halves"),
        "span → rest": ([span_of(text, seed) for text in texts], "a span of their own"),
        "neighbouring paragraphs": ([_neighbours(d, seed) for d in chosen], "two paragraphs that follow each other"),
    }
    tasks, told = [], []
    if short := shortest < FEWEST_WORDS:
        del made["span → rest"]
    for name, (pairs, need) in made.items():
        kept = _unambiguous([pair for pair in pairs if pair])
        if len(kept) < fewest:
            told.append(
                f"{name}: left out, {len(kept):,} of {len(chosen):,} documents have {need}, {fewest} are needed"
            )
            continue
        told.append(f"{name}: {len(kept):,} documents")
        queries, answers = [a for a, _ in kept], [b for _, b in kept]
        tasks.append(SelfMadeTask(name, queries, answers, np.arange(len(kept)), short))
    if tasks and short:
        told.append("most documents are short: a score is the share of the other answers behind the right one")
    few = sum(len(words_of(body)[0]) < shortest for body in bodies)
    for left, why in (
        (few, f"they have fewer than {shortest} words"),
        (len(documents) - few - len(chosen), f"they are near-duplicates, or {most:,} are enough without them"),
    ):
        if left:
            told.append(f"{left:,} of {len(documents):,} documents are in no task: {why}")
    return DocumentTasks(tasks, told)


def usable_documents(documents: Sequence[Document], most: int = MOST_TEXTS) -> list[Document]:
    """Those that `make_document_tasks` makes tasks from."""
    bodies = [_body(document) for document in documents]
    return [documents[row] for row in usable_rows(bodies, most, _shortest(bodies))]


def are_short(documents: Sequence[Document]) -> bool:
    """Whether most documents have fewer than 12 words, as single sentences do."""
    return _shortest([_body(document) for document in documents]) < FEWEST_WORDS


def _shortest(bodies: Sequence[str]) -> int:
    """Fewest words of a document in a task."""
    long = sum(len(words_of(body)[0]) >= FEWEST_WORDS for body in bodies)
    return FEWEST_WORDS if 2 * long >= len(bodies) else FEW_WORDS


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


def _titled(document: Document, body: str) -> _Pair | None:
    title = _title(document)
    return (title, body) if title else None


def _neighbours(document: Document, seed: int) -> _Pair | None:
    """Two paragraphs that follow each other, at a place that their own checksum draws."""
    paragraphs = document.paragraphs
    found = [pair for pair in pairwise(paragraphs) if all(len(words_of(p)[0]) >= SHORTEST_PARAGRAPH for p in pair)]
    if not found:
        return None
    drawn = np.random.default_rng([seed, zlib.crc32(" ".join(paragraphs).encode())]).integers(len(found))
    return found[int(drawn)]


def _unambiguous(pairs: Sequence[_Pair]) -> list[_Pair]:
    """Without pairs whose query or answer occurs again, and without queries that stand in their answer as they are.

    A title may stand in its text, as "Python" does in any text on it. Longer queries that do are copies.
    """
    queries, answers = Counter(a.casefold() for a, _ in pairs), Counter(b.casefold() for _, b in pairs)
    return [(a, b) for a, b in pairs if queries[a.casefold()] == answers[b.casefold()] == 1 and not _copied(a, b)]


def _copied(query: str, answer: str) -> bool:
    return len(words_of(query)[0]) >= SHORTEST_PARAGRAPH and query.casefold() in answer.casefold()
