"""Does `isotrope improve --or` find the best of three models? Its judge without labels, against
labels.

    # all collections; one that is done is not run again
    python -m benchmarks.search.starts WORK --data DATA

The models are isotrope/small, which is the given one, isotrope/tiny and isotrope/minilm, each as it
is: no post step and no training. `improve` gets the documents of `benchmarks/search/choice.py`, without a
query or a label. Labels judge the models then: nDCG@10 of at most 300 queries, all texts cut at 128
tokens.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.paths import RESULTS
from benchmarks.search.choice import CLASSES, RETRIEVAL, SEED, collection, part_of, write_documents
from isotrope.encoder import load
from isotrope.evaluation.significance import compare_means
from isotrope.improvement.candidates import Candidate
from isotrope.improvement.choose import Traits, choose_candidate
from isotrope.improvement.measure import measure_candidate
from isotrope.improvement.scores import KEEP, CandidateTable, TaskScores
from isotrope.improvement.split import most_held_out, split_documents
from isotrope.improvement.steps import FittingSet
from isotrope.improvement.tasks import TaskSet, tasks_from_documents
from isotrope.store.files import write_json
from isotrope.text import read_text
from isotrope.text.pseudo_queries import PseudoQueries
from isotrope.training.processes import environment

TARGET = RESULTS / "starts"
GIVEN, OTHERS = "isotrope/small", ("isotrope/tiny", "isotrope/minilm")


def cell(data: str, name: str, work: Path, console: Console) -> dict[str, Any]:
    """Measure three models on tasks from documents and then by labels."""
    domain, titles = part_of(*collection(data, name))
    work.mkdir(parents=True, exist_ok=True)
    write_documents(domain, titles, work / "documents.jsonl")
    documents = read_text(work / "documents.jsonl").documents()
    split = split_documents(documents, most_held_out(len(documents)), 0, SEED)
    tasks = tasks_from_documents(list(documents.each(split.choosing)), SEED)
    by_tasks = scores_of_all(tasks)
    by_labels = {
        name: scores[domain.name] for name, scores in scores_of_all(TaskSet([domain])).items()
    }

    table = CandidateTable(by_tasks, tasks.documents)
    choice = choose_candidate(table, {name: Traits() for name in by_tasks})
    gains = table.gains()
    console.print(f"{name}: {choice}")
    return {
        "collection": name,
        "choice": choice,
        "gain": asdict(gains[choice]) if choice != KEEP else None,
        "tasks": {
            model: {task: float(cases.mean()) for task, cases in scores.items()}
            for model, scores in by_tasks.items()
        },
        "labels": {model: float(cases.mean()) for model, cases in by_labels.items()},
        "against the given": {
            model: asdict(compare_means(by_labels[KEEP], by_labels[model])) for model in OTHERS
        },
        "environment": environment(),
    }


def scores_of_all(task_set: TaskSet) -> dict[str, TaskScores]:
    """The scores of the given model, "keep", and of the others."""
    scores: dict[str, TaskScores] = {}
    nothing = FittingSet([], PseudoQueries(), SEED, np.arange(0))
    for name, model in {KEEP: GIVEN, **{other: other for other in OTHERS}}.items():
        candidate = Candidate(name=name, steps=())
        measured = measure_candidate(load(model), candidate, task_set, nothing, {})
        scores[name] = measured.scores[name]
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder for the measurements")
    parser.add_argument("--data", required=True)
    args = parser.parse_args()
    console = Console()
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in (*RETRIEVAL, *CLASSES):
        target = TARGET / f"{name.lower()}.json"
        if not target.is_file():
            console.rule(name)
            write_json(target, cell(args.data, name, args.work / name.lower(), console))


if __name__ == "__main__":
    main()
