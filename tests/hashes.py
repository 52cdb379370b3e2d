"""An encoder without a model."""

import numpy as np
import xxhash


class Hashes:
    """The sentence decides the vector (n, 16)."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def encode(self, sentences: list[str]) -> np.ndarray:
        draws = [xxhash.xxh3_128_digest(sentence.encode(), seed=self.seed) for sentence in sentences]
        return np.stack([np.frombuffer(draw, np.int8) for draw in draws]).astype(np.float32)
