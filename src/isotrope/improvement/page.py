"""What a race found: a table of all candidates, a page, and the card of the chosen model."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.evaluation.verdict import signed
from isotrope.improvement.candidates import RANKINGS, CandidateTrainer, MadeCandidate
from isotrope.improvement.general import SHIPPED
from isotrope.improvement.result import RaceResult
from isotrope.improvement.scores import KEEP, mean_score
from isotrope.improvement.steps import QUERY_MAP, cites_of
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import WORDS
from isotrope.report.examples import examples_table
from isotrope.report.page import Page, PageFigure, interval_bars
from isotrope.report.tables import Table, best_marks

RULE = (
    "These documents choose: the largest mean gain over the tasks is taken, if it is not "
    "significantly worse on the tasks that do not resemble its training. Other documents judge the "
    "choice: the verdict compares it with the model as it is on these, once."
)
MEASURES = (
    "Each task has MRR@10 × 100 if no note says otherwise. Your own labels have nDCG@10 × 100."
)
SMALL = 0.01  # a gain below one point may not be worth the switch
PAIR_SETS = {SHIPPED: "330 graded pairs", "STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}


def candidates_table(result: RaceResult) -> Table:
    """A row a candidate: the mean × 100, the gain over the model as it is with 95 %, and each
    task, all on the choosing documents.
    """
    tasks = list(result.table[KEEP])
    means = {name: mean_score(scores) for name, scores in result.table.items()}
    names = sorted(means, key=lambda name: means[name], reverse=True)
    gain = interval = [nan] * len(names)  # they are not marked
    columns = [[means[name] for name in names], gain, interval]
    columns += [[result.table[name][task] for name in names] for task in tasks]
    marks = best_marks(columns, [False] * len(columns))
    return Table(
        "All candidates, the best mean first",
        ["candidate", "mean", "gain", "95 %", *tasks],
        [_candidate_row(result, name, means[name]) for name in names],
        marks,
        notes=[f"→ marks the choice. {RULE}", *result.notes],
    )


def _candidate_row(result: RaceResult, name: str, mean: float) -> list[str]:
    gain, interval = "", ""
    if name in result.gains:
        change = result.gains[name]
        gain = signed(change.gain)
        interval = f"{signed(change.low)} … {signed(change.high)}"
    mark = "→ " if name == result.choice else ""
    scores = [f"{100 * score:.2f}" for score in result.table[name].values()]
    return [f"{mark}{name}", f"{100 * mean:.2f}", gain, interval, *scores]


def choice_page(record: Mapping[str, Any]) -> Page:
    """The page of a race: what to do, a bar and a row for every candidate, and how to switch."""
    result = RaceResult.model_validate(record)
    tables = [candidates_table(result)]
    if result.searched and result.searched["shown"]["told"]:
        tables.insert(0, examples_table(result.searched["shown"]))
    return Page(
        title=f"Improve: {result.model}",
        lead=[*advice_lines(result), *question_lines(result), *teacher_lines(result)],
        verdict=result.verdict,
        tables=tables,
        figures=choice_figures(result),
        details=left_out_tables(result),
        switch=result.switch if result.is_better else None,
    )


def left_out_tables(result: RaceResult) -> list[Table]:
    """What was left out, a row for each reason."""
    names_of = defaultdict[str, list[str]](list)
    for name, reason in result.left_out.items():
        names_of[reason].append(name)
    rows = [[reason, "; ".join(names)] for reason, names in names_of.items()]
    return [Table("Left out", ["reason", "candidates"], rows, words=2)] if rows else []


def choice_figures(result: RaceResult) -> list[PageFigure]:
    """A bar for every candidate."""
    if not result.gains:
        return []
    gains = sorted(result.gains.items(), key=lambda item: item[1].gain, reverse=True)
    bars = {name: (gain.gain, gain.low, gain.high) for name, gain in gains}
    caption = "Change against your model in points; the line is the 95 % interval."
    if result.choice in bars:
        caption += " Blue is the choice."
    drawing = interval_bars(bars, result.choice)
    return [PageFigure("gains", "Gain of every candidate", drawing, caption)]


def what_to_do(result: RaceResult) -> str:
    """The sentence for a reader who reads only one: keep yours, or use the new model, why, and at
    what cost.
    """
    if result.verdict.scores is None:
        return "Keep your model: nothing could be tested."
    if not result.is_better:
        return "Keep your model: no candidate was found to be better."
    cost = "For the switch, all documents are encoded again."
    if result.keeps_documents:
        cost = (
            "Your documents keep their vectors, so nothing is encoded again; searches need "
            "encode_query."
        )
    elif (result.verdict.difference or 0.0) < SMALL:
        cost = "The gain is small, and the switch means that all documents are encoded again."
    return f"Use the new model: {_why(result)}. {cost}"


def _why(result: RaceResult) -> str:
    """What the new model does better."""
    assert result.verdict.scores is not None
    if result.searched:
        old, new = result.searched["first"]
        if new - old >= SMALL:
            return (
                f"in {100 * new:.0f} of 100 searches among your documents the right text comes "
                f"first, before in {100 * old:.0f}"
            )
    before, after = result.verdict.scores
    return (
        f"it scores {100 * after:.1f} of 100, before {100 * before:.1f}, "
        f"judged by {result.verdict.judge}"
    )


def advice_lines(result: RaceResult) -> list[str]:
    """What to do with the model, and with the search; what is to be changed comes first."""
    model_advice = what_to_do(result)
    search = result.search
    if search is None or search.verdict.word != "better" or not search.bm25_share:
        return [model_advice]
    low, high = search.verdict.low or 0.0, search.verdict.high or 0.0
    search_advice = (
        f"{search.verdict.advice} ({signed(low)} … {signed(high)}), against your model alone "
        f"(isotrope search INDEX --hybrid {search.bm25_share:g})."
    )
    if not result.is_better:
        return [f"The best search: {search_advice}", model_advice]
    if search.model == KEEP:  # the two answers are alternatives
        return [
            f"If your search can add BM25: {search_advice}",
            f"If it can't: {model_advice}",
        ]
    return [model_advice, f"The best search: {search_advice}"]


def teacher_lines(result: RaceResult) -> list[str]:
    """Sentences that say whose rankings the model learned, and which teachers were left out.

    BM25 teaches without a score of its own. A teacher is left out if the fused list with it finds
    no more on the tasks than the list without it.
    """
    lines = []
    teachers = [
        f"{name} (the list scores {100 * result.teachers[name]:.1f} on the tasks)"
        if name in result.teachers
        else name
        for name in result.taught_by
    ]
    if teachers:
        lines.append(f"{result.model} learned rankings from itself with {' and '.join(teachers)}.")
    for name, score in result.teachers.items():
        if name not in result.taught_by:
            lines.append(
                f"{name} did not teach, because the list with it scores {100 * score:.1f} on the "
                "tasks, not more than without it."
            )
    return lines


def question_lines(result: RaceResult) -> list[str]:
    """What was asked and done, and what the choice changes on general English."""
    within = ""
    if result.minutes:
        unit = "minute" if result.minutes == 1 else "minutes"
        within = f" within {result.minutes:g} {unit}"
    lines = [
        f"Asked: is another model better than {result.model} for these {result.documents:,} "
        f"documents{within}? Done: {_counted(len(result.gains))} compared with it in "
        f"{result.seconds / 60:.1f} minutes."
    ]
    if result.left_out:
        lines.append(f"{_counted(len(result.left_out))} left out.")
    return lines + general_lines(result)


def _counted(count: int) -> str:
    return "1 candidate was" if count == 1 else f"{count} candidates were"


def general_lines(result: RaceResult) -> list[str]:
    """What the choice changes on general English, in a line; nothing if the model is kept."""
    if result.similarity is None:
        return []
    changes = []
    for name, change in result.similarity.per_task.items():
        word = WORDS.get(change.verdict, change.verdict)
        before, after = 100 * change.before, 100 * change.after
        changes.append(f"{PAIR_SETS.get(name, name)} {before:.1f} → {after:.1f} ({word})")
    return [
        f"General English, Spearman × 100: {'; '.join(changes)}. "
        "These pairs had no part in the choice."
    ]


def choice_card(
    trainers: Mapping[str, CandidateTrainer], result: RaceResult, model: SentenceTransformer
) -> Card:
    """The card of the chosen candidate: that of the model or training that it comes from, and how
    it was chosen.
    """
    made = result.made[result.choice]
    candidate = made.encoder
    trainer = trainers[candidate.start]
    is_ranked = candidate.recipe == RANKINGS
    origin = trainer.model
    if candidate.recipe and not is_ranked:
        origin = str(trainer.trained_model(candidate))
    card = Card.of(origin)
    if result.is_better:
        documents = trainer.documents.documents()
        chosen = Step(
            action="Chosen by",
            method="isotrope improve",
            data=Data.of(
                trainer.documents.paths, len(documents), trainer.trained_on, documents.key
            ),
            settings=_card_settings(made),
            cites=cites_of(QUERY_MAP if is_ranked else made.step),
            limits=["It was chosen for the documents above. It may fit other text less well."],
        )
        card = card.then(chosen, model).describing(model, result.keeps_documents)
    table = candidates_table(result)
    notes = [MEASURES, *table.notes, *question_lines(result)[1:]]
    return card.judged(result.verdict, replace(table, notes=notes))


def _card_settings(made: MadeCandidate) -> list[tuple[str, str, str]]:
    """How a candidate was made: what, its value, and where that is from."""
    candidate = made.encoder
    settings = {"pooling": candidate.pooling or "the model's own"}
    if candidate.recipe == RANKINGS:
        settings["training"] = f"{2 * candidate.pairs:,} queries"
        settings["read by the trained encoder"] = "queries only"
    if candidate.recipe:
        settings["share of the trained weights"] = f"{candidate.share:g}"
    settings["post step"] = made.step or "none"
    return [(key, value, "chosen in a race") for key, value in settings.items()]
