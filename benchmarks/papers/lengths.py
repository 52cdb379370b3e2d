"""How many lines of a text are longer than the cut of training, and how many are duplicates: prints
JSON.

    python -m benchmarks.papers.lengths TEXT [TEXT …] [--output FILE.json]

Tokens are those of isotrope/minilm, which has BERT's uncased vocabulary; [CLS] and [SEP] count. All
lines are read.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.timing import show
from isotrope import load
from isotrope.text.corpus import build_texts
from isotrope.text.files import find_sources
from isotrope.text.tables import Columns
from isotrope.text.tokens import TextReader

MODEL, LIMIT = "isotrope/minilm", 32


def measure(text: Path, reader: TextReader) -> dict[str, int | float]:
    """Of one file: the lines that cleaning keeps, those it drops as duplicates, and the long ones
    among the kept.
    """
    with tempfile.TemporaryDirectory() as folder:
        corpus = build_texts(find_sources([text]), Columns(), Path(folder))
        longer = sum(
            len(ids) > LIMIT for ids in map(reader.tokenizer.encode, corpus.dataset["text"])
        )
        dropped = corpus.report.dropped["duplicate"]
        return {
            "kept": len(corpus),
            "duplicates": dropped,
            "longer": longer,
            "share": round(longer / len(corpus), 4),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    reader = TextReader.from_model(load(MODEL), "", LIMIT)
    assert reader is not None
    reader.tokenizer.no_truncation()
    reader.tokenizer.no_padding()
    show(
        {"model": MODEL, "limit": LIMIT}
        | {text.name: measure(text, reader) for text in asked.texts},
        asked.output,
    )


if __name__ == "__main__":
    main()
