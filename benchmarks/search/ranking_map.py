"""What a map that is trained on rankings gives, kind by kind: labels that it never sees judge it,
and so do own tasks.

    # all cells; finished ones stay
    python -m benchmarks.search.ranking_map WORK --data DATA
    # cells whose names hold all these words
    python -m benchmarks.search.ranking_map WORK --data DATA --only minilm CACM
    # all documents, as the first probes had
    python -m benchmarks.search.ranking_map WORK --data DATA --only minilm --full

The collections are those of `benchmarks/search/choice.py`. Each variant changes one thing of the first.
"tasks" is the mean of the tasks from held-out documents, by which `isotrope improve` judges; no
list and no pseudo-query has such a document.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.paths import RESULTS
from benchmarks.search import choice
from isotrope import load
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.search import Search, by_cosine, ranked_lists, search_with
from isotrope.improvement.scores import judging_tasks
from isotrope.improvement.split import most_held_out
from isotrope.improvement.tasks import tasks_from_documents
from isotrope.post.ranking_map import ranking_map
from isotrope.post.whitening import whitening
from isotrope.store.files import read_record, write_json
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.text.pseudo_queries import (
    KINDS,
    MIXTURE,
    SENTENCE,
    SPAN,
    TITLE,
    PseudoQueries,
    pseudo_queries,
)
from isotrope.training.processes import environment
from isotrope.training.rankings import learn_rankings

TARGET = RESULTS / "ranking-map"
MODELS = ("minilm", "small", "tiny")
TOKENS, MOST = 128, 6000
STEPS = 120  # of the encoder
WORDS = "words"  # BM25's most telling words of a document


def telling(index: Bm25Index, document: int, count: int) -> list[str]:
    """The words of most weight in a document, at most ``count``, the first of them first."""
    row, names = index.weights[[document]], index.words.get_feature_names_out()
    return [
        str(names[row.indices[place]]) for place in np.argsort(-row.data, kind="stable")[:count]
    ]


class Cell:
    """One model and one collection: everything is encoded once."""

    def __init__(self, data: str, name: str, model: str, work: Path, full: bool) -> None:
        domain, titles = choice.collection(data, name)
        if full:
            titles = titles or [""] * len(domain.corpus)
        else:
            domain, titles = choice.part_of(domain, titles)
        work.mkdir(parents=True, exist_ok=True)
        self.work = work
        documents = work / "documents.jsonl"
        choice.write_documents(domain, titles, documents)
        found = read_text(documents).documents()
        held_out = min(300, most_held_out(len(found)))
        trained, held = found.split(held_out, choice.SEED)
        judges = tasks_from_documents(list(found.each(held)), choice.SEED).tasks
        self.tasks = [task for task in judges if isinstance(task, DocumentTask)]
        self.domain, self.texts = domain, found.texts(trained)
        self.index = Bm25Index.of(self.texts)
        self.asked = pseudo_queries(found.each(trained), KINDS, choice.SEED)
        self.asked.kinds.extend([WORDS] * len(self.texts))
        self.asked.documents.extend(range(len(self.texts)))
        self.asked.texts.extend(
            " ".join(telling(self.index, row, 6)) for row in range(len(self.texts))
        )
        self.vectors = self.encoded(model)

    def encoded(self, model: str) -> Embeddings:
        """The vectors of all texts."""
        every = [*self.texts, *self.asked.texts, *self.domain.queries, *self.domain.corpus]
        every = list(dict.fromkeys([*every, *(each for task in self.tasks for each in task.texts)]))
        kept = self.work / f"{model}-{len(every)}.npy"
        if not kept.is_file():
            encoder = load(f"isotrope/{model}")
            with limit_length(encoder, TOKENS):
                np.save(kept, vectors_of(encoder, every, batch_size=32))
        return Embeddings(every, np.load(kept))

    def map(
        self,
        kinds: Sequence[str] = MIXTURE,
        bm25: float = 0.5,
        both: bool = False,
        own: bool = False,
        other: Embeddings | None = None,
        count: int = 100,
    ) -> Vectors:
        """W of a variant."""
        asked = of_kinds(self.asked, kinds).sample(MOST, choice.SEED)
        queries, documents = self.vectors.encode(asked.texts), self.vectors.encode(self.texts)
        teachers = [by_cosine(queries, documents), self.index.search(asked.texts)]
        weights = [1 - bm25, bm25]
        if other:
            teachers.append(by_cosine(other.encode(asked.texts), other.encode(self.texts)))
            weights = [(1 - bm25) / 2, bm25, (1 - bm25) / 2]
        left_out = np.full_like(asked.own, -1) if own else asked.own
        lists = ranked_lists(teachers, weights, left_out, len(self.texts), count)
        return ranking_map(
            queries, documents, lists.documents, lists.scores, both=both, seed=choice.SEED
        )

    def labels(self, search: Search) -> float:
        """Mean nDCG@10 × 100."""
        return float(100 * self.domain.score_search(search).mean())

    def searched(self, by_words: float) -> dict[str, float]:
        """By labels, and by the tasks, of a search with BM25."""

        def search(queries: Sequence[str], documents: Sequence[str]) -> Search:
            by_model = by_cosine(self.vectors.encode(queries), self.vectors.encode(documents))
            return search_with(
                [by_model, Bm25Index.of(documents).search(queries)], [1 - by_words, by_words]
            )

        labels = self.labels(search(self.domain.queries, self.domain.corpus))
        return {
            "labels": labels,
            **self.by_tasks(lambda task: search(task.queries, task.corpus)),
        }

    def by_tasks(self, search: Callable[[DocumentTask], Search]) -> dict[str, float]:
        """Each task × 100, and the mean of those that judge."""
        own = {
            task.name: float(100 * task.score_search(search(task)).mean()) for task in self.tasks
        }
        return {"tasks": float(np.mean([own[name] for name in judging_tasks(own)])), **own}

    def judged(
        self, matrix: Vectors, both: bool = False, centre: Vectors | None = None
    ) -> dict[str, float]:
        """By labels, and by the tasks."""
        mean = np.zeros(len(matrix)) if centre is None else centre

        def moved(texts: Sequence[str], mapped: bool = True) -> Vectors:
            vectors = self.vectors.encode(texts)
            return (vectors - mean) @ matrix if mapped else vectors

        labels = self.labels(by_cosine(moved(self.domain.queries), moved(self.domain.corpus, both)))
        tasks = self.by_tasks(lambda task: by_cosine(moved(task.queries), moved(task.corpus, both)))
        return {"labels": labels, **tasks}


def of_kinds(asked: PseudoQueries, kinds: Sequence[str]) -> PseudoQueries:
    """The pseudo-queries of these kinds."""
    return asked.part(row for row, kind in enumerate(asked.kinds) if kind in kinds)


def cell(data: str, name: str, model: str, work: Path, full: bool) -> dict[str, Any]:
    """All variants of one model and one collection."""
    here = Cell(data, name, model, work, full)
    vectors, texts = here.vectors, here.texts
    eye = np.eye(vectors.vectors.shape[1])
    found: dict[str, Any] = {"keep": here.judged(eye)}
    by_words = Bm25Index.of(here.domain.corpus).search(here.domain.queries)
    found["BM25 alone"] = {"labels": here.labels(by_words)}
    for weight in (0.3, 0.5, 0.7):
        found[f"search with {weight} BM25"] = here.searched(weight)
    variants: dict[str, dict[str, Any]] = {
        "map": {},
        "titles": {"kinds": (TITLE,)},
        "spans": {"kinds": (SPAN,)},
        "sentences": {"kinds": (SENTENCE,)},
        "telling words": {"kinds": (WORDS,)},
        "all kinds": {"kinds": (*KINDS, WORDS)},
        "teacher: itself": {"bm25": 0.0},
        "teacher: BM25": {"bm25": 1.0},
        "teacher: 0.3 BM25": {"bm25": 0.3},
        "both sides": {"both": True},
        "own document listed": {"own": True},
        "lists of 400": {"count": 400},
    }
    if model != "minilm":
        other = here.encoded("minilm")
        variants |= {
            "teacher: MiniLM too": {"other": other},
            "MiniLM too, both sides": {"other": other, "both": True},
        }
    for told, options in variants.items():
        if not set(options.get("kinds", MIXTURE)) & set(here.asked.kinds):
            continue
        began = time.perf_counter()
        matrix = here.map(**options)
        seconds = time.perf_counter() - began
        found[told] = {**here.judged(eye + matrix, options.get("both", False)), "seconds": seconds}
    mixture = of_kinds(here.asked, MIXTURE)
    for told, fit in (
        ("documents", texts),
        ("pseudo-queries", mixture.sample(1500, choice.SEED).texts),
    ):
        for exponent in (0.25, 0.5):
            mean, matrix = whitening(
                np.asarray(vectors.encode(fit[:1500]), dtype=np.float64), None, exponent, True
            )
            found[f"whitening {exponent} fitted on {told}"] = here.judged(matrix, True, mean)
    return {
        "model": model,
        "collection": name,
        "full": full,
        "documents": len(here.domain.corpus),
        "queries": int((np.diff(here.domain.grades.indptr) > 0).sum()),
        "pseudo_queries": len(mixture.texts),
        "variants": found,
        "environment": environment(),
    }


def with_encoder(done: dict[str, Any], data: str, work: Path) -> dict[str, Any]:
    """A cell that is done, with the encoder that learned the same lists: 120 steps of 64 queries."""
    if "encoder" in done["variants"]:
        return done
    here = Cell(data, done["collection"], done["model"], work, done["full"])
    asked = of_kinds(here.asked, MIXTURE).sample(MOST, choice.SEED)
    queries, documents = here.vectors.encode(asked.texts), here.vectors.encode(here.texts)
    teachers = [by_cosine(queries, documents), here.index.search(asked.texts)]
    lists = ranked_lists(teachers, [0.5, 0.5], asked.own, len(here.texts))
    began = time.perf_counter()
    trained = load(
        str(
            learn_rankings(
                load(f"isotrope/{done['model']}"),
                asked.texts,
                documents,
                lists,
                texts=STEPS * 64,
                batch=64,
                output=work / "encoder",
                seed=choice.SEED,
            )
        )
    )
    seconds = time.perf_counter() - began
    every = list(
        dict.fromkeys(
            [*here.domain.queries, *here.domain.corpus, *(t for k in here.tasks for t in k.texts)]
        )
    )
    with limit_length(trained, TOKENS):
        new = Embeddings(every, vectors_of(trained, every, batch_size=32))
    found = {}
    for told, old in (("encoder", new), ("encoder, queries only", here.vectors)):
        labels = here.labels(
            by_cosine(new.encode(here.domain.queries), old.encode(here.domain.corpus))
        )

        def by_new_queries(task: DocumentTask, old: Embeddings = old) -> Search:
            return by_cosine(new.encode(task.queries), old.encode(task.corpus))

        tasks = here.by_tasks(by_new_queries)
        found[told] = {"labels": labels, **tasks, "seconds": seconds}
    return done | {"variants": done["variants"] | found}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--results", type=Path, default=TARGET)
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    console = Console()
    for model in MODELS:
        for name in choice.RETRIEVAL + choice.CLASSES:
            told = f"{model}-{name.lower()}" + ("-full" if args.full else "")
            path = args.results / f"{told}.json"
            if not all(word.lower() in told for word in args.only):
                continue
            done = (
                read_record(path)
                if path.is_file()
                else cell(args.data, name, model, args.work / told, args.full)
            )
            done = with_encoder(done, args.data, args.work / told)
            write_json(path, done)
            console.print(
                told, {of: round(scores["labels"], 1) for of, scores in done["variants"].items()}
            )


if __name__ == "__main__":
    main()
