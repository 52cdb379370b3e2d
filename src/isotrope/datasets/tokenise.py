"""From the official files to SentEval's text state: Moses' tokens, lower-cased for STS.

Moses' English tokenizer without escaping, then lower case (SICK keeps its case), is what SentEval's script does to the
files of the organisers. Source: Koehn et al., ACL 2007, https://aclanthology.org/P07-2045; sacremoses does the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from isotrope.errors import needs


@cache
def _moses() -> Any:
    return needs("data", "sacremoses").MosesTokenizer("en")


def moses_tokens(sentence: str, lower: bool = True) -> str:
    """A sentence -> its tokens, joined by one space: `It's late.` -> `it 's late .`."""
    tokens: str = _moses().tokenize(sentence, escape=False, return_str=True)
    return tokens.lower() if lower else tokens


def _sts(line: str) -> str:
    return "\t".join(moses_tokens(cell) for cell in line.split("\t")[:2])  # STS16 gives sources and authors after them


def _stsb(line: str) -> str:
    cells = line.split("\t")[:7]  # some lines say where they come from after that
    return "\t".join([*cells[:5], *map(moses_tokens, cells[5:])])


def _sick(line: str) -> str:
    cells = line.rstrip("\r").split("\t")
    return "\t".join([cells[0], *(moses_tokens(cell, lower=False) for cell in cells[1:3]), *cells[3:]])


_LINES: dict[str, Callable[[str], str]] = {"sts": _sts, "stsb": _stsb, "sick": _sick}


def tokenise_file(text: str, recipe: str) -> str:
    """The text of an official file -> SentEval's; `recipe` is sts, stsb or sick (its first line is a header)."""
    lines = text.removesuffix("\n").split("\n")
    head = [lines.pop(0).rstrip("\r")] if recipe == "sick" else []
    return "".join(f"{line}\n" for line in (*head, *map(_LINES[recipe], lines)))
