"""How much of a teacher's search does a small encoder of queries keep, if the documents stay as
they are?

    # docs/results/compress/query_side.json
    python -m benchmarks.students.query_side WORK --data DATA

all-MiniLM-L6-v2 is the teacher. A static encoder of queries learns from titles, headings, spans and
sentences of a collection's own documents, as users would do it: it sees no query and no judgement.
isotrope/small has two layers and is as it ships, because it follows the same teacher. nDCG@10, at
most 128 tokens of a text; it goes on after a stop.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import isotrope
from benchmarks.paths import RESULTS
from isotrope import load
from isotrope.compression.cost import measure_costs
from isotrope.compression.student import query_student
from isotrope.encoder.prompts import one_route
from isotrope.encoder.student import student_of
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.significance import compare_means
from isotrope.store.files import write_json
from isotrope.training.processes import environment

RESULT = RESULTS / "compress" / "query_side.json"
TEACHER, SMALL, LENGTH = "isotrope/minilm", "isotrope/small", 128
COLLECTIONS = ("CACM", "SciFact", "NPL")
OVERRIDES = ("train.max_length=64",)
# texts of a document, of a collection at most: as many as a core reads in half an hour
ROUNDS, TEXTS = 8, 42_000


def judged(work: Path, data: Path, collection: str) -> dict[str, Any]:
    """Each model's nDCG@10 beside the teacher's, and what each student costs."""
    domain = load_retrieval_set(data, collection, "test")
    rounds = min(ROUNDS, TEXTS // len(domain.corpus))
    run = isotrope.compress(
        TEACHER,
        domain.corpus,
        student="static",
        side="query",
        labels="none",
        output=work / collection,
        overrides=(*OVERRIDES, *([f"pairs.rounds={rounds}"] if rounds < ROUNDS else [])),
    )
    costs = {"static": run.record["compression"]["cost"]}
    both = load(TEACHER, frozen=True), load(SMALL, frozen=True)
    costs[SMALL] = asdict(measure_costs(*both, [TEACHER, SMALL], domain.queries))
    students = {
        SMALL: load(SMALL),
        "static, before": student_of(load(TEACHER), query_student("static")),
        "static": one_route(load(run.folder / "model"), "query"),
    }
    whole = embed_texts(load(TEACHER), domain.queries, domain.corpus, LENGTH)
    cases = {"teacher": domain.score(whole)}
    for name, model in students.items():
        asked = embed_texts(model, domain.queries, domain.queries, LENGTH)
        cases[name] = domain.score(Embeddings(whole.texts, whole.vectors, asked.queries or asked))
    scores = {name: asdict(compare_means(cases["teacher"], own)) for name, own in cases.items()}
    return {"ndcg@10": scores, "rounds": rounds, "cost": costs}


def main() -> None:
    """Train and judge on each collection; one that is done is not run again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder for the runs")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    found = {collection: judged(given.work, given.data, collection) for collection in COLLECTIONS}
    names = found[COLLECTIONS[0]]["ndcg@10"]
    means = {
        name: sum(of["ndcg@10"][name]["after"] for of in found.values()) / len(found)
        for name in names
    }
    write_json(
        RESULT,
        {
            "length": LENGTH,
            "overrides": OVERRIDES,
            "collections": found,
            "mean": means,
            "kept": {name: mean / means["teacher"] for name, mean in means.items()},
            "environment": environment(),
        },
    )


if __name__ == "__main__":
    main()
