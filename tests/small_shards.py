"""Files to encode in several shards, and what was written."""

from __future__ import annotations

from pathlib import Path


def lines(corpus: Path, target: Path, count: int) -> Path:
    """``count`` different lines."""
    some = corpus.read_text(encoding="utf-8").splitlines()
    rows = [f"{some[i % len(some)]} {i // len(some)}" for i in range(count)]
    target.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return target


def contents(folder: Path) -> dict[str, bytes]:
    """The parts and the manifest of an output folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.*")) if not path.name.startswith(".")}
