"""Would lists that several searches agree on judge better than the document that a query was taken
from?

    python benchmarks/judges.py WORK                       # after benchmarks/choice.py with the same WORK

Three judges replay each race of benchmarks/choice.py, and labels that none of them sees judge their
choices. "source" is what `improve` uses: a pseudo-query shall find its own document. "fused" grades
ten documents, by reciprocal rank fusion (Cormack et al., SIGIR 2009) of BM25, the teachers and the
other trainings of the race. A candidate and "keep" have no vote on each other, nor has the encoder
that the candidate was made from, because siblings agree. "hybrid" grades the ten that the model and
BM25 find together, if that search gains significantly; else it is "source". "half" is the mean of
source and fused, and "half hybrid" that of source and hybrid. nDCG@10 is measured against the ten.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy.sparse import csr_array
from scipy.stats import kendalltau

from choice import CLASSES, MODELS, RESULTS, RETRIEVAL, SEED
from isotrope.encoder import load
from isotrope.evaluation.embed import Known, known_by
from isotrope.evaluation.retrieval import OwnTask, Search, by_cosine, search_with
from isotrope.evaluation.self_made import SelfMadeTask
from isotrope.improvement.budget import Budget
from isotrope.improvement.candidates import Maker, Trial, recipes
from isotrope.improvement.decide import AS_IS, choose_candidate, judging
from isotrope.improvement.judges import judges_of
from isotrope.improvement.race import Race
from isotrope.improvement.steps import JUDGED_LENGTH, Basis, texts_read
from isotrope.improvement.teachers import HYBRIDS
from isotrope.store.atomic import write_json
from isotrope.text import read_text
from isotrope.text.bm25 import Bm25Index
from isotrope.types import Matrix, Vector

JUDGES = ("source", "fused", "half", "hybrid", "half hybrid")
ANSWERS = 250  # of a task: more take long
GRADED, DAMPING = 10, 60  # documents of a fused list, and the constant of reciprocal rank fusion


def fused(searches: Sequence[Search]) -> csr_array:
    """The ten documents that several searches agree on, graded from 10 to 1: (Q, A)."""
    found = [search(slice(None)) for search in searches]  # (Q, A) each
    places = [np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) for scores in found]
    return graded(np.sum([1 / (DAMPING + 1 + place) for place in places], axis=0))


def graded(votes: Matrix) -> csr_array:
    """The ten best of each row, graded from 10 to 1: (Q, A)."""
    best = np.argsort(-votes, axis=1, kind="stable")[:, :GRADED]  # (Q, 10)
    grades = np.zeros(votes.shape)
    np.put_along_axis(
        grades, best, np.arange(GRADED, GRADED - best.shape[1], -1, dtype=float)[None], axis=1
    )
    return csr_array(grades)


def of_answers(task: SelfMadeTask, values: Vector) -> Vector:
    """The mean over the queries of each answer: (A,)."""
    return np.asarray(np.bincount(task.answers, values) / np.bincount(task.answers))


def agreement(task: SelfMadeTask, reference: csr_array, search: Search) -> Vector:
    """nDCG@10 against a fused list: (A,)."""
    return of_answers(task, OwnTask(replace(task.domain, grades=reference)).score_search(search))


def reading(tasks: Sequence[SelfMadeTask], known: Known) -> dict[str, Search]:
    """Task -> the search of a model that has read it."""
    return {
        task.name: by_cosine(
            known.encode_query(task.queries), known.encode_document(task.candidates)
        )
        for task in tasks
    }


def replayed(cell: dict[str, Any], work: Path) -> dict[str, Any]:
    """What each judge would have chosen in the race of a cell, and what labels say of that."""
    model, _, _, _, teachers = MODELS[cell["model"]]
    folder = work / "improved"
    record = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    opened = read_text(work / "documents.jsonl")
    found = opened.documents()
    trained, held = found.split(record["held_out"], SEED)
    judges = judges_of(list(found.each(held)), None, SEED)
    tried = {one.name: one for one in recipes(False, judges.titled, judges.short, judges.searched)}
    maker = Maker(model, opened, record["held_out"], len(trained), SEED, folder, tried)
    tasks = [task.part(ANSWERS) for task in judges.tasks if isinstance(task, SelfMadeTask)]
    tasks = [task for task in tasks if task.name in judging(task.name for task in tasks)]
    race = Race(maker, [], Basis.of(found, trained, SEED), Budget(folder, 0), Console(quiet=True))
    searches: dict[str, dict[str, Search]] = {}  # candidate -> task -> its search
    trials: dict[str, Trial] = {}
    texts = texts_read(tasks, race.basis, ())
    for name, made in record["made"].items():
        step = made.pop("step")
        trials[name] = Trial(**made)
        race.made[name] = trials[name], step
    for name in dict.fromkeys(trial.name for trial in trials.values()):
        known = known_by(race.model(name), *texts, JUDGED_LENGTH)
        for candidate in (one for one, trial in trials.items() if trial.name == name):
            trial, step = race.made[candidate]
            after = race.kept.step(trial, candidate).searching(known) if step else known
            searches[candidate] = reading(tasks, after)
    bm25 = {task.name: Bm25Index.of(task.candidates).search(task.queries) for task in tasks}
    others = [
        reading(tasks, known_by(load(teacher), *texts, JUDGED_LENGTH)) for teacher in teachers
    ]
    others.append(bm25)

    def voters(candidate: str) -> Iterator[dict[str, Search]]:
        yield from others
        for name, trial in trials.items():
            if name == trial.name and trial.recipe not in ("", trials[candidate].recipe):
                yield searches[name]

    changes: dict[str, dict[str, dict[str, Vector]]] = {judge: {AS_IS: {}} for judge in JUDGES}
    for task in tasks:
        for judge in JUDGES:
            changes[judge][AS_IS][task.name] = np.zeros(task.size)
        before = task.score_search(searches[AS_IS][task.name])
        share = (
            HYBRIDS[record["hybrid"]["name"]]
            if record["hybrid"] and record["hybrid"]["low"] > 0
            else 0.0
        )
        hybrid_search = search_with(
            [searches[AS_IS][task.name], bm25[task.name]], [1 - share, share]
        )
        together = graded(hybrid_search(slice(None)).astype(np.float64))
        for name in trials:
            if name == AS_IS:
                continue
            reference = fused([voter[task.name] for voter in voters(name)])
            own, kept = (
                agreement(task, reference, searches[one][task.name]) for one in (name, AS_IS)
            )
            source = task.score_search(searches[name][task.name]) - before
            hybrid = source
            if share:
                nearer, before_it = (
                    agreement(task, together, searches[one][task.name]) for one in (name, AS_IS)
                )
                hybrid = nearer - before_it
            found_by = (
                source,
                own - kept,
                (source + own - kept) / 2,
                hybrid,
                (source + hybrid) / 2,
            )
            for judge, change in zip(JUDGES, found_by, strict=True):
                changes[judge].setdefault(name, {})[task.name] = change
    alike = {name: maker.alike(trial) for name, trial in trials.items()}
    documents = {task.name: task.of for task in tasks}
    labels = {name: of["labels"] for name, of in cell["candidates"].items()}
    best = cell["policies"]["the best by labels"]
    told = {}
    for judge, scores in changes.items():
        choice, gains = choose_candidate(scores, alike, documents, seed=SEED)
        names = [name for name in gains if name in labels]
        order = kendalltau(
            [gains[name].gain for name in names], [labels[name] for name in names]
        ).statistic
        told[judge] = {
            "choice": choice,
            "gain": labels[choice] - labels[AS_IS],
            "regret": max(labels.values()) - labels[choice],
            "order": float(order),
            "wrong_keep": choice == AS_IS and best["low"] > 0,
        }
    return {
        "model": cell["model"],
        "collection": cell["collection"],
        "candidates": len(trials),
        "judges": told,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="the folder that benchmarks/choice.py had")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder with its records")
    args = parser.parse_args()
    target = args.results / "judges" / "judges.json"
    target.parent.mkdir(exist_ok=True)
    done = json.loads(target.read_text(encoding="utf-8")) if target.is_file() else {}
    for model in MODELS:
        for name in (*RETRIEVAL, *CLASSES):
            place = f"{model}-{name.lower()}"
            if place in done or not (
                (args.results / f"{place}.json").is_file() and (args.work / place).is_dir()
            ):
                continue
            done[place] = replayed(
                json.loads((args.results / f"{place}.json").read_text()), args.work / place
            )
            print(
                place,
                {
                    judge: (of["choice"], f"{100 * of['gain']:+.2f}")
                    for judge, of in done[place]["judges"].items()
                },
            )
            write_json(target, done)


if __name__ == "__main__":
    main()
