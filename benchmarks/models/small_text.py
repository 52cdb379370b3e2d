"""The texts that isotrope/small learns from, one a line: Wikipedia as sentences, passages, and
texts like queries.

    python -m benchmarks.models.small_text first DATA first.txt
    python -m benchmarks.models.small_text second DATA second.txt
    python -m benchmarks.models.small_text third DATA third.txt

The first one has short sentences, since a short text costs little time, and paragraphs. The second
one has passages of all lengths, which teach search from its documents' side, and titles, questions
about titles, and spans without a beginning or an end, which teach it from the queries' side. The
third one has more of them, drawn again.
"""

import argparse
import json
import lzma
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

FIRST = {"sentences": 100_000, "paragraphs": 20_000}
MIXED = {
    "sentences": 60_000,
    "passages": 36_000,
    "spans": 30_000,
    "titles": 14_000,
    "questions": 10_000,
}
SECOND = 50_000  # of these, drawn: as many as an hour has time for
THIRD = 1.1  # times as many as these, where there are so many
LONGEST, SHORTEST = 90, 20  # words of a paragraph or passage; about 120 tokens
FEW = range(2, 13)  # words of a span, as a query has
TITLED = 0.3  # of the passages: those with the article's title before them
ASKED = (  # about one title, or two
    "what is {}", "what is {}?", "who is {}?", "where is {}?", "when did {} happen?", "how does {} work?",
    "why is {} important?", "how do I find {}?", "can I get {}?", "is {} the same as {}?", "{} compared with {}",
    "difference between {} and {}", "what has {} to do with {}?", "tell me about {}", "I am looking for {}.",
    "my {} is not working", "I would like to know why {} is not {}", "list of {}", "effect of {} on {}", "{} in {}",
)  # fmt: skip


def sentences(folder: Path, longest: int) -> Iterator[str]:
    """The sentences of 4 words to the longest, without those that have lost a formula."""
    for file in sorted(folder.glob("wiki_train_*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            yield from (
                line.strip()
                for line in lines
                if 4 <= len(line.split()) <= longest and "formula_" not in line
            )


def drawn(folder: Path, count: int, longest: int, draw: random.Random) -> list[str]:
    """So many sentences. Each file begins with other articles, so many more are read than are
    drawn.
    """
    return draw.sample(list(islice(sentences(folder, longest), 8 * count)), count)


def articles(folder: Path) -> Iterator[dict[str, Any]]:
    """Each article."""
    for file in sorted(folder.glob("articles_0*.jsonl.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def paragraphs(folder: Path) -> Iterator[str]:
    """The first piece of 20 to 90 words of each paragraph; the first one of an article has its
    title before it.
    """
    for article in articles(folder):
        for number, paragraph in enumerate(article["paragraphs"]):
            words = paragraph.split()[:LONGEST]
            if len(words) >= SHORTEST and "formula_" not in paragraph:
                yield " ".join(words if number else [f"{article['title']}.", *words])


def words_of(article: dict[str, Any]) -> list[str]:
    """The words of an article, without the paragraphs that have lost a formula."""
    return " ".join(text for text in article["paragraphs"] if "formula_" not in text).split()


def passage(article: dict[str, Any], draw: random.Random) -> str:
    """20 to 90 words from a place of an article that is drawn, sometimes behind its title; or
    nothing.
    """
    words = words_of(article)
    if len(words) < SHORTEST:
        return ""
    length = draw.randint(SHORTEST, LONGEST)
    begin = draw.randrange(len(words) - SHORTEST + 1) if draw.random() < 0.7 else 0
    text = words[begin : begin + length]
    return " ".join([f"{article['title']}.", *text] if draw.random() < TITLED else text)


def span(article: dict[str, Any], draw: random.Random) -> str:
    """2 to 12 words of an article, without the marks around them; half of them in small letters."""
    words = words_of(article)
    begin = draw.randrange(max(1, len(words) - FEW[-1]))
    text = " ".join(words[begin : begin + draw.choice(FEW)]).strip(" ,.;:()\"'")
    return text.lower() if draw.random() < 0.5 else text


def first(wiki: Path) -> list[str]:
    """Sentences and paragraphs, shuffled."""
    draw = random.Random(0)
    texts = drawn(wiki, FIRST["sentences"], 20, draw)
    texts += draw.sample(list(paragraphs(wiki)), FIRST["paragraphs"])
    draw.shuffle(texts)
    return texts


def mixed(wiki: Path, seed: int, times: float = 1) -> list[str]:
    """Texts of all kinds, shuffled, ``times`` as many as `MIXED` says."""
    draw, counts = (
        random.Random(seed),
        {kind: round(times * count) for kind, count in MIXED.items()},
    )
    texts = drawn(wiki, counts["sentences"], 35, draw)
    every = list(articles(wiki))
    texts += [passage(draw.choice(every), draw) for _ in range(counts["passages"])]
    texts += [span(draw.choice(every), draw) for _ in range(counts["spans"])]
    titles = [article["title"] for article in every]
    texts += draw.sample(titles, min(counts["titles"], len(titles)))
    for _ in range(counts["questions"]):
        texts.append(
            draw.choice(ASKED).format(*(title.split(" (")[0] for title in draw.sample(titles, 2)))
        )
    texts = [text for text in texts if text]
    draw.shuffle(texts)
    return texts


def main() -> None:
    """Write the text."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("which", choices=["first", "second", "third"])
    parser.add_argument("data", type=Path, help="the folder that holds wiki/")
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    wiki = given.data / "wiki"
    if given.which == "first":
        texts = first(wiki)
    else:
        texts = (
            mixed(wiki, seed=1)[:SECOND]
            if given.which == "second"
            else mixed(wiki, seed=2, times=THIRD)
        )
    given.output.write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
