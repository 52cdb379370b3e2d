"""Do tasks made from documents promise the gain that labels show?

    python -m benchmarks.search.promised WORK --data DATA [--only minilm CACM]

A cell is a model and a collection. No label and no query is used to make or to fit anything: the
documents are split as `isotrope improve` splits them, steps are fitted on the fitting part, and tasks
are made from the two held-out parts. Then labels say what each candidate truly gains, in nDCG@10 of
at most 300 queries among at most 5,000 documents, all texts cut at 128 tokens.

A variant changes the tasks. Its promised gain is the mean over its tasks, in points. The vectors of
a cell are kept in WORK, so a second call with new variants costs seconds.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import isotrope
from benchmarks.paths import RESULTS
from benchmarks.search.choice import CLASSES, RETRIEVAL, collection, part_of, write_documents
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.search import CUTOFF, by_cosine, search_with
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import compare_means
from isotrope.improvement.scores import KEEP
from isotrope.improvement.split import Split, choosing_count, most_held_out, split_documents
from isotrope.improvement.steps import QUERY_MAP, FittedStep, FittingSet, fit_whitening
from isotrope.improvement.tasks import JUDGED_LENGTH, tasks_from_documents
from isotrope.improvement.teachers import BM25, Rankings
from isotrope.store.files import write_json
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.text.corpus import Documents
from isotrope.types import Vector

TARGET = RESULTS / "promised"
MODELS = {"minilm": "isotrope/minilm", "small": "isotrope/small"}
DOCUMENTS, SEED = 5000, 0
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)
WHITENINGS = ("slight whitening", "soft whitening")
WITHOUT_TITLES = " without titles"

Block = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Search:
    """What a candidate is: a step after the model, and BM25's share."""

    step: str  # "" for none
    bm25_share: float

    @property
    def name(self) -> str:
        """As the tables call it."""
        model = self.step or KEEP
        return f"{model} + {self.bm25_share} BM25" if self.bm25_share else model


def searches() -> Iterator[Search]:
    """The model as it is, its steps, and BM25 with the model and with the query map."""
    for step in ("", QUERY_MAP, *WHITENINGS):
        yield Search(step, 0.0)
    for step in ("", QUERY_MAP):
        for share in SHARES:
            yield Search(step, share)


class Encoder:
    """A model whose vectors are kept in a file."""

    def __init__(self, model: str, file: Path) -> None:
        self.model = isotrope.load(model, frozen=True, dtype="bf16")
        self.file = file
        self.texts: list[str] = []
        self.vectors: Vectors = np.empty((0, 0), dtype=np.float32)
        if file.is_file():
            with np.load(file, allow_pickle=False) as arrays:
                self.texts = json.loads(str(arrays["texts"]))
                self.vectors = arrays["vectors"]

    def embed(self, texts: Sequence[str]) -> Embeddings:
        """Encode what is not known yet."""
        known = set(self.texts)
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            with limit_length(self.model, JUDGED_LENGTH):
                vectors = vectors_of(self.model, new, batch_size=32)
            self.vectors = np.concatenate([self.vectors, vectors]) if self.texts else vectors
            self.texts += new
            np.savez(self.file, texts=np.array(json.dumps(self.texts)), vectors=self.vectors)
        return Embeddings(self.texts, self.vectors)


def scaled(scores: Block) -> Block:
    """Scores of each query (Q, M) from 0 to 1."""
    low = scores.min(axis=1, keepdims=True)
    high = scores.max(axis=1, keepdims=True)
    return np.asarray((scores - low) / np.where(high > low, high - low, 1), dtype=np.float32)


def unit(vectors: Vectors) -> Block:
    """Rows of length 1."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)


class Scorer:
    """All candidates on one task."""

    def __init__(self, task: DocumentTask, embeddings: dict[str, Embeddings]) -> None:
        corpus = task.corpus
        self.task = task
        self.words = scaled(Bm25Index.of(corpus).scores(task.queries))
        self.cosines = {
            step: scaled(unit(each.encode_query(task.queries)) @ unit(each.encode(corpus)).T)
            for step, each in embeddings.items()
        }

    def ranks(self, search: Search) -> Vector:
        """The place of each query's answer, from 1 (Q,). Ties count against it."""
        share = np.float32(search.bm25_share)
        scores = (1 - share) * self.cosines[search.step] + share * self.words
        right = np.take_along_axis(scores, self.task.answers[:, None], axis=1)
        return np.asarray((scores >= right - 1e-6).sum(axis=1), dtype=np.float64)

    def score(self, search: Search) -> float:
        """The mean score of the documents, by the measure of the task."""
        ranks = self.ranks(search)
        scores = np.where(ranks <= CUTOFF, 1 / ranks, 0.0)
        if self.task.all_places:
            scores = 1 - (ranks - 1) / max(1, self.task.size - 1)
        queries_of_answer = np.bincount(self.task.answers)
        return float(np.mean(np.bincount(self.task.answers, scores) / queries_of_answer))


def plain(word: str) -> str:
    """A word without its marks, in small letters."""
    return word.strip(".,;:!?()[]\"'").casefold()


Change = Callable[[str, str, np.random.Generator], str]  # query, answer -> query


def shared_places(query: str, answer: str) -> list[int]:
    """The places of the words of a query that its answer has too."""
    of_answer = {plain(word) for word in answer.split()}
    return [place for place, word in enumerate(query.split()) if plain(word) in of_answer]


def without(query: str, places: Sequence[int]) -> str:
    """The query without the words at these places; its first word if nothing is left."""
    words = query.split()
    dropped = set(places)
    left = [word for place, word in enumerate(words) if place not in dropped]
    return " ".join(left) or words[0]


def masked(share: float) -> Change:
    """Drop a share of the words that the answer has too."""

    def change(query: str, answer: str, generator: np.random.Generator) -> str:
        shared = shared_places(query, answer)
        dropped = np.flatnonzero(generator.random(len(shared)) < share)
        return without(query, [shared[place] for place in dropped])

    return change


def limited(share: float) -> Change:
    """Drop words that the answer has too, until they are at most so large a share of the query."""

    def change(query: str, answer: str, generator: np.random.Generator) -> str:
        shared = shared_places(query, answer)
        kept = round(share * len(query.split()))
        order = generator.permutation(len(shared))
        return without(query, [shared[place] for place in order[kept:]])

    return change


def changed(task: DocumentTask, change: Change) -> DocumentTask:
    """A task with other queries."""
    generator = np.random.default_rng(SEED)
    queries = [
        change(query, task.corpus[answer], generator)
        for query, answer in zip(task.queries, task.answers, strict=True)
    ]
    return replace(task, queries=queries)


AS_THEY_ARE = "as they are"
VARIANTS: dict[str, Change] = {
    AS_THEY_ARE: lambda query, answer, generator: query,
    "at most 0.4 shared": limited(0.4),
    "half of the shared words left out": masked(0.5),
    "all shared words left out": masked(1.0),
}


def true_gains(
    domain: RetrievalSet, embeddings: dict[str, Embeddings]
) -> dict[str, dict[str, float]]:
    """Candidate -> its gain by labels, with the 95 % interval."""
    words = Bm25Index.of(domain.corpus).search(domain.queries)
    scores = {}
    for search in searches():
        encoder = embeddings[search.step]
        by_model = by_cosine(encoder.encode_query(domain.queries), encoder.encode(domain.corpus))
        fusion = search_with([by_model, words], [1 - search.bm25_share, search.bm25_share])
        scores[search.name] = domain.score_search(fusion if search.bm25_share else by_model)
    gains = {}
    for name, query_scores in scores.items():
        comparison = compare_means(scores[KEEP], query_scores)
        gains[name] = {
            "score": float(query_scores.mean()),
            "gain": comparison.difference,
            "low": comparison.low,
            "high": comparison.high,
        }
    return gains


def promised_scores(
    tasks: Sequence[DocumentTask], embeddings: dict[str, Embeddings]
) -> dict[str, dict[str, float]]:
    """Task -> candidate -> its score."""
    promised = {}
    for task in tasks:
        scorer = Scorer(task, embeddings)
        promised[task.name] = {search.name: scorer.score(search) for search in searches()}
    return promised


def overlap(queries: Sequence[str], relevant: Sequence[Sequence[str]]) -> float:
    """The share of a query's words that a relevant text has."""
    shares = [
        len(shared_places(query, text)) / len(query.split())
        for query, texts in zip(queries, relevant, strict=True)
        for text in texts
    ]
    return float(np.mean(shares))


Variants: TypeAlias = dict[str, dict[str, list[DocumentTask]]]  # part -> variant -> tasks


def make_variants(documents: Documents, split: Split) -> Variants:
    """The tasks that choose and those that judge, as they are and changed."""
    variants: Variants = {}
    for part, rows in (("choosing", split.choosing), ("judging", split.judging)):
        tasks = tasks_from_documents(list(documents.each(rows)), SEED).tasks
        variants[part] = {
            variant: [changed(task, change) for task in tasks if isinstance(task, DocumentTask)]
            for variant, change in VARIANTS.items()
            if part == "judging" or variant == AS_THEY_ARE
        }
    return variants


def open_collection(data: str, name: str, work: Path) -> tuple[RetrievalSet, Documents]:
    """The searches that labels judge, and the same documents as `improve` reads them."""
    domain, titles = part_of(*collection(data, name.removesuffix(WITHOUT_TITLES)), DOCUMENTS)
    if name.endswith(WITHOUT_TITLES):
        titles = [""] * len(titles)
    file = work / f"{name.lower()}.jsonl"
    write_documents(domain, titles, file)
    return domain, read_text(file).documents()


def cell(data: str, name: str, model: str, work: Path) -> dict[str, Any]:
    """Promised and true gains of all candidates."""
    work.mkdir(parents=True, exist_ok=True)
    domain, documents = open_collection(data, name, work)
    held_out = most_held_out(len(documents))
    choosing = choosing_count(held_out)
    split = split_documents(documents, choosing, held_out - choosing, SEED)
    variants = make_variants(documents, split)
    fitting_set = FittingSet.of(documents, split.fitting, SEED)

    texts = [*domain.queries, *domain.corpus, *fitting_set.documents]
    texts += fitting_set.pseudo_queries.texts
    for by_variant in variants.values():
        texts += [text for tasks in by_variant.values() for task in tasks for text in task.texts]
    stem = name.removesuffix(WITHOUT_TITLES).lower()
    given = Encoder(MODELS[model], work / f"{model}-{stem}.npz").embed(texts)
    embeddings = {"": given}
    for step, fitted in fit_steps(given, fitting_set).items():
        embeddings[step] = fitted.apply(given)

    promised = {
        part: {variant: promised_scores(tasks, embeddings) for variant, tasks in of_part.items()}
        for part, of_part in variants.items()
    }
    return {
        "model": model,
        "collection": name,
        "documents": len(domain.corpus),
        "queries": domain.size,
        "judging": len(split.judging),
        **word_counts(domain, variants["judging"][AS_THEY_ARE]),
        "true": true_gains(domain, embeddings),
        "promised": promised,
    }


def word_counts(domain: RetrievalSet, tasks: Sequence[DocumentTask]) -> dict[str, Any]:
    """How long queries and documents are, and how many words of a query its answer has."""
    relevant = [
        [domain.corpus[column] for column in domain.grades[[row]].indices[:20]]
        for row in range(domain.size)
    ]
    return {
        "query_words": float(np.mean([len(query.split()) for query in domain.queries])),
        "document_words": float(np.mean([len(text.split()) for text in domain.corpus])),
        "overlap": overlap(domain.queries, relevant),
        "task_overlap": {
            task.name: overlap(task.queries, [[task.corpus[answer]] for answer in task.answers])
            for task in tasks
        },
    }


def fit_steps(given: Embeddings, fitting_set: FittingSet) -> dict[str, FittedStep]:
    """The map and the whitenings, fitted on the fitting part."""
    rankings = Rankings.of(given, fitting_set, [BM25], {})
    steps = {QUERY_MAP: rankings.fit_map(QUERY_MAP, SEED)}
    for name in WHITENINGS:
        steps[name] = fit_whitening(name, given, fitting_set)
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder for vectors")
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", default=[], help="words in the cells' names")
    parser.add_argument("--results", type=Path, default=TARGET)
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    words = {word.lower() for word in args.only}
    untitled = [name + WITHOUT_TITLES for name in ("SciFact", "CACM")]
    for model in MODELS:
        for name in (*RETRIEVAL, *CLASSES, *untitled):
            target = args.results / f"{model}-{name.lower().replace(' ', '-')}.json"
            if target.is_file() or not words <= {model, *name.lower().split()}:
                continue
            print(model, name, flush=True)
            write_json(target, cell(args.data, name, model, args.work))


if __name__ == "__main__":
    main()
