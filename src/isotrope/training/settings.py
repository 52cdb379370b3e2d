"""The settings of a training run: one record, built by the command line, studies and other commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isotrope.text import Opened


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that was asked for: see `isotrope.train` for each setting.

    ``corpus`` is opened text, which a preset with ``[pairs]`` reads as documents. Models are names or folders. The
    output is the run's folder (see `isotrope.training.folder.RunFolder`); None: a temporary one.
    """

    corpus: Opened
    output: str | Path | None = None
    preset: str | Path | None = None
    model: str | None = None
    labels: str | Path | None = None
    dev: str | Sequence[str] | None = None
    data: str | Path | None = None
    seed: int = 0
    sentences: int | None = None
    overrides: Iterable[str] = ()
    prompt: str | None = None
    prompt_name: str | None = None
    positive_prompt: str | None = None
    teachers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    held_out: int = 0
    log_to: Iterable[str] = ()
    restart: bool = False
