"""Text files to one long row of token ids on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from isotrope.errors import UserError
from isotrope.text.cleaning import fingerprint, fold
from isotrope.text.files import TextFile
from isotrope.text.readers import Columns, rows

Ids = np.ndarray[Any, np.dtype[np.uint16]]
SENTENCES_AT_A_TIME = 20_000


def sentences(sources: Sequence[TextFile]) -> Iterator[str]:
    """The texts of corpus files in their order; blank lines and bytes that are not UTF-8 are passed over."""
    for source in sources:
        for _, fields in rows(source, Columns()):
            (text,) = fold(fields)
            if text and fingerprint((text,)) is not None:
                yield text


def tokenise(sources: Sequence[TextFile], tokenizer: Any, target: Path) -> Ids:
    """Write the ids of all sentences, each framed by [CLS] … [SEP], one after the other to `target`; map it to memory.

    A file that is already there is taken as it is: it is renamed into its place only when it is whole.
    Returns (T,) uint16, so the vocabulary may have at most 65,536 entries. Raises UserError where there is no text.
    """
    if not target.exists():
        part = target.with_suffix(".part")
        texts = sentences(sources)
        with part.open("wb") as out:
            while chunk := list(islice(texts, SENTENCES_AT_A_TIME)):
                for encoding in tokenizer.backend_tokenizer.encode_batch_fast(chunk):
                    out.write(np.asarray(encoding.ids, dtype=np.uint16).tobytes())
        if part.stat().st_size == 0:
            names = ", ".join(str(source.path) for source in sources)
            raise UserError(f"{names}: no text in there", "give files with one sentence a line")
        part.replace(target)
    return np.memmap(target, dtype=np.uint16, mode="r")


def blocks_of(ids: Ids, length: int) -> Ids:
    """Cut a row of ids (T,) into blocks (B, length); what does not fill a block falls off the end."""
    return ids[: len(ids) // length * length].reshape(-1, length)
