"""The verdict of a race: "keep" and the finalists on documents that took no part in choosing.

These are the held-out judging documents. If a finalist is a quick post step of the given model, the
documents that it is fitted on judge too, each by a step that was fitted without it
(`isotrope.improvement.cross_fit`).

Two questions are answered, each falsely with *better* in at most 2.5 % of races: is one of the two
finalists better than the given model, and is the search better, with BM25 or without? So at least
one of the answers is falsely *better* at most once in twenty races.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sentence_transformers import SentenceTransformer

from isotrope.evaluation.document_tasks import DocumentTask
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.significance import Comparison, compare
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.scores import (
    KEEP,
    CandidateTable,
    SearchScores,
    TaskDocuments,
    TaskScores,
    mean_score,
)
from isotrope.improvement.tasks import JUDGED_LENGTH, TaskSet, judge_in_words, texts_to_encode

# A difference of so many half intervals is found in 80 of 100 cases: (1.96 + 0.84) / 1.96.
POWER = 1.43
SIGNIFICANT = 0.05  # two-sided p-values up to this


@dataclass(frozen=True, slots=True)
class BestSearch:
    """The best search for these documents: cosines of a model, with a share of BM25 added."""

    model: str  # "keep", or the chosen candidate
    bm25_share: float
    verdict: Verdict  # against the given model without BM25


def best_shares(searches: SearchScores) -> dict[str, float]:
    """Candidate -> BM25's share with which its search finds most; 0: it finds most without BM25."""
    shares = {}
    for name, scores_by_share in searches.items():
        means = {share: mean_score(scores) for share, scores in scores_by_share.items()}
        shares[name] = max(means, key=means.__getitem__)
    return shares


def choose_search(
    choice: str, searches: SearchScores, documents: TaskDocuments
) -> tuple[str, float]:
    """The model, "keep" or the choice, and BM25's share that find most on the choosing documents.

    The choice is taken only if it is significantly better than "keep", each with its best share.

    Args:
        choice: a candidate, or "keep".
        searches: their scores; the share 0 is the candidate alone.
        documents: of the choosing cases.
    """
    shares = best_shares({name: searches[name] for name in (KEEP, choice)})
    best = {name: searches[name][share] for name, share in shares.items()}
    difference = CandidateTable(best, documents).compare(choice)
    name = choice if difference.verdict == "better" else KEEP
    return name, shares[name]


@dataclass
class Judge:
    """Two models on the judging tasks."""

    task_set: TaskSet
    before: Embeddings
    after: Embeddings
    choice: str  # the name of the second model; "keep" if it is the first one
    folds: CandidateTable = field(default_factory=CandidateTable)  # they judge quick steps too

    def compare_models(self) -> Comparison:
        """Compare the two models."""
        task = self.task_set.tasks[0]
        if isinstance(task, GradedPairs):
            return compare(
                {task.name: (task.gold, task.similarities(self.before))},
                {task.name: (task.gold, task.similarities(self.after))},
            )
        table = self._table(self.choice, self.task_set.score(self.after))
        if self.choice in self.folds.scores:
            table = table.joined(self.folds)
        return table.compare(self.choice)

    def compare_search(self, model: str, bm25_share: float) -> Comparison:
        """Compare the given model's search with one of these settings."""
        embeddings = self.before if model == KEEP else self.after
        scores = self.task_set.score(embeddings)
        if bm25_share:
            scores = self.task_set.score_hybrid(embeddings, bm25_share)
        return self._table("search", scores).compare("search")

    def _table(self, name: str, scores: TaskScores) -> CandidateTable:
        """The scores of the given model, and other ones."""
        before = self.task_set.score(self.before)
        return CandidateTable({KEEP: before, name: scores}, self.task_set.documents)


def judge_finalists(
    finalists: Sequence[Judge], first_keeps_documents: bool
) -> tuple[Judge, Comparison]:
    """The finalist that is chosen, or the one that comes nearest, and how it compares.

    The p-values of two finalists are corrected by Holm's procedure, so that at least one of them is
    falsely better in at most 2.5 % of races. If both are better, the larger gain is chosen. But if
    documents keep their vectors after the first one, the other must be significantly better.

    Args:
        finalists: one or two, the quick step first.
        first_keeps_documents: documents keep their vectors after the first one.
    """
    comparisons = [judge.compare_models() for judge in finalists]
    corrected = correct_for_number(comparisons)
    better = [index for index, comparison in enumerate(corrected) if comparison.verdict == "better"]
    if len(better) == 2:
        first, second = finalists
        difference = Judge(first.task_set, first.after, second.after, second.choice)
        comparison = difference.compare_models()
        is_second_chosen = comparison.difference > 0
        if first_keeps_documents:
            is_second_chosen = comparison.verdict == "better"
        chosen = int(is_second_chosen)
    elif better:
        chosen = better[0]
    else:
        chosen = max(range(len(finalists)), key=lambda index: comparisons[index].difference)
    return finalists[chosen], corrected[chosen]


def correct_for_number(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with p-values corrected for their number by Holm's procedure, and verdicts
    that follow them.

    Source: Holm, A simple sequentially rejective multiple test procedure (1979),
    https://www.jstor.org/stable/4615733.
    """
    # Here, because importing it takes half a second.
    from statsmodels.stats.multitest import multipletests

    p_values = [comparison.p for comparison in comparisons]
    corrected = []
    for comparison, p in zip(comparisons, multipletests(p_values, method="holm")[1], strict=True):
        is_open = comparison.verdict in ("better", "worse") and p > SIGNIFICANT
        verdict = "not significant" if is_open else comparison.verdict
        corrected.append(replace(comparison, p=float(p), verdict=verdict))
    return corrected


def embed_tasks(model: SentenceTransformer, task_set: TaskSet) -> Embeddings:
    """The vectors of all texts of these tasks."""
    return embed_texts(model, *texts_to_encode(task_set.tasks), JUDGED_LENGTH)


def verdict_of(comparison: Comparison, task_set: TaskSet, before: str, after: str) -> Verdict:
    """What tasks say of two models or searches."""
    judge, measure = judge_in_words(task_set.tasks, comparison.cases)
    return Verdict.of(comparison, before=before, after=after, judge=judge, measure=measure)


def model_verdict(
    comparison: Comparison,
    task_set: TaskSet,
    model: str,
    choice: str,
    candidates: int,
    gained: bool = True,
) -> Verdict:
    """What the judging documents say of the chosen candidate.

    If no candidate has ``gained`` on the choosing documents, nothing was judged, and ``comparison``
    is that of the best one on these. A verdict that keeps the model says how large a difference the
    judge sees in 80 of 100 races.
    """
    verdict = verdict_of(comparison, task_set, model, choice)
    if not gained:
        reason = f"none of {candidates} candidates gained on the documents that choose"
    elif verdict.word == "better":
        advice = f"Use the new model ({choice}) for documents like these."
        return replace(verdict, advice=advice)
    elif verdict.word == "not tested":
        return verdict
    else:
        reason = f"the best of {candidates} candidates is not significantly better"
    points = 100 * POWER * (comparison.high - comparison.low) / 2
    advice = (
        f"Keep {model}: {reason}. "
        f"Differences under about {points:.1f} points cannot be seen with {verdict.judge}."
    )
    return replace(verdict, word="no difference found", advice=advice)


def search_verdict(
    comparison: Comparison, task_set: TaskSet, model: str, settings: tuple[str, float]
) -> BestSearch:
    """What the judging documents say of a search."""
    name, share = settings
    after = "the given model" if name == KEEP else name
    action = "Keep the model" if name == KEEP else "Use the new model"
    if share:
        after += f" with {share:g} BM25"
        action += f" and add {share:g} BM25"
    verdict = verdict_of(comparison, task_set, model, after)
    if verdict.word != "better":
        advice = f"Keep the search by {model} alone."
        return BestSearch(KEEP, 0.0, replace(verdict, advice=advice))
    points = f"{100 * comparison.difference:+.1f} points"
    is_labelled = not isinstance(task_set.tasks[0], DocumentTask)
    judged_on = "your labels" if is_labelled else "tasks made from your documents"
    advice = f"{action}: {points} on {judged_on}"
    return BestSearch(name, share, replace(verdict, advice=advice))
