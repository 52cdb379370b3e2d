"""Tasks made from documents alone, for choosing between models where nobody has labels.

Four tasks ask whether a part of a document finds another part of it, among the same parts of other
documents:

    title → body              the title; the text without it
    half → half               the first half of the text; the second
    spans → rest              up to three short spans of the text, each a query; what is left
    neighbouring paragraphs   a paragraph; the next one

If most documents are short, half of the words, drawn from all places, must find the others, in
place of the spans. The measure is MRR@10; the queries of a document count as one. Queries are
short, as a user's are: with long ones, a good model finds nearly every answer, and nothing is left
to compare.

Such tasks see large harm, such as full whitening of a model that was trained on labels. They miss
smaller harm: they preferred centring where labels show a loss (docs/whiten.md).
"""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import CountVectorizer

from isotrope.evaluation.results import Indices
from isotrope.evaluation.search import (
    CUTOFF,
    Search,
    encoder_search,
    rank_search,
    reciprocal_rank,
)
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, membership
from isotrope.evaluation.significance import Comparison, compare_documents
from isotrope.evaluation.similarity import DECIMALS
from isotrope.text.corpus import Document
from isotrope.text.permutation import evenly
from isotrope.text.split import words_of
from isotrope.types import Encoder, Matrix, Vector

FEWEST_WORDS = 12  # of a text: each half then has six
FEWEST_TEXTS = 50  # with fewer, only a change of many points shows
MOST_TEXTS = 700  # more texts cost time and narrow the interval little
FEW_WORDS = 6  # of a document, where most are shorter than 12 words: each half then has three
WORDS_USED = 600  # words of a document that are used: more than models read
SHORTEST_PARAGRAPH = 6  # words: as many as a half has

# If most documents have fewer words, their parts say too little to be found among the first ten.
FEW_TO_FIND = 30

MOST_SPANS = 3  # of a text
SPAN_WORDS = 16
SPAN_SHARE = 0.3  # of a text's words, at most

NEAR_DUPLICATE = 0.5  # share of common word triples (Jaccard)

TITLE = "title → body"
SPANS = "spans → rest"
NEIGHBOURS = "neighbouring paragraphs"
# Halves judge short texts, and only check longer ones (`isotrope.improvement.scores`). So they have
# two names.
HALVES = "half → half"
HALVES_OF_SHORT = "half → half of short texts"
SCATTERED = "half of the words → the others"
SHARE = "share of the other answers behind the right one"

_MARKS = " \t.:;,!?…-–—|"  # between a title and the text


@dataclass(frozen=True, slots=True)
class DocumentTask:
    """Q queries, each with one answer in a corpus of M, each of which answers one query or more.

    With ``all_places`` every place counts, not the first ten only: parts of a short text say so
    little that its answer is rarely among these.
    """

    name: str
    queries: list[str]  # (Q,)
    corpus: list[str]  # (M,)
    answers: Indices  # (Q,) which text of the corpus is the answer
    documents: Indices  # (M,) the document that each text is from
    all_places: bool = False

    @property
    def texts(self) -> list[str]:
        """All that is encoded, repeated texts included."""
        return [*self.queries, *self.corpus]

    @property
    def size(self) -> int:
        """M."""
        return len(self.corpus)

    @property
    def grades(self) -> csr_array:
        """(Q, M): 1 at each query's answer."""
        return membership(self.answers, self.size)

    def as_retrieval_set(self) -> RetrievalSet:
        """The queries, and what each should find."""
        return RetrievalSet(self.name, self.queries, self.corpus, self.grades)

    def part(self, count: int) -> "DocumentTask":
        """At most ``count`` of the answers, evenly spread, with all their queries, as the only
        corpus.
        """
        columns = np.array(evenly(self.size, count))
        rows = np.flatnonzero(np.isin(self.answers, columns))
        return DocumentTask(
            self.name,
            [self.queries[row] for row in rows],
            [self.corpus[column] for column in columns],
            np.searchsorted(columns, self.answers[rows]),
            self.documents[columns],
            self.all_places,
        )

    def score(self, encoder: Encoder) -> Vector:
        """1 / place of a query's answer by similarity, 0 beyond the tenth place; the mean over each
        answer's queries: (M,).

        With ``all_places``, it is the share of the other texts that come behind the answer: 0.5 is
        chance.
        """
        return self.score_search(encoder_search(encoder, self.queries, self.corpus))

    def score_search(self, search: Search) -> Vector:
        """`score` of any search (M,). Ties count against it."""
        if self.all_places:
            scores = self._shares_behind(search)
        else:
            scores = reciprocal_rank(rank_search(search, self.grades, CUTOFF), CUTOFF)

        queries_of_answer = np.bincount(self.answers)
        return np.asarray(np.bincount(self.answers, scores) / queries_of_answer)

    def _shares_behind(self, search: Search) -> Vector:
        """The share of the other texts that come behind each query's answer (Q,)."""
        scores = np.asarray(search(slice(None)), dtype=np.float64)  # (Q, M)
        scores = scores.round(DECIMALS)
        right = np.take_along_axis(scores, self.answers[:, None], axis=1)
        behind = (scores < right).sum(axis=1)
        return np.asarray(behind / max(1, self.size - 1))


class DocumentTasks(NamedTuple):
    """The tasks that some documents allow, and lines on how many documents each has, or why it is
    left out.
    """

    tasks: list[DocumentTask]
    told: list[str]


@dataclass(frozen=True, slots=True)
class _Parts:
    """Some queries from a document, and their answer."""

    queries: list[str]
    answer: str


# What a document must have for each kind of task.
_NEEDS = {
    TITLE: "a title of their own",
    HALVES: "two different halves",
    HALVES_OF_SHORT: "two different halves",
    SCATTERED: "two different halves of their words",
    SPANS: "a span of their own",
    NEIGHBOURS: "two paragraphs that follow each other",
}


def make_document_tasks(
    documents: Sequence[Document],
    seed: int = 0,
    *,
    most: int = MOST_TEXTS,
    fewest: int = FEWEST_TEXTS,
) -> DocumentTasks:
    """The tasks of documents that no candidate was fitted or trained on. Equal documents and seeds
    give equal tasks.

    Near-duplicates are left out, and documents of fewer than 12 words; if most are shorter than
    that, those of fewer than 6. A text that begins with its title loses it there. A query or an
    answer that occurs twice in a task is left out, as no model can tell which is meant; so is a
    query that stands in its answer.

    Args:
        documents: that the tasks are made from.
        seed: of spans, scattered words and paragraphs.
        most: documents of a task.
        fewest: a task with fewer documents is left out.
    """
    bodies = [_body(document) for document in documents]
    shortest = _shortest(bodies)
    rows = distinct_rows(bodies, most, shortest)
    chosen = [documents[row] for row in rows]
    texts = [bodies[row] for row in rows]
    are_brief = 2 * sum(_word_count(text) < FEW_TO_FIND for text in texts) >= len(texts) > 0

    tasks = []
    told = []
    for name, all_parts in _parts_by_kind(chosen, texts, are_brief, seed).items():
        parts = _unambiguous(all_parts)
        count = f"{len(parts):,}"
        if len(parts) >= fewest:
            told.append(f"{name}: {count} documents")
            tasks.append(_task_of(name, parts, are_brief and name != TITLE))
        else:
            count += f" of {len(chosen):,} documents have {_NEEDS[name]}"
            told.append(f"{name}: left out, {count}, {fewest} are needed")

    if are_brief and any(task.name != TITLE for task in tasks):
        told.append(f"most documents are short: without titles, a score is the {SHARE}")
    too_short = sum(_word_count(body) < shortest for body in bodies)
    told += _left_out(len(documents), len(chosen), too_short, shortest, most)
    return DocumentTasks(tasks, told)


def _parts_by_kind(
    documents: Sequence[Document], texts: Sequence[str], are_brief: bool, seed: int
) -> dict[str, list[_Parts | None]]:
    """The parts of each document (N,), by the kind of task; None where it has no such parts.

    ``texts`` (N,) are what a model reads of the documents. Brief ones have no spans, so half of
    their words, drawn from all places, must find the other half.
    """
    halves = HALVES_OF_SHORT if are_brief else HALVES
    pieces = SCATTERED if are_brief else SPANS
    pieces_of = scattered_of if are_brief else spans_of
    return {
        TITLE: [_title_parts(*pair) for pair in zip(documents, texts, strict=True)],
        halves: [halves_of(text) for text in texts],
        pieces: [pieces_of(text, seed) for text in texts],
        NEIGHBOURS: [_neighbours(document, seed) for document in documents],
    }


def _task_of(name: str, parts: dict[int, _Parts], all_places: bool) -> DocumentTask:
    """The task that the parts of some documents are."""
    query_counts = [len(each.queries) for each in parts.values()]
    return DocumentTask(
        name,
        [query for each in parts.values() for query in each.queries],
        [each.answer for each in parts.values()],
        np.repeat(np.arange(len(parts)), query_counts),
        np.array(list(parts)),
        all_places,
    )


def _left_out(total: int, chosen: int, too_short: int, shortest: int, most: int) -> list[str]:
    """Lines on documents that are in no task, and why."""
    why = "they are near-duplicates"
    if chosen >= most:
        why += f", or {most:,} are enough without them"
    counts = {
        f"they have fewer than {shortest} words": too_short,
        why: total - too_short - chosen,
    }
    lines = []
    for reason, count in counts.items():
        if count:
            lines.append(f"{count:,} of {total:,} documents are in no task: {reason}")
    return lines


def tasks_of_texts(texts: Sequence[str], fewest: int = FEWEST_TEXTS) -> list[DocumentTask]:
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
    long = sum(_word_count(body) >= FEWEST_WORDS for body in bodies)
    return FEWEST_WORDS if 2 * long >= len(bodies) else FEW_WORDS


def _word_count(text: str) -> int:
    return len(words_of(text)[0])


def _body(document: Document) -> str:
    """The text without its title, cut to its first words."""
    text = " ".join(" ".join(document.paragraphs).split())
    title = _title(document)

    begin = text[: len(title)]
    rest = text[len(title) :]
    is_title = begin.casefold() == title.casefold() and not rest[:1].isalnum()
    if title and is_title:
        text = rest.lstrip(_MARKS)

    words, between = words_of(text)
    return between.join(words[:WORDS_USED])


def _title(document: Document) -> str:
    return " ".join(document.title.split()).rstrip(_MARKS)


def _generator(text: str, seed: int) -> np.random.Generator:
    """The generator of a text, which does not depend on the other texts."""
    return np.random.default_rng([seed, zlib.crc32(text.encode())])


def _title_parts(document: Document, text: str) -> _Parts | None:
    title = _title(document)
    return _Parts([title], text) if title else None


def _neighbours(document: Document, seed: int) -> _Parts | None:
    """Two paragraphs that follow each other, at a drawn place."""
    pairs = []
    for first, second in pairwise(document.paragraphs):
        if min(_word_count(first), _word_count(second)) >= SHORTEST_PARAGRAPH:
            pairs.append((first, second))
    if not pairs:
        return None

    generator = _generator(" ".join(document.paragraphs), seed)
    query, answer = pairs[generator.integers(len(pairs))]
    return _Parts([query], answer)


def halves_of(text: str) -> _Parts:
    """The first half of a text's words, and the second."""
    words, between = words_of(text)
    middle = (len(words) + 1) // 2
    return _Parts([between.join(words[:middle])], between.join(words[middle:]))


def spans_of(text: str, seed: int) -> _Parts:
    """One to three spans, each at a drawn place in an equal part of the text, and what is left, at
    least half of it.
    """
    words, between = words_of(text)
    size = len(words)
    count = min(MOST_SPANS, max(1, size // (2 * SPAN_WORDS)))
    length = min(SPAN_WORDS, round(SPAN_SHARE * size))
    generator = _generator(text, seed)

    spans: list[str] = []
    rest: list[str] = []
    start = 0
    for part in range(1, count + 1):
        end = part * size // count
        begin = int(generator.integers(start, end - length + 1))
        behind = begin + length
        spans.append(between.join(words[begin:behind]))
        rest += words[start:begin]
        rest += words[behind:end]
        start = end
    return _Parts(spans, between.join(rest))


def scattered_of(text: str, seed: int) -> _Parts:
    """Half of the text's words, drawn, in their order; and the others."""
    words, between = words_of(text)
    order = _generator(text, seed).permutation(len(words))
    halves = []
    for places in np.split(order, [len(words) // 2]):
        half = [words[place] for place in np.sort(places)]
        halves.append(between.join(half))
    return _Parts(halves[:1], halves[1])


def _unambiguous(parts: Sequence[_Parts | None]) -> dict[int, _Parts]:
    """By document, without queries and answers that occur again, and queries that are copied in
    their answer.
    """
    all_parts = [each for each in parts if each]
    queries = Counter(query.casefold() for each in all_parts for query in each.queries)
    answers = Counter(each.answer.casefold() for each in all_parts)

    clear = {}
    for document, each in enumerate(parts):
        if each is None or answers[each.answer.casefold()] > 1:
            continue
        clear_queries = []
        for query in each.queries:
            # A short query, such as "Python", may stand in many texts.
            is_long = _word_count(query) >= SHORTEST_PARAGRAPH
            is_copied = is_long and query.casefold() in each.answer.casefold()
            if queries[query.casefold()] == 1 and not is_copied:
                clear_queries.append(query)
        if clear_queries:
            clear[document] = _Parts(clear_queries, each.answer)
    return clear


def distinct_rows(texts: Sequence[str], most: int, shortest: int) -> list[int]:
    """The first ``most`` of 2 · ``most`` texts of at least ``shortest`` words that are no
    near-duplicates.
    """
    long_texts = (text for text in dict.fromkeys(texts) if _word_count(text) >= shortest)
    candidates = list(islice(long_texts, 2 * most))
    if not candidates:
        return []

    is_near = _jaccard(candidates) >= NEAR_DUPLICATE  # (N, N)
    distinct: list[int] = []
    for number in range(len(candidates)):
        if not is_near[number, distinct].any():
            distinct.append(number)
    return [texts.index(candidates[number]) for number in distinct[:most]]


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
    triples = counter.fit_transform(texts)  # (N, triples)
    common = (triples @ triples.T).toarray()
    sizes = common.diagonal()
    return np.asarray(common / (sizes[:, None] + sizes[None, :] - common))


def measure_in_words(tasks: Sequence[DocumentTask]) -> str:
    """What the tasks measure, for a reader."""
    kinds = {task.all_places for task in tasks}
    if len(kinds) > 1:
        return "score × 100"
    return f"{SHARE} × 100" if kinds == {True} else f"MRR@{CUTOFF} × 100"


def compare_on_documents(
    before: Encoder, after: Encoder, tasks: Sequence[DocumentTask]
) -> Comparison:
    """Two models on the tasks of the same documents: the mean over tasks, and each task.

    Documents are the sample, with all that the tasks ask of them, because these scores go together.
    """
    return compare_documents(
        {task.name: task.score(before) for task in tasks},
        {task.name: task.score(after) for task in tasks},
        {task.name: task.documents for task in tasks},
    )
