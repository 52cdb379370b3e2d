"""Averaged word vectors of GloVe or word2vec, as an encoder."""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.text.files import COMPRESSIONS, TextFile, lines

WordVector = npt.NDArray[np.float32]  # (D,), or rows (N, D)
_PIECES = re.compile(r"\w+|[^\w\s]")
_FORMAT = (
    "give a text file of GloVe or word2vec: a word and its numbers a line, separated by spaces"
)


class WordVectors:
    """The (weighted) mean of a sentence's word vectors; zero where none of its words is known.

    Words are what white space separates, which is right for tokenised text; what is unknown is
    looked up in lower case, then split at punctuation. Only the vectors of words that occur are
    kept: a file of gigabytes needs no memory.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file, with or without word2vec's first line of two counts; refuse one without word
        vectors.
        """
        self.source = source_of(Path(path))
        head = list(islice(lines(self.source), 2))
        first = head[0].rstrip().split(" ")
        self.header = len(head) == 2 and len(first) == 2 and all(cell.isdecimal() for cell in first)
        self.dim = int(first[1]) if self.header else len(first) - 1
        if self.dim < 2 or self._numbers(head[self.header]) is None:
            raise UserError(f"{path}, line {1 + self.header}: no word vector", _FORMAT)
        self.weight: Callable[[str], float] = lambda word: 1.0
        self._known: dict[str, Any] = {}  # (D,); None: the file has no such word

    def words(self, sentence: str) -> list[str]:
        """The known words of a sentence, as the file writes them; call `look_up` first."""
        found = []
        for piece in sentence.split():
            parts = [piece] if self._form(piece) else _PIECES.findall(piece)
            found += [form for part in parts if (form := self._form(part))]
        return found

    def look_up(self, sentences: Sequence[str]) -> None:
        """Read the vectors of all words that are new; a line that is no vector is refused."""
        pieces = {piece for sentence in sentences for piece in sentence.split()}
        pieces |= {part for piece in pieces for part in _PIECES.findall(piece)}
        new = {form for piece in pieces for form in (piece, piece.lower())} - self._known.keys()
        self._known |= dict.fromkeys(new)
        for number, line in enumerate(lines(self.source) if new else (), start=1):
            word = line[: line.find(" ")]
            if word not in new or self._known[word] is not None or (number == 1 and self.header):
                continue
            # a word with spaces in it: another one than it seems
            if len(line.rstrip().split(" ")) > self.dim + 1:
                continue
            if (vector := self._numbers(line)) is None:
                raise UserError(
                    f"{self.source.path}, line {number}: not {self.dim} numbers",
                    "fetch the file again",
                )
            self._known[word] = vector

    def encode(self, sentences: list[str]) -> WordVector:
        """Sentences (N,) -> (N, D)."""
        self.look_up(sentences)
        means = np.zeros((len(sentences), self.dim), np.float32)
        for row, sentence in enumerate(sentences):
            words = self.words(sentence)
            for word in words:
                means[row] += np.float32(self.weight(word) / len(words)) * self._known[word]
        return means

    def _form(self, word: str) -> str | None:
        return next(
            (form for form in (word, word.lower()) if self._known.get(form) is not None), None
        )

    def _numbers(self, line: str) -> WordVector | None:
        try:
            vector = np.array(line.rstrip().split(" ")[1:], dtype=np.float32)
        except ValueError:
            return None
        return vector if vector.shape == (self.dim,) and np.isfinite(vector).all() else None


def source_of(path: Path) -> TextFile:
    """A file of lines, whatever its ending: .vec, .tsv, none."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    return TextFile(path, ".txt", compression)
