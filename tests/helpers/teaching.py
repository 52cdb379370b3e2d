"""Teachers for tests, and what they are asked."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

import isotrope
from isotrope.contract.context import BuildContext
from isotrope.text.corpus import Texts
from isotrope.types import Batch


def known(corpus: Texts, **more: Any) -> BuildContext:
    return BuildContext(corpus=corpus, **more)


def teacher(kind: str, context: BuildContext, **options: Any) -> Any:
    return isotrope.component("teachers", kind, **options).build(context)


def batch(*rows: int) -> Batch:
    return Batch(torch.tensor(rows), torch.Generator())


def files(cache: Path) -> set[str]:
    return (
        {path.name for path in cache.iterdir() if not path.name.startswith(".")}
        if cache.is_dir()
        else set()
    )


def vectors(cache: Path) -> np.ndarray:
    """Of the one teacher that is in the cache."""
    (name,) = files(cache)
    return np.fromfile(cache / name / "vectors.f32", "<f4").reshape(-1, 32)  # of the small model
