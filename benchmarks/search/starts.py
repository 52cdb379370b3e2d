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

from rich.console import Console

from benchmarks.paths import RESULTS
from benchmarks.search.choice import CLASSES, RETRIEVAL, SEED, collection, part_of, write_documents
from isotrope.evaluation.significance import compare_means
from isotrope.improvement.budget import Budget
from isotrope.improvement.candidates import Maker, Trial
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.judges import held_out_count, judges_of
from isotrope.improvement.race import Race
from isotrope.improvement.steps import Basis
from isotrope.store.files import write_json
from isotrope.text import read_text
from isotrope.training.processes import environment

TARGET = RESULTS / "starts"
GIVEN, OTHERS = "isotrope/small", ("isotrope/tiny", "isotrope/minilm")


def cell(data: str, name: str, work: Path, console: Console) -> dict[str, Any]:
    """Measure three models on tasks from documents and then by labels."""
    domain, titles = part_of(*collection(data, name))
    work.mkdir(parents=True, exist_ok=True)
    write_documents(domain, titles, work / "documents.jsonl")
    opened = read_text(work / "documents.jsonl")
    documents = opened.documents()
    held_out = held_out_count(documents, SEED)
    trained, held = documents.split(held_out, SEED)
    basis = Basis.of(documents, trained, SEED)
    tasks = judges_of(list(documents.each(held)), None, SEED).tasks
    found: dict[str, Race] = {}
    for kind, judges in (("tasks", tasks), ("labels", [domain])):
        makers = [
            Maker(model, opened, held_out, len(trained), SEED, work / kind)
            for model in (GIVEN, *OTHERS)
        ]
        (work / kind).mkdir(exist_ok=True)
        budget = Budget(work / kind, float("inf"))
        race = found[kind] = Race(
            makers[0], judges, basis, budget, console, dict(zip(OTHERS, makers[1:], strict=True))
        )
        for start in ("", *OTHERS):
            race.run(Trial(start or AS_IS, steps=(), start=start))
    choice, gains = found["tasks"].choose()
    labels = {
        model: scores for model, of in found["labels"].scores.items() for scores in of.values()
    }
    return {
        "collection": name,
        "choice": choice,
        "gain": asdict(gains[choice]) if choice != AS_IS else None,
        "tasks": {
            model: {task: float(scores.mean()) for task, scores in of.items()}
            for model, of in found["tasks"].scores.items()
        },
        "labels": {model: float(scores.mean()) for model, scores in labels.items()},
        "against the given": {
            model: asdict(compare_means(labels[AS_IS], labels[model])) for model in OTHERS
        },
        "environment": environment(),
    }


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
