"""Scored sentence pairs, the record that similarity evaluation works on."""

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xxhash


@dataclass(frozen=True, slots=True)
class Pairs:
    """N sentence pairs with the score that people gave each; a higher score means closer in
    meaning.
    """

    name: str
    first: list[str]  # (N,)
    second: list[str]  # (N,)
    gold: npt.NDArray[np.float64]  # (N,)

    def __len__(self) -> int:
        return len(self.first)

    def rows(self, places: npt.NDArray[np.int64]) -> "Pairs":
        """Those at these places (n,)."""
        first, second = ([texts[place] for place in places] for texts in (self.first, self.second))
        return Pairs(self.name, first, second, self.gold[places])

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the sentences and scores, in their order."""
        total = xxhash.xxh3_128(json.dumps([self.first, self.second]).encode())
        total.update(self.gold.tobytes())
        return total.hexdigest()
