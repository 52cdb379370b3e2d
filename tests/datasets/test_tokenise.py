"""Moses' tokens."""

from __future__ import annotations

import pytest

from isotrope.datasets.tokenise import moses_tokens


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("It's late.", "it 's late ."),
        ("I don't.", "i don 't ."),
        ('"Yes," Mr. Li said.', '" yes , " mr. li said .'),
        ("A & B <c> | d's", "a & b < c > | d 's"),
        ("3.5% of U.S. $1,650", "3.5 % of u.s. $ 1,650"),
        ("Ünïted — Süß…", "ünïted — süß …"),
        ("", ""),
    ],
)
def test_moses_tokens(raw: str, tokens: str) -> None:
    assert moses_tokens(raw) == tokens
