"""Options that a study and a search of its settings share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Required, TypedDict

from rich.console import Console

from isotrope.study.plan import Place
from isotrope.study.spec import Spec, read_study


class Options(TypedDict, total=False):
    """The study's file decides what is left out here.

    output: the study's folder.
    corpus: as ``run.corpus``. This option and the next five replace keys of ``[run]``.
    backbone: in place of every preset's.
    vectors: a file of word vectors, for the rows that take it.
    sentences: of a run.
    dev: pairs that select.
    threads: processor threads of each cell. The number is part of a cell's key, so another number makes new cells.
    data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
    rows: only these.
    overrides: ``key=value`` over every cell whose preset has that component.
    jobs: processes at a time; they change no result.
    console: where to report; None reports to the terminal.
    """

    output: Required[str | Path]
    corpus: Sequence[str] | None
    backbone: str | None
    vectors: str | None
    sentences: int | None
    dev: Sequence[str] | None
    threads: int | None
    data: str | Path | None
    rows: Sequence[str]
    overrides: Sequence[str]
    jobs: int
    console: Console | None


def with_options(file: str | Path, options: Options, **run: Any) -> tuple[Spec, Place]:
    """The study, with the options and ``run`` in place of keys of its ``[run]``; and where it reads and writes.

    Raises:
        UserError: a mistake in the file or the options.
    """
    changes = {
        "corpus": options.get("corpus") or None,
        "backbone": options.get("backbone"),
        "vectors": options.get("vectors"),
        "sentences": options.get("sentences"),
        "dev": options.get("dev") or None,
        "threads": options.get("threads"),
    }
    data = str(options.get("data") or os.environ.get("ISOTROPE_DATA") or "") or None
    return read_study(file, changes | run), Place(Path(options["output"]), data, tuple(options.get("overrides", ())))
