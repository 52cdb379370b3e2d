"""The walk of corpus and preset through a training: each door between two rooms is passed once, in
this order.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import isotrope
from isotrope.console.plain import plain_console
from isotrope.text import read_text
from isotrope.training.train import train

SOURCE = f"{Path(isotrope.__file__).parent}/"

WALK = [
    "training/train.py -> training/inputs.py:read_inputs",
    "training/inputs.py -> preset/preset.py:read_preset",  # the preset, resolved
    # read, cleaned and hashed; or documents, and pairs of them
    "training/inputs.py -> text/source.py:TextSource.texts",
    "text/source.py -> text/corpus.py:build_texts",
    "text/corpus.py -> store/cache.py:cached",
    "training/train.py -> training/prepare.py:prepare",
    "training/prepare.py -> encoder/load.py:load",
    "training/prepare.py -> preset/preset.py:build_objective",
    "training/prepare.py -> preset/preset.py:open_teachers",
    "training/train.py -> training/fit.py:fit",
    "training/fit.py -> text/tokens.py:token_data",
    "text/tokens.py -> store/cache.py:cached",
    "training/train.py -> encoder/export.py:save",
    "training/train.py -> training/judge.py:judge",
    # the card: the preset as it is shipped, for its sources
    "preset/sources.py -> preset/preset.py:read_preset",
]


@contextmanager
def calls_between_files() -> Iterator[list[str]]:
    """Collects every call from one file of the package to a function of another, other code in
    between left out.
    """
    found: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (name := frame.f_code.co_filename).startswith(SOURCE):
            return
        caller = frame.f_back
        while caller and not caller.f_code.co_filename.startswith(SOURCE):
            caller = caller.f_back
        if caller and (by := caller.f_code.co_filename) != name:
            found.append(f"{by[len(SOURCE) :]} -> {name[len(SOURCE) :]}:{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def test_corpus_and_preset_pass_each_door_once(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    opened = read_text(corpus_file)
    with calls_between_files() as calls:
        train(
            opened,
            output=tmp_path / "run",
            model=str(tiny_model),
            dev="none",
            labels="none",
            max_texts=64,
            overrides=("train.batch_size=16", "train.epochs=1"),
            console=plain_console(file=io.StringIO()),
        )
    functions = {door.partition(" -> ")[2] for door in WALK}
    assert [call for call in calls if call.partition(" -> ")[2] in functions] == WALK
