"""Scored sentence pairs, the record that similarity evaluation works on; and how their files are read."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from isotrope.errors import UserError


@dataclass(frozen=True, slots=True)
class Pairs:
    """N sentence pairs with the score that people gave each; a higher score means closer in meaning."""

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


def read_text(path: Path, remedy: str) -> str:
    """The file's text as UTF-8 without a byte-order mark and with line ends as they are.

    Raises UserError where the file is missing, unreadable or not UTF-8 text, which is named by line.
    """
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
        wrong = raw.find(b"\0")  # no text has it
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", remedy) from None
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        line = raw.count(b"\n", 0, wrong) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text", f"save the file as UTF-8, or {remedy}")
    return text
