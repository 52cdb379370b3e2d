"""What an output says of itself: rows, dimension, model, and the checksums of its parts."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

import xxhash

from isotrope.errors import UserError

# Readers of tables pass over names that begin with "_" or ".".
MANIFEST = "_manifest.json"
IDENTITY = ".job.json"
METADATA = b"isotrope"  # the key under which OUT.parquet holds its manifest


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything that decides an output."""

    output: str  # "folder" or ".parquet"
    pooling: str | None
    normalize: bool | None
    shard: int
    keep: list[str] | None
    prompt: str | None  # the words before every text
    dtype: str | None
    model: str  # checksum
    input: str  # checksum

    @property
    def key(self) -> str:
        """Checksum of all of it."""
        return xxhash.xxh3_128_hexdigest(json.dumps(asdict(self), sort_keys=True).encode())


@dataclass(frozen=True, slots=True)
class Manifest:
    """The record of a finished output."""

    key: str  # of the identity
    rows: int
    dimension: int
    model: str  # its name, or the class of an object
    shards: int
    made_from: Identity
    model_folder: str | None = None  # of a model that was given as an object
    parts: dict[str, str] = field(default_factory=dict)  # file -> its checksum

    def as_record(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any], path: object) -> "Manifest":
        """The manifest that was read from a file; UserError if it is damaged."""
        try:
            identity = Identity(**record["made_from"])
            return cls(**{**record, "made_from": identity})
        except (TypeError, KeyError) as error:
            problem = f"{path} is damaged ({error})"
            raise UserError(problem, "encode the texts again", "damaged-record") from error
