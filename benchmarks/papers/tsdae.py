"""The preset `tsdae` beside sentence-transformers' DenoisingAutoEncoderLoss: same model, texts,
steps, and rate.

    # all-MiniLM-L6-v2, CACM, 350 steps, three seeds
    python -m benchmarks.papers.tsdae RUNS --data DATA
    python -m benchmarks.papers.tsdae RUNS --data DATA --steps 100 --seeds 1

Ours is trained by `isotrope.train`, and theirs by their own trainer, in batches of 8. (The
committed results of theirs are from an earlier isotrope, whose trainer took that loss.) nDCG@10 of
CACM's queries and Spearman's correlation on STS-B's dev pairs, before and after, and the seconds of
the training. A result is written when its run is done, and a stopped call goes on.
docs/results/tsdae.json holds them all.
"""

import argparse
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from sentence_transformers.sentence_transformer.losses import DenoisingAutoEncoderLoss

import isotrope
from benchmarks.paths import RESULTS
from benchmarks.theirs import denoising_columns, train_with_their_loss
from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.correlation import spearman
from isotrope.evaluation.retrieval import per_query
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.sets.senteval import load_sts
from isotrope.evaluation.sts import main_pairs, pair_similarities
from isotrope.preset.preset import read_preset
from isotrope.store.files import write_json
from isotrope.training.processes import environment

DOMAIN, BATCH, LENGTH = "CACM", 8, 64
RESULT = RESULTS / "tsdae.json"
METHODS = ("ours", "theirs")


def texts(data: str, folder: Path) -> Path:
    """The collection's distinct texts, one a line."""
    path = folder / f"{DOMAIN}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "\n".join(" ".join(text.split()) for text in load_retrieval_set(data, DOMAIN).corpus)
        + "\n",
        encoding="utf-8",
    )
    return path


def measure(model: Any, data: str) -> dict[str, float]:
    """nDCG@10 and Spearman's correlation."""
    domain, sets = (
        load_retrieval_set(data, DOMAIN, "test"),
        {"STSBenchmark": load_sts(data, "STSBenchmark", ["dev"])},
    )
    queries, corpus = search_vectors(model, domain.queries, domain.corpus)
    pairs = {task: {"test": parts["dev"]} for task, parts in sets.items()}
    gold, cosines = main_pairs(pairs, pair_similarities(model, pairs))["STSBenchmark"]
    ndcg = per_query(queries, corpus, domain)["ndcg@10"]
    return {"ndcg@10": round(float(ndcg.mean()), 4), "stsb-dev": round(spearman(gold, cosines), 4)}


def train_ours(corpus: Path, output: Path, seed: int, args: argparse.Namespace) -> Path:
    """The preset `tsdae`."""
    run = isotrope.train(
        corpus,
        output=output,
        preset="tsdae",
        model=args.model,
        max_texts=args.steps * BATCH,
        seed=seed,
        dev="none",
        labels="none",
        console=Console(),
        overrides=[
            f"encoder.pooling={args.pooling}",
            f"train.batch_size={BATCH}",
            f"train.max_length={LENGTH}",
        ],
    )
    return run.folder / "model"


def train_theirs(corpus: Path, output: Path, seed: int, args: argparse.Namespace) -> Path:
    """sentence-transformers' loss, on a sample of as many texts."""
    lines = corpus.read_text(encoding="utf-8").splitlines()
    sample = random.Random(seed).sample(lines, args.steps * BATCH)
    model = isotrope.load(args.model, args.pooling, max_length=LENGTH, packed=False)
    rate = read_preset("tsdae").train.learning_rate
    return train_with_their_loss(
        model,
        denoising_columns(sample, seed),
        DenoisingAutoEncoderLoss,
        output,
        batch_size=BATCH,
        learning_rate=rate,
        seed=seed,
    )


def main(args: argparse.Namespace) -> None:
    """Every method and seed that the record lacks."""
    whole = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
    kept = whole.setdefault(f"{args.model}, {args.pooling}, {args.steps} steps", {})
    path = texts(args.data, args.runs)
    if "before" not in kept:
        kept["before"] = measure(isotrope.load(args.model, args.pooling), args.data)
    for seed in range(args.seeds):
        for method in METHODS:
            name = f"{method}-{seed}"
            if name in kept:
                continue
            output = args.runs / f"{Path(args.model).name}-{args.pooling}-{args.steps}-{name}"
            train = train_ours if method == "ours" else train_theirs
            began = time.monotonic()
            model = train(path, output, seed, args)
            seconds = round(time.monotonic() - began, 1)
            kept[name] = measure(isotrope.load(model), args.data) | {"seconds": seconds}
            whole["environment"] = environment()
            write_json(RESULT, whole)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", type=Path, help="a folder for the runs")
    parser.add_argument("--data", default=os.environ.get("ISOTROPE_DATA", "."))
    parser.add_argument("--model", default="isotrope/minilm")
    parser.add_argument("--pooling", default="mean")
    parser.add_argument("--steps", type=int, default=350)
    parser.add_argument("--seeds", type=int, default=3)
    main(parser.parse_args())
