"""What whitening does to two models, on labelled data and on the tasks that are made from the text
alone.

    # docs/results/whiten/result.json
    python -m benchmarks.search.whiten --data DATA --corpus wiki_train_00.txt.xz

Models: isotrope/tiny (raw; embeddings + last layer) and isotrope/minilm (all-MiniLM-L6-v2, trained
on labelled pairs). Text: Wikipedia sentences, judged by STS-B test (Spearman); the documents of
SciFact, CACM and NPL, judged by their queries (nDCG@10). A collection has 2,500 documents here: all
that are relevant to a query, and others at random. So its scores are higher than those of the whole
collection. Documents are cut at 128 tokens. As `isotrope whiten` does, some texts (500) are held
out. Whitening is fitted on the others, and the tasks are made from the held-out texts.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from benchmarks.paths import RESULTS
from isotrope import load
from isotrope.encoder.embed import vectors_of
from isotrope.evaluation.document_tasks import compare_on_documents, tasks_of_texts
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.retrieval import evaluate_retrieval
from isotrope.evaluation.sets.judged_folder import read_judged_folder
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import load_sts
from isotrope.evaluation.significance import Comparison, compare, compare_means
from isotrope.evaluation.sts import main_pairs, pair_similarities
from isotrope.post.whitening import whitening
from isotrope.text.cleaning import fold
from isotrope.text.files import find_sources
from isotrope.text.readers import rows
from isotrope.text.tables import Columns
from isotrope.types import Encoder

TARGET = RESULTS / "whiten" / "result.json"
MODELS = {"isotrope/minilm": None, "isotrope/tiny": "first_last"}
EXPONENTS = [0.0, 0.1, 0.25, 0.5]
MAX_LENGTH, SENTENCES, DOCUMENTS, HELD_OUT, BATCH = 128, 3000, 2500, 500, 32

Judge = Callable[[Encoder, Encoder], Comparison]


def sts_b(data: str) -> tuple[list[str], Judge]:
    sets = {"STSBenchmark": load_sts(data, "STSBenchmark", ("test",))}
    pairs = sets["STSBenchmark"]["test"]

    def judge(before: Encoder, after: Encoder) -> Comparison:
        old, new = (
            main_pairs(sets, pair_similarities(encoder, sets)) for encoder in (before, after)
        )
        return compare(old, new)

    return [*pairs.first, *pairs.second], judge


def part_of(domain: RetrievalSet) -> RetrievalSet:
    """The documents that are relevant to a query, and others at random."""
    asked = np.unique(domain.grades.nonzero()[1])
    others = np.setdiff1d(
        np.random.default_rng(0).permutation(len(domain.corpus)), asked, assume_unique=True
    )
    kept = np.sort(np.concatenate([asked, others])[:DOCUMENTS])
    return replace(
        domain, corpus=[domain.corpus[i] for i in kept], grades=csr_array(domain.grades[:, kept])
    )


def search(domain: RetrievalSet) -> tuple[list[str], Judge]:
    def judge(before: Encoder, after: Encoder) -> Comparison:
        old, new = (
            np.array(evaluate_retrieval(e, domain)["per_query"]["ndcg@10"]) for e in (before, after)
        )
        return compare_means(old, new)

    return [*domain.queries, *domain.corpus], judge


def measure(
    name: str, pooling: str | None, corpus: list[str], judged: tuple[list[str], Judge]
) -> list[dict[str, Any]]:
    """One model and one text -> a row for each exponent."""
    order = np.random.default_rng(0).permutation(len(corpus))
    mixed = [corpus[i] for i in order]
    held, rest = mixed[:HELD_OUT], mixed[HELD_OUT:]
    tasks = tasks_of_texts(held)
    texts = list(
        dict.fromkeys([*rest, *judged[0], *(text for task in tasks for text in task.texts)])
    )
    before = Embeddings(
        texts, vectors_of(load(name, pooling, max_length=MAX_LENGTH), texts, batch_size=BATCH)
    )
    fitted_on = np.asarray(before.encode(rest), dtype=np.float64)
    found = []
    for exponent in EXPONENTS:
        mean, matrix = whitening(fitted_on, exponent=exponent)
        after = Embeddings(texts, (before.vectors - mean) @ matrix)
        labelled, self_made = judged[1](before, after), compare_on_documents(before, after, tasks)
        numbers = {"exponent": exponent, "dimensions": list(matrix.shape), "fitted_on": len(rest)}
        found.append(
            {
                **numbers,
                "labelled": asdict(labelled),
                "self_made": asdict(self_made),
                "texts": tasks[0].size,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--corpus", required=True, help="a file with a sentence a line")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines = (
        fold(fields)[0]
        for source in find_sources([arguments.corpus])
        for _, fields in rows(source, Columns())
    )
    sentences = list(
        dict.fromkeys(
            line for line, _ in zip(lines, range(SENTENCES + HELD_OUT), strict=False) if line
        )
    )
    domains = [load_retrieval_set(arguments.data, "SciFact", "test")]
    domains += [
        read_judged_folder(Path(arguments.data) / "domain" / name) for name in ("cacm", "npl")
    ]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    result = []
    for name, pooling in MODELS.items():
        runs = [("STS-B", "Spearman", sentences, sts_b(arguments.data))]
        for domain in map(part_of, domains):
            runs.append(
                (domain.name, "nDCG@10", list(dict.fromkeys(domain.corpus)), search(domain))
            )
        for task, measured, corpus, judged in runs:
            for row in measure(name, pooling, corpus, judged):
                result.append(
                    {"model": name, "pooling": pooling, "task": task, "measure": measured, **row}
                )
                shown = [
                    f"{100 * row[key][side]:.1f}"
                    for key in ("labelled", "self_made")
                    for side in ("before", "after")
                ]
                print(name, task, row["exponent"], *shown, row["self_made"]["verdict"], flush=True)
            record = {
                "max_length": MAX_LENGTH,
                "documents": DOCUMENTS,
                "held_out": HELD_OUT,
                "rows": result,
            }
            TARGET.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
