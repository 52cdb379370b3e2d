"""How much of its search does a teacher's student keep, if it has read one domain's documents and
nothing else?

    # docs/results/compress/scifact.json
    python -m benchmarks.students.domain_student WORK --data DATA

all-MiniLM-L6-v2 is compressed on SciFact's abstracts: no query, no label. Then `isotrope improve`
trains the student on the same abstracts. Labels judge each model: nDCG@10 of the 300 test queries,
all texts cut at 128 tokens. A run that was stopped goes on.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import isotrope
from benchmarks.paths import RESULTS
from benchmarks.search.choice import collection, write_documents
from isotrope.encoder.length import limit_length
from isotrope.encoder.student import student_of
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import compare_means
from isotrope.report.outcome import Outcome
from isotrope.store.files import write_json
from isotrope.training.processes import environment
from isotrope.types import Encoder, Vector

RESULT = RESULTS / "compress" / "scifact.json"
TEACHER, STUDENT, LENGTH, MINUTES = "isotrope/minilm", "layers:3", 128, 10.0
OVERRIDES = ("pairs.rounds=4", "train.precision=bf16", "teachers.teacher.precision=bf16")


def searched(encoder: Encoder, task: RetrievalSet) -> Vector:
    """nDCG@10 of each query."""
    with limit_length(encoder, LENGTH):
        return task.score(encoder)


def trained_student(work: Path, documents: Path) -> Outcome:
    """The student that reads these documents only."""
    return isotrope.compress(
        TEACHER,
        documents,
        student=STUDENT,
        output=work / "student",
        preset="distil-documents",
        overrides=OVERRIDES,
        dev="none",
    )


def main() -> None:
    """Compress, improve, and judge all four models."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a folder for the runs")
    parser.add_argument("--data", required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    documents = given.work / "documents.jsonl"
    task, titles = collection(given.data, "SciFact")
    if not documents.is_file():
        write_documents(task, titles, documents)
    student = trained_student(given.work, documents)
    better = isotrope.improve(
        student.folder / "model", documents, output=given.work / "better", minutes=MINUTES
    )
    models: dict[str, Encoder] = {
        "teacher": isotrope.load(TEACHER),
        "student before training": student_of(isotrope.load(TEACHER), STUDENT),
        "student": isotrope.load(student.folder / "model"),
        "student, then improve": better.model,
    }
    ndcg = {name: searched(encoder, task) for name, encoder in models.items()}
    write_json(
        RESULT,
        {
            "collection": task.name,
            "queries": len(ndcg["teacher"]),
            "length": LENGTH,
            "student": STUDENT,
            "overrides": OVERRIDES,
            "minutes": MINUTES,
            "choice": better.choice,
            "ndcg@10": {name: float(cases.mean()) for name, cases in ndcg.items()},
            "to the teacher": {
                name: asdict(compare_means(ndcg["teacher"], cases)) for name, cases in ndcg.items()
            },
            "by improve": asdict(compare_means(ndcg["student"], ndcg["student, then improve"])),
            "cost": student.record["compression"]["cost"],
            "environment": environment(),
        },
    )


if __name__ == "__main__":
    main()
