"""How many tokens a forward pass should have on a CPU: time of encoding, over that of passes of 32
texts.

    python benchmarks/passes.py DATA [--repetitions 5]      # docs/results/performance/passes.json

All sizes take turns, with one thread, on abstracts cut at 128 and 256 tokens and on single
sentences.
"""

import argparse
import json
from functools import partial
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.encoder import embed
from isotrope.encoder.embed import cut, vectors_of
from isotrope.evaluation.sets.domains import load_domain
from timing import clock, interleave, lines, ratio

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "performance" / "passes.json"
MODELS, SIZES, ALL = ("isotrope/small", "isotrope/minilm"), (512, 1024, 2048), 10**9


def measure(data: Path, repetitions: int) -> dict[str, object]:
    """Model -> kind of text -> tokens of a pass -> time over that of passes without a limit."""
    abstracts = load_domain(data, "SciFact", "test").corpus
    sentences = lines(data / "wiki" / "wiki_train_00.txt.xz", 768)
    kinds = {
        "abstracts, 128 tokens": (abstracts[:128], 128),
        "abstracts, 256 tokens": (abstracts[:64], 256),
        "sentences": (sentences, 128),
    }
    found = dict[str, object]()
    for name in MODELS:
        model, own = load(name, device="cpu", frozen=True), dict[str, object]()
        for kind, (texts, length) in kinds.items():
            systems = {
                str(size): partial(seconds, model, texts, length, size) for size in (*SIZES, ALL)
            }
            times = interleave(systems, repetitions)
            own[kind] = {str(size): ratio(times, str(size), str(ALL)) for size in SIZES}
        found[name] = own
    return found


def seconds(
    model: SentenceTransformer, texts: list[str], length: int, size: int, repetition: int
) -> float:
    """Of encoding texts, cut at ``length`` tokens, in passes of ``size`` tokens."""
    embed.TOKENS = size
    with cut(model, length):
        began = clock()
        vectors_of(model, texts, batch_size=32, progress=lambda _: None)
        return clock() - began


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--repetitions", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    clock.cpu_time = True
    RESULT.write_text(
        json.dumps(measure(given.data, given.repetitions), indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
