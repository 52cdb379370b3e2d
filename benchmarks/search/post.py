"""Which step behind a model do tasks from documents prefer, and what do labels say?

    python -m benchmarks.search.post --data DATA     # docs/results/post/result.json

Models: isotrope/tiny (raw; embeddings + last layer) and isotrope/minilm (all-MiniLM-L6-v2, trained
on labelled pairs). A collection has 2,000 documents here: all that are relevant to a query, and
others at random. Texts are cut at 128 tokens. 500 documents are held out, and the tasks are made
from them. The steps are fitted on the others. One run each.
"""

import argparse
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from benchmarks.paths import RESULTS
from isotrope import load
from isotrope.encoder.embed import vectors_of
from isotrope.evaluation.document_tasks import make_document_tasks
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.public import load_retrieval_set, scifact_abstracts
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import compare, compare_means
from isotrope.post.fitted import LinearStep
from isotrope.post.whitening import Whitening, covariance_of
from isotrope.text.corpus import Document
from isotrope.types import Matrix


class Removal(LinearStep):
    """All-but-the-top: the ``k`` directions of largest variance are taken away.

    Mu and Viswanath, ICLR 2018, Algorithm 1, https://arxiv.org/abs/1702.01417, project x and not
    x − μ onto these directions, which adds the same vector to all results.
    """

    k: int = 1

    def linear(self, vectors: Matrix) -> tuple[Matrix, Matrix]:
        mean = vectors.mean(axis=0)
        _, directions = np.linalg.eigh(covariance_of(vectors - mean))  # by rising variance
        top = directions[:, -self.k :]  # (D, k)
        return mean, np.eye(vectors.shape[1]) - top @ top.T


TARGET = RESULTS / "post" / "result.json"
MODELS = {"isotrope/tiny": "first_last", "isotrope/minilm": None}
COLLECTIONS = {"CACM": "cacm", "NPL": "npl", "SciFact": "scifact"}
STEPS: dict[str, LinearStep] = {
    "centred": Whitening(exponent=0.0),
    **{f"whitened, {e}": Whitening(exponent=e) for e in (0.125, 0.25, 0.5)},
    **{f"{k} removed": Removal(k=k) for k in (1, 2, 3)},
}
MAX_LENGTH, DOCUMENTS, HELD_OUT, BATCH = 128, 2000, 500, 32


def documents_of(data: Path, name: str) -> list[Document]:
    """In the order of the domain's corpus."""
    folder = data / "domain" / COLLECTIONS[name]
    if name == "SciFact":
        return [
            Document(title, [" ".join(sentences)])
            for title, sentences in scifact_abstracts(folder).values()
        ]
    rows = map(json.loads, (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines())
    return [Document(row["title"] or "", [row["text"]] if row["text"] else []) for row in rows]


def part_of(domain: RetrievalSet, documents: list[Document]) -> tuple[RetrievalSet, list[Document]]:
    """The documents that are relevant to a query, and others at random; mixed."""
    asked = np.unique(domain.grades.nonzero()[1])
    others = np.setdiff1d(
        np.random.default_rng(0).permutation(len(domain.corpus)), asked, assume_unique=True
    )
    kept = np.random.default_rng(1).permutation(np.concatenate([asked, others])[:DOCUMENTS])
    chosen = replace(
        domain, corpus=[domain.corpus[i] for i in kept], grades=csr_array(domain.grades[:, kept])
    )
    return chosen, [documents[i] for i in kept]


def measure(
    model: str, pooling: str | None, domain: RetrievalSet, documents: list[Document]
) -> dict[str, Any]:
    """One model and one collection -> its scores, and what each step changes."""
    labelled, made = domain, make_document_tasks(documents[:HELD_OUT])
    rest = domain.corpus[HELD_OUT:]
    texts = list(
        dict.fromkeys([*labelled.texts, *(text for task in made.tasks for text in task.texts)])
    )
    known = Embeddings(
        texts, vectors_of(load(model, pooling, max_length=MAX_LENGTH), texts, batch_size=BATCH)
    )
    fitted_on = np.asarray(known.encode(rest), dtype=np.float64)
    before = labelled.score(known), {task.name: task.score(known) for task in made.tasks}
    steps = {}
    for name, step in STEPS.items():
        mean, matrix = step.linear(fitted_on)
        moved = Embeddings(texts, (known.vectors - mean) @ matrix)
        steps[name] = {
            "labelled": asdict(compare_means(before[0], labelled.score(moved))),
            "self_made": asdict(
                compare(before[1], {task.name: task.score(moved) for task in made.tasks})
            ),
        }
    return {"told": made.told, "queries": len(before[0]), "fitted_on": len(rest), "steps": steps}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, type=Path)
    data = parser.parse_args().data
    torch.set_num_threads(1)
    parts = {
        name: part_of(load_retrieval_set(data, name, "test"), documents_of(data, name))
        for name in COLLECTIONS
    }
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    rows = []
    for model, pooling in MODELS.items():
        for name, (domain, documents) in parts.items():
            began = time.monotonic()
            found = measure(model, pooling, domain, documents)
            rows.append({"model": model, "pooling": pooling, "collection": name, **found})
            for step, row in found["steps"].items():
                shown = [
                    f"{100 * row[by][side]:.1f}"
                    for by in ("labelled", "self_made")
                    for side in ("before", "after")
                ]
                print(
                    f"{model} {name} {time.monotonic() - began:.0f} s: {step}", *shown, flush=True
                )
            record = {
                "max_length": MAX_LENGTH,
                "documents": DOCUMENTS,
                "held_out": HELD_OUT,
                "rows": rows,
            }
            TARGET.write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )


if __name__ == "__main__":
    main()
