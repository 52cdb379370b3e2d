"""Teachers for tests, and what they are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import isotrope
from isotrope.teachers import Context
from isotrope.types import Batch


def teacher(kind: str, context: Context, **options: Any) -> Any:
    return isotrope.component("teachers", kind, **options).open(context)


def batch(*rows: int) -> Batch:
    return Batch(torch.tensor(rows), torch.Generator())


def files(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if not path.name.startswith(".")} if cache.is_dir() else set()


class Progress(list[int]):
    """Remembers where each shard began."""

    def __call__(self, model: str, done: int, total: int) -> None:
        self.append(done)
