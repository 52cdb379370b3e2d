"""Text files to one long row of token ids on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotrope.console.progress import progress
from isotrope.errors import UserError
from isotrope.store.atomic import new_file
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


def write_ids(sources: Sequence[TextFile], tokenizer: Any, target: Path, console: Console) -> None:
    """Write the ids of all sentences, each framed by [CLS] … [SEP], one after the other: (T,) uint16.

    So the vocabulary may have at most 65,536 entries.

    Raises:
        UserError: there is no text.
    """
    texts, written = sentences(sources), 0
    with new_file(target) as file, progress("tokenised", None, console, "sentences", hears=True) as bar:
        while chunk := list(islice(texts, SENTENCES_AT_A_TIME)):
            for encoding in tokenizer.backend_tokenizer.encode_batch_fast(chunk):
                written += file.write(np.asarray(encoding.ids, dtype=np.uint16).tobytes())
            bar.advance(len(chunk))
        if not written:
            names = ", ".join(str(source.path) for source in sources)
            raise UserError(f"{names}: no text in there", "give files with one sentence a line")


def blocks_of(file: Path, length: int) -> Ids:
    """The ids in a file of `write_ids` as blocks (B, length), not read into memory; the rest falls off the end."""
    ids = np.memmap(file, dtype=np.uint16, mode="r")
    return ids[: len(ids) // length * length].reshape(-1, length)
