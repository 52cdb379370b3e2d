"""Counts the words per sentence of the documents and prints the longest sentences.

python tools/readability.py [PAGE ...]      (all pages without a name; code, tables and addresses are not counted)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_PROSE = r"(?ms)^```.*?^```|^<!--.*?-->|^ *\|.*?$|^#+ .*?$|^---$|^:::.*?$"
BEGINS = r"[A-Z\d`]|isotrope|sentence-transformers|transformers|torch|setfit|model2vec|mteb"
ABBREVIATED = re.compile(r"\b(e\.g|i\.e|et al|etc|Sec|Eq|Fig|vs)\.$")
LONGEST = 10


def sentences(text: str) -> Iterator[str]:
    """The sentences of a Markdown page: a paragraph or a list item ends one too."""
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(NOT_PROSE, "", text))
    for block in re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) |\A(?:[-*]|\d+\.) ", prose):
        begun = ""
        for part in re.split(rf"(?<=[.!?])[*_)\"]*\s+(?=[\"(*_`\[]*(?:{BEGINS}))", " ".join(block.split())):
            begun = f"{begun} {part}".strip()
            if not ABBREVIATED.search(begun):
                yield from filter(words, [begun])
                begun = ""
        yield from filter(words, [begun])


def words(sentence: str) -> int:
    """How many words a sentence has; inline code is one word, and a sign alone is none."""
    return sum(bool(re.search(r"\w", word)) for word in re.sub(r"`[^`]*`", "code", sentence).split())


def average(page: Path) -> float:
    """Words per sentence of a page."""
    counts = [words(one) for one in sentences(page.read_text(encoding="utf-8"))]
    return sum(counts) / max(len(counts), 1)


def pages() -> list[Path]:
    """Every page that is written by hand, but the log, which is a diary."""
    docs = ROOT / "docs"
    found = [page for page in sorted(docs.rglob("*.md")) if not page.is_relative_to(docs / "results")]
    return [ROOT / "README.md", *(page for page in found if page.name != "log.md")]


def main(names: list[str]) -> None:
    """Print the average of each page, then the longest sentences of all of them."""
    chosen = [Path(name).resolve() for name in names] or pages()
    found: list[tuple[int, str, str]] = []
    for page in chosen:
        name = page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else str(page)
        own = list(sentences(page.read_text(encoding="utf-8")))
        found += [(words(one), name, one) for one in own]
        print(f"{average(page):5.1f} words a sentence, {len(own):4d} sentences: {name}")
    print(f"\nThe {LONGEST} longest:")
    for count, name, one in sorted(found, reverse=True)[:LONGEST]:
        print(f"{count:3d} words, {name}: {one}")


if __name__ == "__main__":
    main(sys.argv[1:])
