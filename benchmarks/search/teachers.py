"""What a stronger model teaches: maps and query encoders that learn its rankings, judged by labels
and by tasks from held-out documents.

    # the maps of all cells; finished ones stay
    python -m benchmarks.search.teachers CACHE --data DATA --teacher FOLDER
    # cells whose names hold all these words, with query encoders too
    python -m benchmarks.search.teachers CACHE --data DATA --teacher FOLDER --only minilm cacm \\
        --encoders "teacher and BM25" "itself and BM25"

A cell is a student and a collection of `benchmarks/search/choice.py`, cut as there but to fewer
documents. CACHE keeps vectors. Each setting fuses the rankings of the student, the teacher and BM25
by its weights. "tasks" and "list_by_tasks" are means over tasks from held-out documents: a gate may
ask there whether the teacher finds more than the student, or whether the fused list does.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers import SentenceTransformer
from xxhash import xxh64_hexdigest

from benchmarks.paths import RESULTS
from benchmarks.search import choice
from isotrope import load
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoder.length import limit_length
from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.search import RankedLists, Search, by_cosine, ranked_lists, search_with
from isotrope.evaluation.significance import compare_means
from isotrope.improvement.scores import mean_score
from isotrope.improvement.split import most_held_out
from isotrope.improvement.steps import FittedStep
from isotrope.improvement.tasks import tasks_from_documents
from isotrope.post.ranking_map import ranking_map
from isotrope.store.files import read_record, write_json
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.text.pseudo_queries import PseudoQueries, pseudo_queries
from isotrope.training.processes import environment
from isotrope.training.rankings import learn_rankings
from isotrope.types import Vector

TARGET = RESULTS / "teachers"
STUDENTS = ("minilm", "small")
TOKENS = 128  # of a text
DOCUMENTS = 1500  # of a collection, with all that are relevant to a query
HELD_OUT = 300  # documents that make tasks
PSEUDO_QUERIES = 5000
BM25_SHARE = 0.3  # of a search that adds BM25
STEPS, BATCH = 150, 64  # of a query encoder


@dataclass(frozen=True)
class Setting:
    """What a student learns from. The weights of a fused list sum to 1."""

    itself: float = 0.0
    teacher: float = 0.0
    bm25: float = 0.0
    queries: int = PSEUDO_QUERIES
    own_document: bool = False  # whether the document of a query is in its list
    both_sides: bool = False  # whether documents are mapped too

    @property
    def weights(self) -> tuple[float, float, float]:
        """Of the student, the teacher and BM25."""
        return self.itself, self.teacher, self.bm25


FUSED = Setting(teacher=0.5, bm25=0.5)
SELF_AND_BM25 = Setting(itself=0.5, bm25=0.5)
SETTINGS = {
    "teacher and BM25": FUSED,
    "itself and BM25": SELF_AND_BM25,
    "teacher": Setting(teacher=1.0),
    "BM25": Setting(bm25=1.0),
    "0.3 teacher, 0.7 BM25": Setting(teacher=0.3, bm25=0.7),
    "0.7 teacher, 0.3 BM25": Setting(teacher=0.7, bm25=0.3),
    "all three": Setting(itself=0.25, teacher=0.25, bm25=0.5),
    "all three, less BM25": Setting(itself=0.35, teacher=0.35, bm25=0.3),
    "2,000 pseudo-queries": Setting(teacher=0.5, bm25=0.5, queries=2000),
    "own document listed": Setting(teacher=0.5, bm25=0.5, own_document=True),
    "both sides": Setting(teacher=0.5, bm25=0.5, both_sides=True),
    "itself and BM25, both sides": Setting(itself=0.5, bm25=0.5, both_sides=True),
}


class VectorCache:
    """The vectors of texts by a model, kept in a folder by their content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def embed(self, model: str, texts: Sequence[str]) -> Embeddings:
        """The vectors of texts that are cut to 128 tokens, in bf16 where the processor has it."""
        distinct = list(dict.fromkeys(texts))
        checksum = xxh64_hexdigest("\0".join(distinct).encode())
        file = self.folder / f"{Path(model).name}-{checksum}.npy"
        if not file.is_file():
            encoder = load(model, dtype="bf16" if has_bf16() else "float32")
            np.save(file, embed_cut(encoder, distinct).vectors)
        return Embeddings(distinct, np.load(file))


def embed_cut(model: SentenceTransformer, texts: Sequence[str]) -> Embeddings:
    """The vectors of texts that are cut to 128 tokens."""
    distinct = list(dict.fromkeys(texts))
    with limit_length(model, TOKENS):
        return Embeddings(distinct, vectors_of(model, distinct, batch_size=32))


class Cell:
    """A student and a collection, with all vectors."""

    def __init__(
        self, data: str, collection: str, student: str, teacher: str, cache: VectorCache
    ) -> None:
        self.domain, titles = choice.part_of(*choice.collection(data, collection), DOCUMENTS)
        file = cache.folder / f"{collection.lower()}.jsonl"
        choice.write_documents(self.domain, titles, file)
        documents = read_text(file).documents()
        held_out = min(HELD_OUT, most_held_out(len(documents)))
        fitting, held = documents.split(held_out, choice.SEED)
        tasks = tasks_from_documents(list(documents.each(held)), choice.SEED).tasks
        self.tasks = [task for task in tasks if isinstance(task, DocumentTask)]
        self.documents = documents.texts(fitting)
        self.pseudo_queries = pseudo_queries(documents.each(fitting), seed=choice.SEED).sample(
            PSEUDO_QUERIES, choice.SEED
        )
        self.student_name = f"isotrope/{student}"
        self.teacher_name = teacher
        self.cache = cache
        self.student = cache.embed(self.student_name, self.learned + self.judged)

    @cached_property
    def teacher(self) -> Embeddings:
        """The teacher's vectors, which take most of a cell's time: only where a list needs them."""
        return self.cache.embed(self.teacher_name, self.learned + self.judged)

    @property
    def learned(self) -> list[str]:
        """The texts that lists are made of."""
        return self.documents + self.pseudo_queries.texts

    @property
    def judged(self) -> list[str]:
        """The texts that labels and tasks ask for."""
        task_texts = [text for task in self.tasks for text in task.texts]
        return [*self.domain.queries, *self.domain.corpus, *task_texts]

    @cached_property
    def index(self) -> Bm25Index:
        """The documents by their words."""
        return Bm25Index.of(self.documents)

    def asked(self, setting: Setting) -> PseudoQueries:
        """The pseudo-queries of a setting."""
        return self.pseudo_queries.sample(setting.queries, choice.SEED)

    def lists(self, setting: Setting) -> RankedLists:
        """The fused lists of a setting."""
        asked = self.asked(setting)
        searches: list[Callable[[], Search]] = [
            lambda: by_cosine(*encode_both(self.student, asked.texts, self.documents)),
            lambda: by_cosine(*encode_both(self.teacher, asked.texts, self.documents)),
            lambda: self.index.search(asked.texts),
        ]
        own = np.full_like(asked.own, -1) if setting.own_document else asked.own
        return ranked_lists(*used_searches(searches, setting.weights), own, len(self.documents))

    def fit_map(self, setting: Setting) -> Embeddings:
        """The student after a map that learned a setting."""
        matrix = ranking_map(
            self.student.encode(self.asked(setting).texts),
            self.student.encode(self.documents),
            *self.lists(setting),
            both=setting.both_sides,
            seed=choice.SEED,
        )
        step = FittedStep(
            np.zeros(len(matrix)), np.eye(len(matrix)) + matrix, not setting.both_sides
        )
        return step.apply(self.student)

    def train_encoder(self, setting: Setting, output: Path) -> Embeddings:
        """The student with a query encoder that learned a setting; documents keep their vectors."""
        folder = learn_rankings(
            load(self.student_name),
            self.asked(setting).texts,
            self.student.encode(self.documents),
            self.lists(setting),
            texts=STEPS * BATCH,
            batch=BATCH,
            output=output,
            seed=choice.SEED,
        )
        queries = [text for task in self.tasks for text in task.queries]
        trained = embed_cut(load(str(folder)), [*self.domain.queries, *queries])
        return Embeddings(self.student.texts, self.student.vectors, trained)

    def fused_search(
        self,
        student: Embeddings,
        weights: tuple[float, float, float],
        queries: Sequence[str],
        corpus: Sequence[str],
    ) -> Search:
        """The search that a list of these weights makes."""
        searches: list[Callable[[], Search]] = [
            lambda: by_cosine(student.encode_query(queries), student.encode_document(corpus)),
            lambda: by_cosine(*encode_both(self.teacher, queries, corpus)),
            lambda: Bm25Index.of(corpus).search(list(queries)),
        ]
        return search_with(*used_searches(searches, weights))

    def by_labels(self, student: Embeddings, weights: tuple[float, float, float]) -> Vector:
        """nDCG@10 of each query."""
        search = self.fused_search(student, weights, self.domain.queries, self.domain.corpus)
        return self.domain.score_search(search)

    def by_tasks(self, student: Embeddings, weights: tuple[float, float, float]) -> float:
        """The mean over the tasks from held-out documents."""
        scores = {}
        for task in self.tasks:
            search = self.fused_search(student, weights, task.queries, task.corpus)
            scores[task.name] = task.score_search(search)
        return mean_score(scores)

    def judge(self, student: Embeddings, weights: tuple[float, float, float]) -> dict[str, Any]:
        """A search by labels, compared with the student as it is, and by tasks; all × 100."""
        before = self.by_labels(self.student, (1.0, 0.0, 0.0))
        compared = compare_means(before, self.by_labels(student, weights))
        return {
            "labels": 100 * compared.after,
            "gain": 100 * compared.difference,
            "low": 100 * compared.low,
            "high": 100 * compared.high,
            "verdict": compared.verdict,
            "tasks": 100 * self.by_tasks(student, weights),
        }

    def judge_both(self, student: Embeddings) -> dict[str, Any]:
        """A student alone, and with BM25."""
        with_bm25 = self.judge(student, (1 - BM25_SHARE, 0.0, BM25_SHARE))
        return {**self.judge(student, (1.0, 0.0, 0.0)), "with_bm25": with_bm25}


def encode_both(
    model: Embeddings, queries: Sequence[str], documents: Sequence[str]
) -> tuple[Vectors, Vectors]:
    """The vectors of queries and of documents by a model without roles."""
    return model.encode(queries), model.encode(documents)


def used_searches(
    searches: Sequence[Callable[[], Search]], weights: Sequence[float]
) -> tuple[list[Search], list[float]]:
    """The searches of a fused list that have a weight, and their weights."""
    used = [place for place, weight in enumerate(weights) if weight]
    return [searches[place]() for place in used], [weights[place] for place in used]


def measure_maps(cell: Cell) -> dict[str, Any]:
    """The searches of a cell as it is, and its maps."""
    searches = {
        "as it is": cell.judge_both(cell.student),
        "teacher": cell.judge(cell.student, (0.0, 1.0, 0.0)),
        "teacher with BM25": cell.judge(cell.student, (0.0, 1 - BM25_SHARE, BM25_SHARE)),
        "BM25": cell.judge(cell.student, (0.0, 0.0, 1.0)),
    }
    maps = {}
    for name, setting in SETTINGS.items():
        maps[name] = {
            **judge_timed(cell, partial(cell.fit_map, setting)),
            "setting": asdict(setting),
            "list_by_tasks": 100 * cell.by_tasks(cell.student, setting.weights),
        }
    return {"searches": searches, "maps": maps}


def judge_timed(cell: Cell, train: Callable[[], Embeddings]) -> dict[str, Any]:
    """Train a student and judge it."""
    began = time.perf_counter()
    student = train()
    seconds = time.perf_counter() - began
    return {**cell.judge_both(student), "seconds": seconds}


def new_record(cell: Cell, student: str, collection: str, teacher: str) -> dict[str, Any]:
    """The result file of a cell with its maps."""
    return {
        "student": student,
        "collection": collection,
        "teacher": Path(teacher).name,
        "documents": len(cell.domain.corpus),
        "queries": len(cell.domain.queries),
        "pseudo_queries": len(cell.pseudo_queries.texts),
        **measure_maps(cell),
        "encoders": {},
        "environment": environment(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cache", type=Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--teacher", required=True, help="folder of the stronger model")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--encoders", nargs="*", choices=list(SETTINGS), default=[])
    parser.add_argument("--results", type=Path, default=TARGET)
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    console = Console()
    cache = VectorCache(args.cache)
    for student, collection in product(STUDENTS, choice.RETRIEVAL + choice.CLASSES):
        name = f"{student}-{collection.lower()}"
        if not all(word.lower() in name for word in args.only):
            continue
        path = args.results / f"{name}.json"
        record = read_record(path) if path.is_file() else {}
        done = record.get("encoders", {})
        missing = [setting for setting in args.encoders if setting not in done]
        if record and not missing:
            continue

        cell = Cell(args.data, collection, student, args.teacher, cache)
        if not record:
            record = new_record(cell, student, collection, args.teacher)
            write_json(path, record)
            gains = {key: round(each["gain"], 1) for key, each in record["maps"].items()}
            console.print(name, gains)
        for setting in missing:
            output = args.cache / f"{name}-{setting.replace(' ', '-')}"
            train = partial(cell.train_encoder, SETTINGS[setting], output)
            record["encoders"][setting] = judge_timed(cell, train)
            write_json(path, record)
            console.print(name, setting, round(record["encoders"][setting]["gain"], 1))


if __name__ == "__main__":
    main()
