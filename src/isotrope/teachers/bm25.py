"""BM25 as a teacher: texts are alike where they share rare words.
https://doi.org/10.1561/1500000019
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array, load_npz, save_npz
from torch import Tensor

from isotrope.console.progress import tell
from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import gather_rows
from isotrope.store.cache import cache_folder, cached
from isotrope.teachers._model import RunRows
from isotrope.text.bm25 import Bm25Index
from isotrope.types import Batch, Fraction, NonNegative, Teacher

_LAYOUT = 2  # version of the words and of the file; part of the key
_WEIGHTS = "weights.npz"


@dataclass(frozen=True)
class Bm25:
    """Each text has the row of its words' `bm25_weights`; cosines of these rows are what a student
    learns from.

    In a search only the document's words have weights. Here both texts have them, so that a text is
    as near to another as the other is to it, and nearest to itself. It counts the texts that the
    run visits.
    """

    stage = "teachers"
    # how slowly further occurrences of a word stop to count; 0: only whether it occurs
    k1: NonNegative = 1.5
    b: Fraction = 0.75  # how much a long text's words count less

    def build(self, context: BuildContext) -> Teacher:
        run_rows = RunRows.by(context)

        def texts() -> Iterator[str]:
            for start, batch_texts in run_rows.read(size=8192):
                tell("counted the words of", start, len(run_rows))
                yield from batch_texts

        def make(draft: Path) -> None:
            index = Bm25Index.of(texts(), self.k1, self.b)
            save_npz(draft / _WEIGHTS, index.weights, compressed=False)

        key = run_rows.key(_LAYOUT, f"bm25 {self.k1} {self.b}")
        folder = cached(cache_folder("teachers", key), make)
        weights = csr_array(load_npz(folder / _WEIGHTS))

        def embed(batch: Batch) -> Tensor:
            # All processes must agree on the columns: their rows are joined afterwards.
            all_places = run_rows.places(gather_rows(batch.rows))
            columns = np.union1d(weights[all_places].indices, [0])  # never none

            places = run_rows.places(batch.rows)
            rows = weights[places][:, columns].toarray()
            unit = F.normalize(torch.from_numpy(rows), dim=-1)
            return unit.to(batch.rows.device)

        return embed
