"""A static student: the mean of one vector a token, which is what its teacher says of the token alone.

The recipe is that of model2vec (Tulkens and van Dongen, 2024, https://github.com/MinishLab/model2vec): each token
through the teacher, PCA, and weights by the token's frequency. Its place in the vocabulary tells its frequency (Zipf).
Tokens in brackets, such as [CLS], [unused5] and <s>, are no words: they have no rank, and their vectors are zero.
"""

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from torch import Tensor

from isotrope.console.progress import tell
from isotrope.encoder.checksum import model_checksum
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached

WIDTH = 256  # model2vec's
SMOOTH = 1e-4  # model2vec's sif_coefficient
_LAYOUT = 2  # version of the vectors; part of the key
_AT_ONCE = 512  # tokens a forward pass
_VECTORS = "vectors.npy"
_NO_WORD = re.compile(r"\[\w+\]|<[^<>]+>")

Rows = npt.NDArray[np.float64]


def zipf_weights(count: int, a: float = SMOOTH) -> Rows:
    """The weights a / (a + p) of ``count`` tokens (V,), where p ∝ 1 / rank is Zipf's law: common tokens weigh little.

    The vocabularies of tokenizers begin with their most common tokens. Ranks begin with 2, as in model2vec. The weights
    are Arora et al.'s, ICLR 2017, https://openreview.net/forum?id=SyK00v5xx.
    """
    p = 1 / np.arange(2, count + 2)
    return np.asarray(a / (a + p / p.sum()))


def stand_for_text(tokenizer: Tokenizer, count: int) -> npt.NDArray[np.bool_]:
    """Which of ``count`` tokens stand for text (V,)."""
    names = (tokenizer.id_to_token(token) for token in range(count))
    return np.array([name is not None and not _NO_WORD.fullmatch(name) for name in names])


def principal(vectors: Rows, width: int) -> Rows:
    """Vectors (V, D), centred, in their ``width`` directions of largest variance, the largest first: (V, min(D, K))."""
    centred = vectors - vectors.mean(axis=0)
    directions = np.linalg.eigh(centred.T @ centred)[1]  # rising variances
    return np.asarray(centred @ directions[:, ::-1][:, :width])


def static_model(model: SentenceTransformer, width: int = WIDTH) -> SentenceTransformer:
    """A model of sentence-transformers' `StaticEmbedding` with what ``model`` says of every token of its vocabulary.

    It ends with unit length where ``model`` does. The pass over the vocabulary is kept in the cache.
    """
    own: Any = model.tokenizer
    backend = own if isinstance(own, Tokenizer) else getattr(own, "backend_tokenizer", None)
    if isinstance(model[0], StaticEmbedding) or not isinstance(backend, Tokenizer):
        problem = f"static: the teacher begins with a {type(model[0]).__name__} and a {type(own).__name__}"
        raise UserError(problem, "choose a language model with a fast tokenizer, or another student")
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    folder = cache_folder("static", model_checksum(model, _LAYOUT))
    cached(folder, lambda draft: np.save(draft / _VECTORS, _of_tokens(model, tokenizer)))
    vectors = np.load(folder / _VECTORS).astype(np.float64)  # (V, D)
    is_word = stand_for_text(tokenizer, len(vectors))
    found = principal(vectors[is_word], width) * zipf_weights(int(is_word.sum()))[:, None]
    rows = np.zeros((len(vectors), found.shape[1]))  # (V, K)
    rows[is_word] = found
    words = StaticEmbedding(tokenizer, embedding_weights=torch.from_numpy(rows).float())
    modules = [words, *([Normalize()] if isinstance(model[-1], Normalize) else [])]
    return SentenceTransformer(modules=modules, device=str(model.device))


@torch.no_grad()
def _of_tokens(model: SentenceTransformer, tokenizer: Tokenizer) -> npt.NDArray[np.float32]:
    """The teacher's vector of each token between its first and its last mark, before unit length: (V, D).

    At unit length, the vectors would no longer tell how much the teacher makes of a token.
    """
    modules = [module for module in model if not isinstance(module, Normalize)]
    example = tokenizer.encode("a")
    words = np.flatnonzero(np.array(example.special_tokens_mask) == 0)
    before, after = example.ids[: words[0]], example.ids[words[-1] + 1 :]
    count, parts = max(tokenizer.get_vocab().values()) + 1, list[Tensor]()
    model.eval()
    for start in range(0, count, _AT_ONCE):
        tell("tokens", start, count)
        tokens = range(start, min(start + _AT_ONCE, count))
        ids = torch.tensor([[*before, token, *after] for token in tokens], device=model.device)  # (n, L)
        read = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for module in modules:
            read = module(read)
        parts.append(read["sentence_embedding"].float().cpu())
    return torch.cat(parts).numpy()
