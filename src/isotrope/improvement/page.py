"""What a race found: a table of all candidates, a page, and the card of the chosen model."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.candidates import RANKINGS, Trial, for_queries
from isotrope.improvement.decide import AS_IS, judging
from isotrope.improvement.judges import GRADED
from isotrope.improvement.race import Race
from isotrope.improvement.steps import QUERY_MAP, cites_of
from isotrope.improvement.teachers import HYBRIDS
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import WORDS
from isotrope.report.examples import examples_table
from isotrope.report.page import Page, PageFigure, interval_bars
from isotrope.report.space import map_figure
from isotrope.report.switching import Switch
from isotrope.report.tables import Table, best_marks, signed

RULE = (
    "A candidate may be chosen if its mean gain over the tasks is significantly above 0 (p ≤ 0.05), and if it is not "
    "significantly worse on the tasks that do not resemble its training. Of these, the largest gain is chosen. A "
    "paired bootstrap over the queries gives p, corrected for the number of candidates (max-T)."
)
SMALL = 0.01  # a gain below one point may not be worth the switch
PAIRS = {GRADED: "330 graded pairs", "STSBenchmark": "STS-B", "SICKRelatedness": "SICK-R"}


def candidates_table(
    record: Mapping[str, Any], title: str = "All candidates, the best mean first"
) -> Table:
    """A row a candidate: the mean × 100, the gain over the model as it is with 95 % and p, and each
    task.
    """
    table = record["table"]
    tasks = list(table[AS_IS])
    judges = judging(tasks)
    means = {
        name: sum(scores[task] for task in judges) / len(judges) for name, scores in table.items()
    }
    order, rows = sorted(table, key=lambda name: means[name], reverse=True), []
    for name in order:
        told = ["", "", ""]
        if gain := record["gains"].get(name):
            told = [
                signed(gain["gain"]),
                f"{signed(gain['low'])} … {signed(gain['high'])}",
                f"{gain['p']:.3g}",
            ]
        scores = [f"{100 * table[name][task]:.2f}" for task in tasks]
        rows.append(
            [
                ("→ " if name == record["choice"] else "") + name,
                f"{100 * means[name]:.2f}",
                *told,
                *scores,
            ]
        )
    columns = [[table[name][task] for name in order] for task in tasks]
    marks = best_marks([[means[name] for name in order]], [False])
    marks |= best_marks(columns, [False] * len(columns), first=5)
    notes = ["→ marks the choice. " + RULE, *record["judged_by"]]
    return Table(
        title, ["candidate", "mean", "gain", "95 %", "p", *tasks], rows, marks, notes=notes
    )


def choice_page(record: Mapping[str, Any]) -> Page:
    """The page of a race: what to do, a bar and a row for every candidate, and how to switch."""
    verdict, found, tables = Verdict.from_record(record["verdict"]), record["searched"], []
    if found and found["shown"]["told"]:
        tables += [examples_table(found["shown"])]
    if record["table"]:
        tables += [candidates_table(record)]
    reasons = dict[str, list[str]]()  # why candidates were left out -> their names
    for name, why in record["left_out"].items():
        reasons.setdefault(why, []).append(name)
    rows = [[why, "; ".join(names)] for why, names in reasons.items()]
    return Page(
        title=f"Improve: {record['model']}",
        lead=[*advised(record), *_lead(record), *teachers_line(record)],
        verdict=verdict,
        tables=tables,
        figures=choice_figures(record),
        details=[Table("Left out", ["reason", "candidates"], rows, words=2)] if rows else [],
        switch=Switch.from_record(record) if verdict.word == "better" else None,
    )


def choice_figures(record: Mapping[str, Any]) -> list[PageFigure]:
    """A bar for every candidate, and a map of the texts before and after; what there is nothing of
    is left out.
    """
    gains = sorted(record["gains"].items(), key=lambda found: found[1]["gain"], reverse=True)
    bars = {name: (found["gain"], found["low"], found["high"]) for name, found in gains}
    caption = "Change against your model in points; the line is the 95 % interval."
    if record["choice"] in bars:
        caption += " Blue is the choice."
    figures = [
        PageFigure(
            "gains", "Gain of every candidate", interval_bars(bars, record["choice"]), caption
        )
    ]
    mapped = (record["searched"] or {}).get("map")
    return [*(figures if bars else []), *([map_figure(mapped)] if mapped else [])]


def what_to_do(record: Mapping[str, Any]) -> str:
    """The sentence for a reader who reads only one: keep yours, or use the new model, why, and at
    what cost.
    """
    verdict, found = Verdict.from_record(record["verdict"]), record["searched"]
    if verdict.scores is None:
        return "Keep your model: nothing could be tested."
    if verdict.word != "better":
        return "Keep your model: no candidate was found to be better."
    old, new = found["first"] if found else (0.0, 0.0)
    if new - old >= SMALL:
        before, after = (f"{100 * share:.0f}" for share in (old, new))
        why = f"in {after} of 100 searches among your documents the right text comes first, before in {before}"
    else:
        before, after = (f"{100 * score:.1f}" for score in verdict.scores)
        why = f"it scores {after} of 100, before {before}, judged by {verdict.judge}"
    cost = "For the switch, all documents are encoded again."
    if for_queries(record["made"][record["choice"]]):
        cost = "Your documents keep their vectors, so nothing is encoded again; searches need encode_query."
    elif (verdict.difference or 0.0) < SMALL:
        cost = "The gain is small, and the switch means that all documents are encoded again."
    return f"Use the new model: {why}. {cost}"


def advised(record: Mapping[str, Any]) -> list[str]:
    """What to do, the best first: use another model or keep it, and add BM25 to the search if that
    is above chance.
    """
    found, model = record["hybrid"], what_to_do(record)
    if not found or found["low"] <= 0:
        return [model]
    gain = f"{signed(found['gain'])} points, {signed(found['low'])} … {signed(found['high'])}"
    command = f"isotrope search INDEX --hybrid {HYBRIDS[found['name']]}"
    if found["gain"] <= record["gains"].get(record["choice"], {"gain": 0.0})["gain"]:
        return [
            model,
            f"A search by words (BM25) beside yours would help your old model too: {command} ({gain}).",
        ]
    first = (
        f"First add a search by words (BM25) to yours, because that gains most: {command} ({gain})."
    )
    if Verdict.from_record(record["verdict"]).word == "better":
        model = f"Then u{model[1:]} Whether both gains add up was not measured."
    return [f"{first} It changes no vectors.", model]


def teachers_line(record: Mapping[str, Any]) -> list[str]:
    """Who taught rankings, and which of the named models did not because they find less."""
    used, others = record.get("taught_by", []), record.get("teachers", {})
    told = [
        f"{name} ({100 * others[name]:.1f} on the tasks)" if name in others else name
        for name in used
    ]
    lines = (
        [f"{record['model']} learned rankings from itself with {' and '.join(told)}."]
        if told
        else []
    )
    return lines + [
        f"{name} did not teach, because it scores {100 * score:.1f} on the tasks, not more than your model."
        for name, score in others.items()
        if name not in used
    ]


def choice_card(race: Race, record: Mapping[str, Any], model: SentenceTransformer) -> Card:
    """The card of the chosen candidate: that of the model or training that it comes from, and how
    it was chosen.
    """
    trial, step = race.made.get(record["choice"], (Trial(AS_IS), ""))
    start, ranked = race.makers[trial.start], trial.recipe == RANKINGS
    card = Card.of(start.trained(trial) if trial.recipe and not ranked else start.model)
    if record["choice"] != AS_IS:
        settings = [
            ("pooling", trial.pooling or "the model's own"),
            ("training", f"{2 * trial.pairs:,} queries" if ranked else ""),
            ("read by the trained encoder", "queries only" if ranked else ""),
            ("share of the trained weights", f"{trial.share:g}" if trial.recipe else ""),
            ("post step", step or "none"),
        ]
        documents = start.documents.documents()
        done = Step(
            action="Chosen by",
            method="isotrope improve",
            data=Data.of(start.documents.paths, len(documents), start.trained_on, documents.key),
            settings=[(key, value, "chosen in a race") for key, value in settings if value],
            cites=cites_of(QUERY_MAP if ranked else step),
            limits=["It was chosen for the documents above. It may fit other text less well."],
        )
        card = card.then(done, model)
    if not record["table"]:
        return card
    table = candidates_table(record)
    measured = "Each task has MRR@10 × 100 if no note says otherwise. Your own has nDCG@10 × 100."
    evidence = replace(table, notes=[measured, *table.notes, *_lead(record)[1:]])
    return card.judged(Verdict.from_record(record["verdict"]), evidence)


def _lead(record: Mapping[str, Any]) -> list[str]:
    within = f" within {record['minutes']:g} minutes" if record["minutes"] else ""
    asked = f"is another model better than {record['model']} for these {record['documents']:,} documents{within}?"
    compared, minutes = _counted(record["gains"]), record["seconds"] / 60
    lead = [f"Asked: {asked} Done: {compared} compared with it in {minutes:.1f} minutes."]
    if not record["finished"]:
        lead.append("The race was stopped before its end. This is the best so far.")
    if record["left_out"]:
        lead.append(f"{_counted(record['left_out'])} left out.")
    return [*lead, *general_lines(record)]


def _counted(candidates: Collection[str]) -> str:
    return "1 candidate was" if len(candidates) == 1 else f"{len(candidates)} candidates were"


def general_lines(record: Mapping[str, Any]) -> list[str]:
    """What the choice changes on general English, in a line; nothing if the model is kept."""
    if not (found := record["similarity"]):
        return []
    changes = []
    for task, of in found["per_task"].items():
        word = WORDS.get(of["verdict"], of["verdict"])
        changes.append(
            f"{PAIRS.get(task, task)} {100 * of['before']:.1f} → {100 * of['after']:.1f} ({word})"
        )
    return [
        f"General English, Spearman × 100: {'; '.join(changes)}. These pairs had no part in the choice."
    ]
