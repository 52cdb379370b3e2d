"""Which documents are fitted on, which choose, and which judge."""

from dataclasses import dataclass

import numpy as np

from isotrope.text.corpus import Documents
from isotrope.text.permutation import RowIds, evenly

MOST_CHOOSING = 300  # documents on which all candidates are compared
MOST_JUDGING = 1000  # documents on which the given model and the chosen one are compared
FEWEST_DOCUMENTS = 100  # of a collection: half of them choose and judge


@dataclass(frozen=True)
class Split:
    """The rows of a collection, in three parts that share no row."""

    fitting: RowIds  # for post steps, maps, trainings and pseudo-queries
    choosing: RowIds  # for comparing all candidates
    judging: RowIds  # for the verdict

    @property
    def held_out(self) -> int:
        """How many documents nothing is fitted on."""
        return len(self.choosing) + len(self.judging)


def most_held_out(documents: int) -> int:
    """How many documents may choose and judge: at most half of them."""
    return min(documents // 2, MOST_CHOOSING + MOST_JUDGING)


def choosing_count(held_out: int) -> int:
    """How many of the held-out documents choose. The others judge."""
    return min(MOST_CHOOSING, held_out // 3)


def split_documents(documents: Documents, choosing: int, judging: int, seed: int) -> Split:
    """Draw so many documents that choose, and so many that judge."""
    fitting, held_out = documents.split(choosing + judging, seed)
    places = evenly(len(held_out), choosing)
    return Split(fitting, held_out[places], np.delete(held_out, places))
