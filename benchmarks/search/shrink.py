"""Whitening fitted on few texts: does a shrunk covariance (Ledoit and Wolf) help? Judged by labels.

    python -m benchmarks.search.shrink --data DATA

nDCG@10 on three collections, cut down to 2,500 documents and 300 queries, texts of 128 tokens at
most. The step is fitted on 500, 1,000, 2,000 or all of the documents, with the plain covariance and
with the shrunk one.
"""

import argparse
from typing import Any

import numpy as np

import isotrope
from benchmarks.paths import RESULTS
from benchmarks.search.choice import collection, part_of
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.length import limit_length
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embeddings
from isotrope.improvement.tasks import JUDGED_LENGTH
from isotrope.post.whitening import whitening
from isotrope.store.files import write_json
from isotrope.training.processes import environment

TARGET = RESULTS / "whiten" / "shrink.json"
MODELS, COLLECTIONS = ("isotrope/minilm", "isotrope/tiny@first_last"), ("CACM", "NPL", "Banking77")
FITTED_ON, EXPONENTS = (500, 1000, 2000, 2500), (0.125, 0.25, 0.5)


def measured(model: str, name: str, data: str) -> dict[str, Any]:
    """What labels say of each exponent, number of texts and covariance."""
    task = part_of(*collection(data, name))[0]
    place, _, pooling = model.partition("@")
    encoder = isotrope.load(place, pooling=pooling or None)
    texts = task.texts
    with limit_length(encoder, JUDGED_LENGTH):
        known = Embeddings(texts, vectors_of(encoder, texts, batch_size=32))
    corpus = list(task.corpus)
    order = np.random.default_rng(0).permutation(len(corpus))
    vectors = np.asarray(known.encode([corpus[row] for row in order]), dtype=np.float64)
    rows = []
    for count in FITTED_ON:
        for exponent in EXPONENTS:
            for shrink in (False, True):
                try:
                    mean, matrix = whitening(vectors[:count], exponent=exponent, shrink=shrink)
                except UserError:  # too few texts for the dimensions
                    continue
                score = task.score(Embeddings(texts, (known.vectors - mean) @ matrix)).mean()
                rows.append(
                    {"texts": count, "exponent": exponent, "shrink": shrink, "score": float(score)}
                )
    return {
        "model": model,
        "collection": name,
        "as it is": float(task.score(known).mean()),
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True)
    data = parser.parse_args().data
    found = [measured(model, name, data) for model in MODELS for name in COLLECTIONS]
    write_json(TARGET, {"measured": found, "environment": environment()})
    for of in found:
        print(of["model"], of["collection"], f"as it is {100 * of['as it is']:.2f}")
        for row in of["rows"]:
            print(
                row["texts"],
                row["exponent"],
                "shrunk" if row["shrink"] else "plain",
                f"{100 * row['score']:.2f}",
            )


if __name__ == "__main__":
    main()
