"""`isotrope encode` beside sentence-transformers' `encode`, which sorts by length as well; prints JSON.

    python benchmarks/encode.py small wiki_train_00.txt.xz [--sentences 50000] [--repetitions 5] [--output FILE.json]

Each repetition embeds its share of the sentences: ``ours`` from a text file into a .npy file by `isotrope.encode`,
``plain`` from a list by a sentence-transformers model as its own library opens it, at its default batch of 32.
``difference`` is the largest between the two, of any number of any vector.
"""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.encoder.locate import locate
from isotrope.encoding.encode import encode
from timing import clock, interleave, lines, ratio, show

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def measure(shape: str, path: Path, sentences: int, repetitions: int) -> dict[str, Any]:
    """Both on the first lines of the text; the share of the warm-up comes first."""
    name = f"isotrope/{shape}"
    share = sentences // repetitions
    texts = lines(path, share * (repetitions + 1))
    ours, plain = load(name, device="cpu"), SentenceTransformer(locate(name), device="cpu")
    vectors: dict[str, Any] = {}

    with tempfile.TemporaryDirectory() as place:

        def bulk(repetition: int) -> float:
            file, output = Path(place) / "share.txt", Path(place) / f"{repetition}.npy"
            file.write_text("\n".join(texts[repetition * share : (repetition + 1) * share]) + "\n", encoding="utf-8")
            began = clock()
            encode(ours, file, output)
            seconds = clock() - began
            vectors["ours"] = np.load(output)
            return seconds

        def direct(repetition: int) -> float:
            chosen = texts[repetition * share : (repetition + 1) * share]
            began = clock()
            vectors["plain"] = plain.encode(chosen, show_progress_bar=False)
            return clock() - began

        times = interleave({"ours": bulk, "plain": direct}, repetitions)
    return {
        "shape": shape,
        "text": path.name,
        "sentences": share * repetitions,
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        "sentences_a_second": {name: round(share * repetitions / sum(found)) for name, found in times.items()},
        "plain_over_ours": ratio(times, "plain", "ours"),
        "difference": float(np.abs(vectors["ours"] - vectors["plain"]).max()),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=["minilm", "small", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--cpu-time", action="store_true", help="processor time of one thread, on a busy machine")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    show(measure(asked.shape, asked.text, asked.sentences, asked.repetitions), asked.output)
