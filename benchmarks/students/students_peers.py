"""Static students by model2vec and tokenlearn, for benchmarks/students/students.py, which writes the text
and the teacher.

    # needs only: pip install tokenlearn "model2vec[distill]", in a venv
    python -m benchmarks.students.students_peers WORK

model2vec's has its own defaults. tokenlearn's is featurized, distilled and trained by its own
functions, as its commands do it; the text comes from a list, not from a hub. Minutes are the
processor's.
"""

import argparse
import json
import shutil
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch
from model2vec.distill import distill
from sentence_transformers import SentenceTransformer
from tokenlearn.featurize import featurize
from tokenlearn.train import train_model
from tokenlearn.utils import collect_means_and_texts

WIDTH = 256
# texts: sentence-transformers sorts so many by length, so that it reads little padding
AT_ONCE = 1024


def main() -> None:
    """Make both, and write their minutes and versions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="the folder of benchmarks/students/students.py")
    work = parser.parse_args().work
    torch.set_num_threads(1)
    texts = json.loads((work / "texts.json").read_text(encoding="utf-8"))["train"]
    teacher, features = str(work / "teacher"), work / "features"
    shutil.rmtree(features, ignore_errors=True)  # it would go on from there

    def read() -> None:
        model = SentenceTransformer(teacher, device="cpu")
        featurize(
            iter([{"text": text} for text in texts]),
            model,
            str(features),
            len(texts),
            AT_ONCE,
            "text",
        )

    def learn() -> None:
        found, means = collect_means_and_texts(sorted(features.glob("*.json")))
        start = distill(teacher, pca_dims=WIDTH, quantize_to="float32")
        train_model(start, found, means, pca_dims=WIDTH).save_pretrained(work / "tokenlearn")

    took = {
        "tokenlearn's pass": minutes(read),
        "tokenlearn": minutes(learn),
        "model2vec": minutes(
            lambda: distill(teacher, pca_dims=WIDTH).save_pretrained(work / "model2vec")
        ),
    }
    versions = {
        name: version(name)
        for name in ("model2vec", "tokenlearn", "sentence-transformers", "torch")
    }
    (work / "peers.json").write_text(
        json.dumps({"minutes": took, "versions": versions}), encoding="utf-8"
    )


def minutes(make: Callable[[], object]) -> float:
    """Of the processor."""
    began = time.process_time()
    make()
    return (time.process_time() - began) / 60


if __name__ == "__main__":
    main()
