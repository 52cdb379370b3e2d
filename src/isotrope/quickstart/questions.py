"""Questions that no model has seen judge how well each model finds the right page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers import SentenceTransformer

from isotrope.encoder.embed import Vectors, search_vectors
from isotrope.encoder.length import limit_length
from isotrope.evaluation.search import CUTOFF, by_cosine, rank_search, reciprocal_rank
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import compare_means
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.steps import WHITENINGS, linear_step
from isotrope.types import Vector

READ = 64  # tokens of a page that the judged models read
MRR = "MRR@10"
WHITENED = "then whitening"
FIRST = "right page first"


@dataclass(frozen=True, slots=True)
class PageQuestions:
    """Q questions, each written for one of M pages, search all of them."""

    searches: RetrievalSet  # its corpus are the names of the pages
    texts: list[str]  # (M,) of the pages

    @classmethod
    def of(cls, pages: Sequence[Mapping[str, str]]) -> "PageQuestions":
        """The questions of a collection."""
        questions = [page["asked"] for page in pages if page["asked"]]
        right_pages = [place for place, page in enumerate(pages) if page["asked"]]
        ones = np.ones(len(questions))
        grades = csr_array(
            (ones, (np.arange(len(questions)), right_pages)), shape=(len(questions), len(pages))
        )
        searches = RetrievalSet("questions", questions, [page["name"] for page in pages], grades)
        return cls(searches, [f"{page['title']} {page['text']}" for page in pages])

    def judge(self, model: SentenceTransformer, whitened: bool) -> "JudgedModel":
        """Search with a model, and with its vectors after whitening if they are ``whitened``."""
        with limit_length(model, READ):
            queries, pages = search_vectors(model, self.searches.queries, self.texts)
        ranks = self._reciprocal_ranks(queries, pages)
        scores = {MRR: float(np.mean(ranks)), FIRST: float(np.mean(ranks == 1))}
        if whitened:
            step = linear_step(WHITENINGS["full whitening"])
            mean, matrix = step.linear(np.asarray(pages, dtype=np.float64))
            ranks_after = self._reciprocal_ranks((queries - mean) @ matrix, (pages - mean) @ matrix)
            scores[WHITENED] = float(np.mean(ranks_after))
        return JudgedModel(scores, ranks)

    def verdict(
        self, before: str, after: str, judged: "Mapping[str, JudgedModel]", choice: str
    ) -> Verdict:
        """Compare two models; ``choice`` is what `improve` chose for the second."""
        return Verdict.of(
            compare_means(judged[before].reciprocal_ranks, judged[after].reciprocal_ranks),
            before=before,
            after=choice,
            judge=f"{self.searches.size:,} questions that no candidate has seen",
            measure="MRR@10 × 100",
        )

    def _reciprocal_ranks(self, queries: Vectors, pages: Vectors) -> Vector:
        """1 / place of each question's page, 0 beyond the tenth: (Q,)."""
        ranked = rank_search(by_cosine(queries, pages), self.searches.grades, CUTOFF)
        return reciprocal_rank(ranked, CUTOFF)


@dataclass(frozen=True, slots=True)
class JudgedModel:
    """What the questions say of a model."""

    scores: dict[str, float]  # MRR, FIRST and WHITENED, as fractions
    reciprocal_ranks: Vector  # (Q,)
