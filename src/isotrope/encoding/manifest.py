"""What an output says of itself: rows, dimension, model, and the checksums of its parts."""

from dataclasses import dataclass, field
from typing import Any

# Readers of tables pass over names that begin with "_" or ".".
MANIFEST = "_manifest.json"
IDENTITY = ".job.json"
METADATA = b"isotrope"  # the key under which OUT.parquet holds its manifest


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that decides an output."""

    output: str  # "folder" or ".parquet"
    shard: int
    keep: list[str] | None
    prompt: str | None  # the words before every text
    dtype: str | None
    model: str  # checksum
    input: str  # checksum


@dataclass(frozen=True, slots=True)
class Manifest:
    """The record of a finished output."""

    rows: int
    dimension: int
    model: str  # its name or folder, or the class of an object
    made_from: Identity
    parts: dict[str, str] = field(default_factory=dict)  # file -> its checksum

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "Manifest":
        """The manifest that was read from a file."""
        return cls(**{**record, "made_from": Identity(**record["made_from"])})
