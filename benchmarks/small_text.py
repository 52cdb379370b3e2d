"""The text that isotrope/small learns from: short sentences and paragraphs of Wikipedia, one a line.

    python benchmarks/small_text.py DATA small.txt

The sentences are short, since a short text costs little time. The paragraphs teach search.
"""

import argparse
import json
import lzma
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

SENTENCES, PARAGRAPHS = 100_000, 20_000
WORDS = range(4, 21)  # of a sentence
LONGEST, SHORTEST = 90, 20  # words of a paragraph; about 120 tokens


def sentences(folder: Path) -> Iterator[str]:
    """The sentences of 4 to 20 words, without those that have lost a formula."""
    for file in sorted(folder.glob("wiki_train_*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            yield from (line.strip() for line in lines if len(line.split()) in WORDS and "formula_" not in line)


def paragraphs(folder: Path) -> Iterator[str]:
    """The first piece of 20 to 90 words of each paragraph; the first one of an article has its title before it."""
    for file in sorted(folder.glob("articles_0*.jsonl.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for article in map(json.loads, lines):
                for number, paragraph in enumerate(article["paragraphs"]):
                    words = paragraph.split()[:LONGEST]
                    if len(words) >= SHORTEST and "formula_" not in paragraph:
                        yield " ".join(words if number else [f"{article['title']}.", *words])


def main() -> None:
    """Write the text, shuffled."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder that holds wiki/")
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    wiki, draw = given.data / "wiki", random.Random(0)
    # Each file begins with other articles, so the whole is read before it is drawn from.
    texts = draw.sample(list(islice(sentences(wiki), 8 * SENTENCES)), SENTENCES)
    texts += draw.sample(list(paragraphs(wiki)), PARAGRAPHS)
    draw.shuffle(texts)
    given.output.write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
