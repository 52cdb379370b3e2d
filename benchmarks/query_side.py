"""How much of a teacher's search does a small encoder of queries keep, if the documents stay as they are?

    python benchmarks/query_side.py WORK --data DATA      # docs/results/compress/query_side.json

all-MiniLM-L6-v2 is the teacher. Its query encoders learn from titles, headings, spans and sentences of Wikipedia's
articles; no collection below is among them. nDCG@10, at most 128 tokens of a text. A run that was stopped goes on.
"""

import argparse
import lzma
import re
from dataclasses import asdict
from itertools import islice
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
from isotrope.store.atomic import write_json, write_text
from isotrope.training.processes import environment

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "compress" / "query_side.json"
TEACHER, LENGTH, ARTICLES = "isotrope/minilm", 128, 1500
STUDENTS = ("isotrope/small", "layers:2", "static")
COLLECTIONS = ("SciFact", "CACM", "NPL")
OVERRIDES = ("train.max_length=64",)


def articles(data: Path, file: Path) -> Path:
    """Some of Wikipedia's articles as a .jsonl file."""
    with lzma.open(data / "wiki" / "articles_00.jsonl.xz", "rt", encoding="utf-8") as lines:
        write_text(file, "".join(islice(lines, ARTICLES)))
    return file


def before(student: str) -> SentenceTransformer:
    """The student before training; isotrope/small follows the teacher already."""
    if "/" in student:
        return isotrope.load(student)
    return student_of(isotrope.load(TEACHER), query_student(student))


def main() -> None:
    """Train both, and judge them before and after."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path, help="a folder for the runs")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    documents, models, costs = articles(given.data, given.work / "articles.jsonl"), {}, {}
    for name in STUDENTS:
        models[f"{name}, before"] = before(name)
        run = isotrope.compress(
            TEACHER, documents, student=name, side="query", output=given.work / re.sub("[:/]", "-", name),
            labels="none", overrides=OVERRIDES,
        )  # fmt: skip
        models[name], costs[name] = one_route(isotrope.load(run.folder / "model"), "query"), run.record["compression"]
    found: dict[str, Any] = {}
    for collection in COLLECTIONS:
        domain = load_domain(given.data, collection, "test")
        whole = known_by(isotrope.load(TEACHER), domain.queries, domain.corpus, LENGTH)
        of = {"teacher": OwnTask(domain).score(whole)}
        for name, model in models.items():
            asked = known_by(model, domain.queries, domain.queries, LENGTH)
            of[name] = OwnTask(domain).score(Known(whole.texts, whole.vectors, asked.queries or asked))
        found[collection] = {name: asdict(compare_means(of["teacher"], cases)) for name, cases in of.items()}
    means = {
        name: sum(each[name]["after"] for each in found.values()) / len(found) for name in found[COLLECTIONS[0]]
    }  # fmt: skip
    write_json(
        RESULT,
        {
            "articles": ARTICLES, "length": LENGTH, "overrides": OVERRIDES, "ndcg@10": found, "mean": means,
            "kept": {name: mean / means["teacher"] for name, mean in means.items()},
            "compress": {name: {"kept": of["kept"], "cost": of["cost"]} for name, of in costs.items()},
            "environment": environment(),
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
