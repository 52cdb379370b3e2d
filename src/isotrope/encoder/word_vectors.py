"""Averaged word vectors of GloVe or word2vec, as an encoder."""

import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

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
    held: a file of gigabytes needs no memory.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file, with or without word2vec's first line of two counts; refuse one without word
        vectors.
        """
        self.source = source_of(Path(path))
        first_lines = list(islice(lines(self.source), 2))
        cells = first_lines[0].rstrip().split(" ")
        is_header = len(cells) == 2 and all(cell.isdecimal() for cell in cells)
        self.header = is_header and len(first_lines) == 2
        self.dim = int(cells[1]) if self.header else len(cells) - 1

        if self.dim < 2 or self._vector(first_lines[self.header]) is None:
            raise UserError(
                f"{path}, line {1 + self.header}: no word vector", _FORMAT, "no-word-vectors"
            )
        self.weight: Callable[[str], float] = lambda word: 1.0
        # word -> (D,); None: the file has no such word
        self._vectors: dict[str, WordVector | None] = {}

    def words(self, sentence: str) -> list[str]:
        """The known words of a sentence, as the file writes them; call `look_up` first."""
        words = []
        for piece in sentence.split():
            parts = [piece] if self._known_form(piece) else _PIECES.findall(piece)
            words += [self._known_form(part) for part in parts]
        return [word for word in words if word is not None]

    def look_up(self, sentences: Sequence[str]) -> None:
        """Read the vectors of all words that are new; a line that is no vector is refused."""
        new = self._new_words(sentences)
        if not new:
            return
        self._vectors |= dict.fromkeys(new)
        for number, line in enumerate(lines(self.source), start=1):
            word = line[: line.find(" ")]
            if word not in new or self._vectors[word] is not None:
                continue
            is_header = number == 1 and self.header
            # A word with spaces in it is another one than it seems.
            has_spaces = len(line.rstrip().split(" ")) > self.dim + 1
            if is_header or has_spaces:
                continue
            vector = self._vector(line)
            if vector is None:
                raise UserError(
                    f"{self.source.path}, line {number}: not {self.dim} numbers",
                    "fetch the file again",
                    "no-word-vectors",
                )
            self._vectors[word] = vector

    def _new_words(self, sentences: Sequence[str]) -> set[str]:
        """All forms under which words of these sentences may be in the file, without known ones."""
        pieces = {piece for sentence in sentences for piece in sentence.split()}
        for piece in list(pieces):
            pieces.update(_PIECES.findall(piece))
        return (pieces | {piece.lower() for piece in pieces}) - self._vectors.keys()

    def encode(self, sentences: list[str]) -> WordVector:
        """Sentences (N,) -> (N, D)."""
        self.look_up(sentences)
        means = np.zeros((len(sentences), self.dim), np.float32)
        for row, sentence in enumerate(sentences):
            words = self.words(sentence)
            for word in words:
                share = np.float32(self.weight(word) / len(words))
                means[row] += share * np.asarray(self._vectors[word])
        return means

    def _known_form(self, word: str) -> str | None:
        for form in (word, word.lower()):
            if self._vectors.get(form) is not None:
                return form
        return None

    def _vector(self, line: str) -> WordVector | None:
        try:
            vector = np.array(line.rstrip().split(" ")[1:], dtype=np.float32)
        except ValueError:
            return None
        is_vector = vector.shape == (self.dim,) and np.isfinite(vector).all()
        return vector if is_vector else None


def source_of(path: Path) -> TextFile:
    """A file of lines, whatever its ending: .vec, .tsv, none."""
    compression = path.suffix.lower() if path.suffix.lower() in COMPRESSIONS else ""
    return TextFile(path, ".txt", compression)
