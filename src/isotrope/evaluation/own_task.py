"""The user's own queries or labelled texts as a task, scored like those that are made from documents."""

from __future__ import annotations

from dataclasses import dataclass

from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.retrieval import CUTOFF, per_query
from isotrope.evaluation.sets.domain import Domain
from isotrope.types import Encoder, Vector


@dataclass(frozen=True, slots=True)
class OwnTask:
    """A domain, as `isotrope.evaluation.sets.own_domain.read_domain` gives it, whose measure is nDCG@10."""

    domain: Domain

    @property
    def name(self) -> str:
        """Of the domain."""
        return self.domain.name

    @property
    def texts(self) -> list[str]:
        """All that is encoded."""
        return [*self.domain.queries, *self.domain.corpus]

    @property
    def size(self) -> int:
        """Queries."""
        return len(self.domain.queries)

    def part(self, count: int) -> OwnTask:
        """At most ``count`` queries, and a like share of the texts that are not relevant to them."""
        return self if count >= self.size else OwnTask(self.domain.part(count))

    def score(self, encoder: Encoder) -> Vector:
        """nDCG@10 of each query that has something to find: (Q,).

        Raises:
            UserError: the encoder gives no usable vectors.
        """
        queries, corpus = search_vectors(encoder, self.domain.queries, self.domain.corpus)
        return per_query(queries, corpus, self.domain)[f"ndcg@{CUTOFF}"]
