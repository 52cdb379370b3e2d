"""What a teacher must know of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sentence_transformers import SentenceTransformer

from isotrope.errors import UserError
from isotrope.text.corpus import Corpus
from isotrope.text.sample import RowIds


@dataclass(frozen=True, slots=True)
class Context:
    """The run that a teacher teaches.

    Attributes:
        corpus: whose rows the batches name; a sentence is its first column.
        student: the model before its training, for a teacher called ``initial``.
        rows: (R,) the only rows that the run visits, in any order; None for all. A cache holds no others.
        progress: called while a corpus is encoded, with the model's name, the rows done and the rows to do.
    """

    corpus: Corpus
    student: SentenceTransformer | None = None
    rows: RowIds | None = None
    progress: Callable[[str, int, int], None] = lambda model, done, total: None

    def texts(self, rows: RowIds) -> list[str]:
        """The sentences of these rows.

        Raises:
            UserError: the corpus has no such row.
        """
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(self.corpus):
            wrong = rows.min() if rows.min() < 0 else rows.max()
            raise UserError(f"row id {wrong} in a corpus of {len(self.corpus)}", "let 'label' hold the row numbers")
        return list(self.corpus.dataset[rows.tolist()][self.corpus.columns[0]])
