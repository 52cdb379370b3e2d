"""BM25 as a teacher: texts are alike where they share rare words. It needs no model and no labels.

Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009,
https://doi.org/10.1561/1500000019. The weights are those of bm25s, https://arxiv.org/abs/2407.03618 (its method
"lucene").
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csc_array, csr_array, load_npz, save_npz
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import gather_rows
from isotrope.errors import UserError, needs
from isotrope.store.cache import cache_folder, cached
from isotrope.teachers._model import Visited
from isotrope.types import Batch, Fraction, NonNegative, Teacher

_LAYOUT = 1  # version of the words and of the file; part of the key
_CHUNK = 8192  # texts read at a time
_WEIGHTS = "weights.npz"
_ALONE = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff"  # Thai, Lao, Japanese, Chinese: no spaces, so each letter is a word
WORD = f"[{_ALONE}]|[^\\W{_ALONE}]+"


@dataclass(frozen=True)
class Bm25:
    """Each text has the row of its words' BM25 weights; cosines of these rows are what a student learns from.

    The weight of word t in text d is idf(t) · f / (f + k1 (1 − b + b |d| / mean length)), for f occurrences. BM25 as a
    search engine has it is not symmetric: only the document's words have weights. Here both texts have them, so that a
    text is as near to another as the other is to it, and nearest to itself. Words are compared in lower case, and none
    is left out: idf gives common words little weight. It counts the texts that the run visits.

    Attributes:
        k1: how slowly further occurrences of a word stop to count; 0: only whether it occurs.
        b: how much a long text's words count less; from 0 to 1.
    """

    stage = "teachers"
    k1: NonNegative = 1.5
    b: Fraction = 0.75

    def build(self, context: BuildContext) -> Teacher:
        visited = Visited.by(context)

        def texts() -> Iterator[str]:
            for start, part in visited.read(_CHUNK):
                context.progress("BM25", start, len(visited))
                yield from part
            context.progress("BM25", len(visited), len(visited))

        def make(draft: Path) -> None:
            save_npz(draft / _WEIGHTS, word_weights(texts(), self.k1, self.b), compressed=False)

        folder = cache_folder("teachers", visited.key(_LAYOUT, f"bm25 {self.k1} {self.b}"))
        weights = csr_array(load_npz(cached(folder, make) / _WEIGHTS))

        def embed(batch: Batch) -> Tensor:
            # All processes must agree on the columns: their rows are joined afterwards.
            every = weights[visited.places(gather_rows(batch.rows))]
            columns = np.union1d(every.indices, [0])  # never none
            own = weights[visited.places(batch.rows)][:, columns].toarray()
            return F.normalize(torch.from_numpy(own), dim=-1).to(batch.rows.device)

        return embed


def word_weights(texts: Iterator[str], k1: float, b: float) -> csr_array:
    """The BM25 weight of each word (V) in each text (N): sparse (N, V). A text without a word has a row of zeros."""
    bm25s = needs("bm25", "bm25s")  # looks for numba and jax, which takes a second
    tokenizer = bm25s.tokenization.Tokenizer(splitter=WORD, stopwords=None)
    ids = list(tokenizer.streaming_tokenize(texts, update_vocab=True, allow_empty=False))
    if not any(ids):
        raise UserError("BM25 finds no word in the text", "give text with words, or choose another teacher")
    engine = bm25s.BM25(k1=k1, b=b, method="lucene")
    engine.index((ids, tokenizer.get_vocab_dict()), create_empty_token=False, show_progress=False)
    scores = engine.scores
    shape = (len(ids), len(scores["indptr"]) - 1)
    return csr_array(csc_array((scores["data"], scores["indices"], scores["indptr"]), shape=shape))
