"""Words of a text, also where the language writes no spaces."""

from collections.abc import Sequence

LONGEST_WORD = 15  # letters on average: beyond it, the language writes no spaces, and letters count as words


def words_of(text: str) -> tuple[Sequence[str], str]:
    """The words of a text and what stands between them; its letters, where the language writes no spaces."""
    words = text.split()
    return (text, "") if len(text) > LONGEST_WORD * len(words) else (words, " ")
