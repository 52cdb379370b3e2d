"""What a race found, as it is kept in result.json."""

from typing import Any

from pydantic import BaseModel, ConfigDict

from isotrope.evaluation.significance import Comparison
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.candidates import MadeCandidate
from isotrope.improvement.judge import BestSearch
from isotrope.improvement.plan import Plan
from isotrope.improvement.scores import KEEP
from isotrope.report.switching import Switch


class CandidateGain(BaseModel):
    """What a candidate changes on the choosing documents, in fractions."""

    gain: float  # the mean over the tasks
    low: float  # of its 95 % interval
    high: float

    @classmethod
    def of(cls, comparison: Comparison) -> "CandidateGain":
        return cls(gain=comparison.difference, low=comparison.low, high=comparison.high)


class RaceResult(BaseModel):
    """What a race found."""

    model_config = ConfigDict(extra="forbid")

    model: str  # the name of the given model
    seed: int
    minutes: float | None  # None: a plan was repeated
    pooling: str | None
    choice: str  # the candidate that was judged better, or "keep"
    chosen: str  # the candidate that was judged; "keep" if none gained
    verdict: Verdict
    search: BestSearch | None  # None: nothing was searched
    bm25_shares: dict[str, float]  # candidate -> BM25's share that finds most; 0: without BM25
    seconds: float
    left_out: dict[str, str]  # name -> why
    notes: list[str]  # what chose and what judged
    documents: int
    fitting: int  # documents that candidates are fitted and trained on
    table: dict[str, dict[str, float]]  # candidate -> task -> score on the choosing documents
    gains: dict[str, CandidateGain]
    teachers: dict[str, float]  # further models -> their scores
    taught_by: list[str]
    made: dict[str, MadeCandidate]
    plan: Plan  # what was done
    environment: dict[str, Any]
    similarity: Comparison | None = None  # what the choice changes on general English
    searched: dict[str, Any] | None = None  # `isotrope.report.examples.compare_searches`
    switch: Switch | None = None  # how the new model takes the place of the given one

    @property
    def is_better(self) -> bool:
        return self.choice != KEEP

    @property
    def keeps_documents(self) -> bool:
        """Whether documents keep their vectors after the choice."""
        return not self.is_better or self.made[self.choice].keeps_documents

    def record(self) -> dict[str, Any]:
        """As JSON takes it."""
        return self.model_dump(mode="json")
