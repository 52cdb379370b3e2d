"""Files of text for tests: any format, any compression."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from isotrope.text import TextPath, read_text
from isotrope.text.corpus import Texts

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
SENTENCES = ["The first one.", "Größe und Maß, 日本語.", 'She said "no".', "A last sentence"]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def corpus(*paths: Path | str, **options: Any) -> Texts:
    """The texts of files; options as in `isotrope.text.read_text`."""
    return read_text([TextPath(path) for path in paths], **options).texts()


def texts(opened: Texts) -> list[str]:
    return list(opened.dataset["text"])


def table(extension: str, sentences: list[str]) -> bytes:
    if extension == ".jsonl":
        return "".join(json.dumps({"id": 1, "text": s}) + "\n" for s in sentences).encode()
    if extension == ".csv":
        quoted = (s.replace('"', '""') for s in sentences)
        return ("id,text\n" + "".join(f'1,"{s}"\n' for s in quoted)).encode()
    if extension == ".tsv":
        return ("id\ttext\n" + "".join(f"1\t{s}\n" for s in sentences)).encode()
    return "".join(s + "\n" for s in sentences).encode()
