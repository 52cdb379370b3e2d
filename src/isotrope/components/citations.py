"""The papers that a model rests on. A component's docstring names its BibTeX key; ``methods.bib`` holds the entries."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files

TAGS = ["sentence-transformers", "sentence-similarity", "feature-extraction", "isotrope", "unsupervised"]  # of a model


def cited_keys(classes: Iterable[type]) -> list[str]:
    """The BibTeX keys that the docstrings of some components name, each once, in order."""
    return list(dict.fromkeys(key for cls in classes for key in re.findall(r"BibTeX:\s+(\w+)", cls.__doc__ or "")))


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, and isotrope's own after them. A key without an entry, of a third party, is left out.

    >>> bibtex([]).splitlines()[0]
    '@software{isotrope,'
    """
    return "\n\n".join(entries()[key] for key in dict.fromkeys([*keys, "isotrope"]) if key in entries())


@cache
def entries() -> dict[str, str]:
    """BibTeX key -> its whole entry."""
    text = files("isotrope.components").joinpath("methods.bib").read_text(encoding="utf-8")
    found = re.split(r"\n(?=@)", text.strip())
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry.strip() for entry in found}
