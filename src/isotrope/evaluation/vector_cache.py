"""Vectors of texts, kept in the cache folder, so that a later call encodes only what is new."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from isotrope.encoder.embed import Vectors
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached, is_whole

_DIGESTS, _VECTORS = "texts.npy", "vectors.npy"


@dataclass(frozen=True)
class VectorCache:
    """The vectors that one model has given. Each call of `keep` adds a folder."""

    key: str  # of all that decides a vector: the model with its settings, and the texts' role

    def read(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Text -> its vector (D,), for those texts that are kept."""
        text_of = {_digest(text): text for text in texts}
        vector_of = {}
        for folder in cache_folder("vectors").glob(f"{self.key}-*"):
            if not is_whole(folder):
                continue
            with suppress(OSError):  # another user's cache
                os.utime(folder)
            vectors = np.load(folder / _VECTORS, mmap_mode="r")  # (N, D)
            for row, digest in enumerate(np.load(folder / _DIGESTS).tolist()):
                if digest in text_of:
                    vector_of[text_of[digest]] = np.array(vectors[row])
        return vector_of

    def keep(self, texts: Sequence[str], vectors: Vectors) -> None:
        """Keep the vectors (N, D) of these texts (N,), if the cache can be written."""
        digests = [_digest(text) for text in texts]

        def write(folder: Path) -> None:
            np.save(folder / _DIGESTS, np.array(digests))
            np.save(folder / _VECTORS, vectors)

        with suppress(UserError):
            cached(cache_folder("vectors", f"{self.key}-{_digest(''.join(digests))}"), write)


def _digest(text: str) -> str:
    return xxhash.xxh3_128_hexdigest(text.encode(errors="surrogatepass"))
