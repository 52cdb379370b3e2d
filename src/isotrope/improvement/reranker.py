"""A cross-encoder as a teacher of rankings: it reads a query and a document together, and so sees more than vectors.

It orders the best documents of a fused list anew (Nogueira and Cho, 2019, https://arxiv.org/abs/1901.04085). A reading
costs as much as encoding both texts, so a race asks it about as many pseudo-queries as there is time for.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sentence_transformers import CrossEncoder
from sentence_transformers.util import load_file_path
from transformers import AutoConfig

from isotrope.encoder.faults import loading, quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.evaluation.retrieval import Lists, Search
from isotrope.types import Vector

DEPTH = 50  # documents of a list that are read
FEWEST = 200  # pseudo-queries: fewer teach too little
LENGTH = 256  # tokens of a query and a document
PROBED = 32  # pairs that tell how fast it reads


def is_cross_encoder(model: str) -> bool:
    """Whether a model gives one score to two texts, and no vectors."""
    where = locate(model)
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=False)
    except (OSError, ValueError):  # such as a table of word vectors, which has no configuration
        return False
    modules = load_file_path(where, "modules.json")
    pooled = modules is not None and "Pooling" in Path(modules).read_text(encoding="utf-8")
    return not pooled and any(name.endswith("ForSequenceClassification") for name in config.architectures or ())


def refuse_cross_encoder(model: str) -> None:
    """Refuse, as a model to improve, what gives no vectors."""
    if is_cross_encoder(model):
        raise UserError(f"{model} is a cross-encoder, which gives no vectors", f"let it teach: --teacher {model}")


@dataclass(frozen=True)
class Reranker:
    """A loaded cross-encoder.

    Attributes:
        model: reads pairs.
        count: pseudo-queries that it orders documents for.
    """

    model: CrossEncoder
    count: int = 0

    @classmethod
    def load(cls, model: str) -> "Reranker":
        """Load it from a folder or the hub: safetensors only, and no code of the model.

        Raises:
            UserError: it gives several scores to a pair.
        """
        with loading(where := locate(model), model), quiet():
            found = CrossEncoder(where, trust_remote_code=False, model_kwargs={"use_safetensors": True})
        found.max_length = min(found.max_length or LENGTH, LENGTH)
        if found.config.num_labels != 1:
            problem = f"{model} gives {found.config.num_labels} scores to two texts"
            raise UserError(problem, "name a cross-encoder that gives one, as those for search do")
        return cls(found)

    def speed(self, queries: Sequence[str], documents: Sequence[str]) -> float:
        """Pairs that it reads in a second."""
        pairs = [(queries[i % len(queries)], documents[i % len(documents)]) for i in range(PROBED)]
        self._scores(pairs[:2])  # the first call is slower
        began = time.monotonic()
        self._scores(pairs)
        return PROBED / max(time.monotonic() - began, 1e-6)

    def reranked(self, queries: Sequence[str], documents: Sequence[str], lists: Lists) -> Lists:
        """Order the best 50 of each list anew: scores from 0 to 1, and 0 for what comes behind them."""
        best = np.argsort(-lists.scores, axis=1, kind="stable")[:, :DEPTH]  # (Q, 50) places in the lists
        read = np.take_along_axis(lists.documents, best, axis=1)
        pairs = [(query, documents[row]) for query, rows in zip(queries, read.tolist(), strict=True) for row in rows]
        found = self._scores(pairs).reshape(best.shape)
        low, high = found.min(axis=1, keepdims=True), found.max(axis=1, keepdims=True)
        scores = np.zeros_like(lists.scores)
        np.put_along_axis(scores, best, (found - low) / np.where(high > low, high - low, 1), axis=1)
        return Lists(lists.documents, scores)

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> Vector:
        return np.asarray(self.model.predict(list(pairs), show_progress_bar=False), dtype=np.float64)


def search_of(lists: Lists, documents: int) -> Search:
    """A search that finds what lists hold, and nothing else, among so many documents."""
    scores = np.full((len(lists.documents), documents), -1.0)
    np.put_along_axis(scores, lists.documents, lists.scores, axis=1)
    return lambda rows: scores[rows]
