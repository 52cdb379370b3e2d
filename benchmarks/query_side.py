"""How much of a teacher's search does a small encoder of queries keep, if the documents stay as they are?

    python benchmarks/query_side.py WORK --data DATA      # docs/results/compress/query_side.json

all-MiniLM-L6-v2 is the teacher. Its query encoders learn from titles, headings, spans and sentences of a collection's
own documents, as users would do it: they see no query and no judgement. isotrope/small has two layers, and follows the
same teacher already. nDCG@10, at most 128 tokens of a text. A run that was stopped goes on.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

import isotrope
from isotrope.compression.query_side import query_student
from isotrope.encoder.routes import one_route
from isotrope.encoder.student import student_of
from isotrope.evaluation.embed import Known, known_by
from isotrope.evaluation.retrieval import OwnTask
from isotrope.evaluation.sets.domains import load_domain
from isotrope.evaluation.significance import compare_means
from isotrope.store.atomic import write_json
from isotrope.training.processes import environment

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "compress" / "query_side.json"
TEACHER, LENGTH = "isotrope/minilm", 128
STUDENTS = ("static", "isotrope/small")
COLLECTIONS = ("CACM", "SciFact", "NPL")
OVERRIDES = ("train.max_length=64",)
ROUNDS, TEXTS = 8, 42_000  # texts of a document, of a collection at most: as many as a core reads in half an hour


def before(student: str) -> SentenceTransformer:
    """The student before training; isotrope/small follows the teacher already."""
    return isotrope.load(student) if "/" in student else student_of(isotrope.load(TEACHER), query_student(student))


def judged(work: Path, data: Path, collection: str) -> dict[str, Any]:
    """Each model's nDCG@10 beside the teacher's, and what each student costs."""
    domain, cases, costs = load_domain(data, collection, "test"), {}, {}
    rounds = min(ROUNDS, TEXTS // len(domain.corpus))
    whole = known_by(isotrope.load(TEACHER), domain.queries, domain.corpus, LENGTH)
    cases["teacher"] = OwnTask(domain).score(whole)
    for name in STUDENTS:
        run = isotrope.compress(
            TEACHER, domain.corpus, student=name, side="query", labels="none",
            overrides=(*OVERRIDES, *([f"pairs.rounds={rounds}"] if rounds < ROUNDS else [])),
            output=work / f"{collection}-{name.replace('/', '-')}",
        )  # fmt: skip
        costs[name] = {key: run.record["compression"][key] for key in ("kept", "cost")}
        after = one_route(isotrope.load(run.folder / "model"), "query")
        for told, model in ((f"{name}, before", before(name)), (name, after)):
            asked = known_by(model, domain.queries, domain.queries, LENGTH)
            cases[told] = OwnTask(domain).score(Known(whole.texts, whole.vectors, asked.queries or asked))
    scores = {name: asdict(compare_means(cases["teacher"], own)) for name, own in cases.items()}
    return {"ndcg@10": scores, "rounds": rounds, "compress": costs}


def main() -> None:
    """Train and judge on each collection; one that is done is not run again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder for the runs")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    found = {collection: judged(given.work, given.data, collection) for collection in COLLECTIONS}
    names = found[COLLECTIONS[0]]["ndcg@10"]
    means = {name: sum(of["ndcg@10"][name]["after"] for of in found.values()) / len(found) for name in names}
    write_json(
        RESULT,
        {
            "length": LENGTH, "overrides": OVERRIDES, "collections": found, "mean": means,
            "kept": {name: mean / means["teacher"] for name, mean in means.items()}, "environment": environment(),
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
