"""The one verdict of all commands: is what you would use tomorrow better than what you gave, as you
gave it?
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

from isotrope.evaluation.significance import Comparison

Word = Literal["better", "worse", "no difference found", "not tested"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was compared with what, on which judge, and what came out. Numbers are None if nothing
    judged.
    """

    word: Word
    before: str  # the model as the user gave it, with its own pooling and prompts
    after: str  # the model that the user would use tomorrow
    judge: str = ""  # in words: "1,379 graded pairs of STS-B", "400 of your own documents"
    measure: str = ""  # what the scores are: "Spearman × 100"
    scores: tuple[float, float] | None = None  # of both, as fractions
    difference: float | None = None  # after − before
    low: float | None = None  # of its 95 % interval
    high: float | None = None
    # two-sided, but one-sided and corrected for the number of candidates in a race
    p: float | None = None
    advice: str = ""  # what to do, one sentence

    @classmethod
    def of(cls, found: Comparison, *, before: str, after: str, judge: str, measure: str) -> Self:
        """The verdict of a test. It has no interval if there were too few cases for a test."""
        word: Word = "no difference found" if found.verdict == "not significant" else found.verdict
        advice = {
            "better": f"Use {after}.",
            "worse": f"Keep {before}.",
            "no difference found": (
                f"Keep {before}, or judge by more: this many cases show only larger differences."
            ),
            "not tested": (
                f"Keep {before}, or judge by at least {found.needed}: "
                f"a test of {found.cases} cases would be wrong too often."
            ),
        }[word]
        is_tested = word != "not tested"
        return cls(
            word,
            before,
            after,
            judge,
            measure,
            scores=(found.before, found.after),
            difference=found.difference,
            low=found.low if is_tested else None,
            high=found.high if is_tested else None,
            p=found.p if is_tested else None,
            advice=advice,
        )

    @classmethod
    def not_tested(cls, *, before: str, after: str, advice: str) -> Self:
        """The verdict if there was nothing to judge by."""
        return cls("not tested", before, after, advice=advice)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """What `record` gave, read from JSON."""
        scores = record["scores"]
        return cls(**{**record, "scores": scores and tuple(scores)})

    def record(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @property
    def evidence(self) -> str:
        """The scores, their difference with its interval, and the judge, as a clause."""
        if self.scores is None or self.difference is None:
            return f"nothing judged {self.after}"
        before, after = self.scores
        interval = "too few for an interval"
        if self.low is not None and self.high is not None:
            interval = f"95 % interval {signed(self.low)} to {signed(self.high)}"
        return (
            f"{100 * before:.2f} → {100 * after:.2f} {self.measure}, "
            f"{signed(self.difference)} ({interval}), judged by {self.judge}"
        )

    def __str__(self) -> str:
        """Two lines for a terminal: the word with its evidence, then the advice."""
        if self.scores is None:
            return f"{self.word}; {self.advice[:1].lower()}{self.advice[1:]}"
        return f"{self.word}: {self.evidence}\n{self.advice}"


def signed(fraction: float) -> str:
    """A change in points, with its sign."""
    return f"{100 * fraction:+.2f}".replace("-", "−")
