"""Sentence pairs that people graded: what similarity is judged on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xxhash

from isotrope.evaluation.correlation import rank_products
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.results import Indices
from isotrope.evaluation.similarity import row_similarities
from isotrope.text.permutation import evenly
from isotrope.types import Encoder, Vector


@dataclass(frozen=True, slots=True)
class GradedPairs:
    """N sentence pairs with the score that people gave each; a higher score means closer in
    meaning.
    """

    name: str
    first: list[str]  # (N,)
    second: list[str]  # (N,)
    gold: Vector  # (N,)
    read_as: str = ""  # what a file or a table was taken for

    def __len__(self) -> int:
        return len(self.first)

    @property
    def size(self) -> int:
        """N."""
        return len(self.first)

    @property
    def texts(self) -> list[str]:
        """All that is encoded, repeated texts included."""
        return [*self.first, *self.second]

    def rows(self, places: Indices) -> "GradedPairs":
        """The pairs at these places (n,)."""
        first = [self.first[row] for row in places]
        second = [self.second[row] for row in places]
        return GradedPairs(self.name, first, second, self.gold[places])

    def part(self, count: int) -> "GradedPairs":
        """At most ``count`` pairs, evenly spread."""
        return self.rows(np.array(evenly(self.size, count)))

    def similarities(self, embeddings: Embeddings) -> Vector:
        """The similarity of each pair (N,) that the model was made for, mostly the cosine."""
        first = embeddings.encode(self.first)
        second = embeddings.encode(self.second)
        return row_similarities(first, second, embeddings.similarity_fn_name)

    def score(self, encoder: Encoder) -> Vector:
        """The product of each pair's two ranks in standard units, by similarity and by grade: (N,).

        Their mean is Spearman's correlation.
        """
        embeddings = embed_pairs(encoder, [self])
        return rank_products(self.similarities(embeddings), self.gold)

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the sentences and scores, in their order."""
        digest = xxhash.xxh3_128(json.dumps([self.first, self.second]).encode())
        digest.update(self.gold.tobytes())
        return digest.hexdigest()


def embed_pairs(encoder: Encoder, sets: Iterable[GradedPairs]) -> Embeddings:
    """The vectors of all sentences of several sets, each of which is encoded once."""
    return Embeddings.of(encoder, [text for pairs in sets for text in pairs.texts])
