"""The whole table of `benchmarks.speed.encode` on this processor, by one command.

    python -m benchmarks.speed.processor WORK --data DATA [--models minilm small tiny]

It measures each model on sentences of Wikipedia and on abstracts of SciFact, with the processor's
bf16 instructions and without them, in turn, and writes one result file for each. nDCG@10 is
measured beside the sentences. What is done already is not run again; WORK holds the texts.
"""

import argparse
import json
import subprocess
import sys
from itertools import product
from pathlib import Path

from benchmarks.paths import RESULTS
from isotrope.encoder.fast.half import has_bf16
from isotrope.evaluation.sets.public import load_retrieval_set

SENTENCES = {"minilm": 500, "small": 2000, "tiny": 2000}
ABSTRACTS = {"minilm": 60, "small": 240, "tiny": 240}


def write_abstracts(data: Path, file: Path) -> None:
    """The documents of SciFact, one a line."""
    if not file.is_file():
        corpus = load_retrieval_set(data, "SciFact").corpus
        file.write_text("".join(f"{' '.join(text.split())}\n" for text in corpus))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=list(SENTENCES), choices=list(SENTENCES))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    abstracts = args.work / "scifact_abstracts.txt"
    write_abstracts(args.data, abstracts)
    sentences = args.data / "wiki" / "wiki_train_00.txt.xz"

    hiding = [True, False] if has_bf16() else [False]
    for model, is_sentences, is_hidden in product(args.models, (True, False), hiding):
        kind = "sentences" if is_sentences else "abstracts"
        count = (SENTENCES if is_sentences else ABSTRACTS)[model]
        suffix = "-hidden" if is_hidden else ""
        target = RESULTS / "performance" / f"bits-{model}-{kind}{suffix}.json"
        part = args.work / target.name
        if not part.is_file():
            command = [sys.executable, "-m", "benchmarks.speed.encode", model]
            command += [str(sentences if is_sentences else abstracts)]
            command += ["--sentences", str(count), "--cpu-time", "--output", str(part)]
            command += ["--hide-bf16"] if is_hidden else []
            command += ["--data", str(args.data)] if is_sentences else []
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        target.write_bytes(part.read_bytes())
        speed = json.loads(part.read_text())["sentences_a_second"]
        print(model, kind, "bf16 hidden" if is_hidden else "", speed, flush=True)


if __name__ == "__main__":
    main()
