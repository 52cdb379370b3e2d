"""Averaged word vectors of GloVe or word2vec, as an encoder."""

import re
from collections.abc import Sequence
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
    """The mean of a sentence's word vectors; zero where none of its words is known.

    Words are what white space separates, which is right for tokenised text; what is unknown is
    looked up in lower case, then split at punctuation. Only the vectors of words that occur are
    held: a file of gigabytes needs no memory.
    """

    def __init__(self, path: str | Path) -> None:
        """Open a file, with or without word2vec's first line of two counts.

        Raises:
            UserError: it has no word vectors.
        """
        # A file of lines, whatever its ending: .vec, .tsv, none.
        ending = Path(path).suffix.lower()
        compression = ending if ending in COMPRESSIONS else ""
        self.source = TextFile(Path(path), ".txt", compression)

        first_lines = list(islice(lines(self.source), 2))
        cells = first_lines[0].rstrip().split(" ")
        are_counts = len(cells) == 2 and all(map(str.isdecimal, cells))
        self.header = are_counts and len(first_lines) == 2
        self.dim = len(cells) - 1
        if self.header:
            self.dim = int(cells[1])

        first_vector = self._vector(first_lines[self.header])
        if self.dim < 2 or first_vector is None:
            problem = f"{path}, line {1 + self.header}: no word vector"
            raise UserError(problem, _FORMAT, "no-word-vectors")
        # word -> (D,); None: the file has no such word
        self._vectors: dict[str, WordVector | None] = {}

    def words(self, sentence: str) -> list[str]:
        """The known words of a sentence, as the file writes them; call `look_up` first."""
        words: list[str] = []
        for word in sentence.split():
            pieces = [word] if self._known_form(word) else _PIECES.findall(word)
            words += filter(None, map(self._known_form, pieces))
        return words

    def look_up(self, sentences: Sequence[str]) -> None:
        """Read the vectors of all words that are new; a line that is no vector is refused."""
        new = self._new_words(sentences)
        if not new:
            return
        self._vectors |= dict.fromkeys(new)
        for number, line in enumerate(lines(self.source), start=1):
            word = line[: line.find(" ")]
            is_header = number == 1 and self.header
            if word not in new or self._vectors[word] is not None or is_header:
                continue
            # A word with spaces in it is another one than it seems.
            cells = line.rstrip().split(" ")
            if len(cells) > self.dim + 1:
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
        words = " ".join(sentences).split()
        forms = set(words)
        for word in set(words):
            forms.update(_PIECES.findall(word))
        lower_case = {form.lower() for form in forms}
        return (forms | lower_case) - self._vectors.keys()

    def encode(self, sentences: list[str]) -> WordVector:
        """Sentences (N,) -> (N, D)."""
        self.look_up(sentences)
        means = np.zeros((len(sentences), self.dim), np.float32)
        for row, sentence in enumerate(sentences):
            words = self.words(sentence)
            count = max(1, len(words))
            share = np.float32(1 / count)
            for word in words:
                vector = np.asarray(self._vectors[word])
                means[row] += share * vector
        return means

    def _known_form(self, word: str) -> str | None:
        for form in (word, word.lower()):
            if self._vectors.get(form) is not None:
                return form
        return None

    def _vector(self, line: str) -> WordVector | None:
        _, *numbers = line.rstrip().split(" ")
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            return None
        if vector.shape != (self.dim,) or not np.isfinite(vector).all():
            return None
        return vector
