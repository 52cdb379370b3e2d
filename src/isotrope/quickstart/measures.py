"""Three measures of a model on text of this machine, and the two tests that decide whether it became better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.geometry import alignment, uniformity
from isotrope.evaluation.retrieval import reciprocal_ranks
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.evaluation.significance import Comparison, compare, compare_means
from isotrope.evaluation.sts import spearman
from isotrope.quickstart.docstrings import Docstrings
from isotrope.types import Encoder, Vector

CLOSE_GRADE = 4.0  # pairs graded at least so are positives of the alignment
RESAMPLES = 2000
LEVEL = 0.05 / 2  # two tests share the 5 % (Bonferroni)
DECISION = (
    f"The verdict is better or worse if the test of retrieval or that of similarity says so with p ≤ {LEVEL:g}, and "
    "the other one does not contradict it."
)
MEANINGS = {  # each measure in a sentence
    "retrieval": "The model gets the first sentence of a docstring and searches for the rest of it; 100 means that the "
    "right one always comes first (MRR@10 × 100).",
    "similarity": "The model orders 330 pairs of sentences by how alike they are; 100 is the order of the two graders' "
    "grades, 0 is chance (Spearman × 100).",
    "alignment": "The distance between two sentences that mean the same: lower is closer, but it also grows where all "
    "vectors are spread further apart.",
    "uniformity": "How evenly the vectors of all sentences spread over the space: lower is more even.",
}
WHAT_TO_DO = {
    "better": "use the new model for text like this",
    "worse": "keep the model you began with",
    "mixed": "one measure became better, the other one worse: choose by what you need",
    "not significant": "keep the model you began with",
}


@dataclass(frozen=True, slots=True)
class ModelMeasures:
    """One model on the three measures."""

    reciprocal: Vector  # (Q,) 1 / place of each query's own body, 0 beyond the cutoff
    cosines: Vector  # (N,) of the similarity set's pairs
    alignment: float
    uniformity: float

    @property
    def figures(self) -> dict[str, float]:
        """One number a measure."""
        return {
            "retrieval": float(self.reciprocal.mean()),
            "similarity": spearman(similarity_pairs().gold, self.cosines),
            "alignment": self.alignment,
            "uniformity": self.uniformity,
        }


def measure_model(encoder: Encoder, text: Docstrings) -> ModelMeasures:
    """The three measures of anything with ``encode()``."""
    pairs = similarity_pairs()
    embedded = Embedded(encoder, [*text.queries, *text.bodies, *pairs.first, *pairs.second])
    close = pairs.gold >= CLOSE_GRADE
    first, second = embedded(pairs.first), embedded(pairs.second)
    return ModelMeasures(
        reciprocal=reciprocal_ranks(embedded(text.queries), embedded(text.bodies)),
        cosines=embedded.cosines(pairs),
        alignment=alignment(first[close], second[close]),
        uniformity=uniformity(embedded(list(dict.fromkeys([*pairs.first, *pairs.second])))),
    )


def compare_measures(before: ModelMeasures, after: ModelMeasures, seed: int = 0) -> dict[str, Comparison]:
    """Both tests: retrieval, a paired bootstrap over queries; similarity, a paired bootstrap over pairs."""
    gold = similarity_pairs().gold
    return {
        "retrieval": compare_means(before.reciprocal, after.reciprocal, RESAMPLES, seed),
        "similarity": compare({"": (gold, before.cosines)}, {"": (gold, after.cosines)}, RESAMPLES, seed),
    }


def decide(tests: Mapping[str, Comparison]) -> str:
    """The verdict, by `DECISION`; "mixed" where the two tests contradict each other."""
    says = {test.verdict for test in tests.values() if test.p <= LEVEL}
    return says.pop() if len(says) == 1 else "mixed" if says else "not significant"
