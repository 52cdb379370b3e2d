"""What is prose in a docstring, and where its sentences end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.quickstart.prose import clean, paragraphs, split


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One thing. Another thing.", ["One thing.", "Another thing."]),
        ("Is it so? Yes! It is.", ["Is it so?", "Yes!", "It is."]),
        ("Use a map, e.g. HashMap, or i.e. Nothing else.", ["Use a map, e.g. HashMap, or i.e. Nothing else."]),
        ("See Fig. 3 and Smith et al. Then D. Knuth wrote.", ["See Fig. 3 and Smith et al. Then D. Knuth wrote."]),
        ("Version 1.2 is out. version two follows.", ["Version 1.2 is out. version two follows."]),
        ('He said "stop." Then (he did.) So.', ['He said "stop."', "Then (he did.)", "So."]),
        ("No end", ["No end"]),
    ],
)
def test_sentences_are_split(paragraph: str, expected: list[str]) -> None:
    assert split(paragraph) == expected


DOCSTRING = """Compute the *mean* of an ``array`` along one axis.

    indented = code
The result is a :class:`~numpy.ndarray` or a `scalar <https://x.org>`_ [1]_, which
:func:`mean` returns at once. See [the guide](https://x.org) of **Markdown**
for what else there is to know.

>>> mean([1, 2])
The output of the doctest is not prose at all.

- A list item with enough words to be a sentence.
1. Another list item with enough words to be one.

| a table | of cells |
+---------+----------+

```
Fenced text with enough words to be a sentence.
```

:param x: The field of a parameter is no sentence here.

Parameters
----------
x : array
    The values whose mean is to be computed here.
The stray line under the parameters is dropped as well.

Notes
-----
The sum is computed pairwise for the sake of precision. Then x = sum / n gives the mean.

Args:
    y: The description of an argument in the other style.

Last one is a fragment that goes on:
"""


def test_only_prose_is_kept() -> None:
    assert clean(DOCSTRING) == (
        "Compute the mean of an array along one axis.",
        "The result is a ndarray or a scalar, which mean returns at once.",
        "See the guide of Markdown for what else there is to know.",
        "The sum is computed pairwise for the sake of precision.",
    )
    assert not any("Fenced" in p or "doctest" in p or "stray" in p for p in paragraphs(DOCSTRING))


@pytest.mark.parametrize(
    "text",
    [
        "Too few words.",
        "lower case begins this line here.",
        "Set x = y before the call is made.",
        "Call a->b of the pointer for it.",
        "1234 5678 9012 3456 7890.",
        "See https://example.org for all of the rest.",
        "It is " + "very " * 50 + "long.",
        "A word of " + "x" * 41 + " letters is no word.",
        "The text has a \x07 bell in it.",
        "Copyright of this file is with its authors.",
    ],
)
def test_what_is_no_clean_sentence_is_left_out(text: str) -> None:
    assert clean(text + "\n\nThe second one is clean and is kept.") == ("", "The second one is clean and is kept.")


def test_a_docstring_without_prose_gives_nothing() -> None:
    assert clean("") == clean("   \n\n>>> 1 + 1\n2") == ()


@given(st.text())
def test_no_text_breaks_the_cleaning(text: str) -> None:
    for sentence in clean(text)[1:]:
        assert sentence
        assert "\n" not in sentence
