"""Embeddings of a corpus: kept once, never stale, resumed after a kill."""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conftest import sentences
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.store import disk
from isotrope.store.mark import DRAFT
from isotrope.text.corpus import Texts
from isotrope.text.opened import open as text_open
from teaching import files, known, teacher, vectors


class TestCache:
    def test_is_written_once_and_mapped(self, corpus: Texts, tiny_model: Path, cache: Path, shards: Any) -> None:
        taught, again = (teacher("cached", known(corpus), model=str(tiny_model)) for _ in range(2))
        assert shards == [0, 100, 200, 300, 400, 500]
        assert vectors(cache).shape == (600, taught.width) == (600, again.width)
        assert not list(cache.glob(f".*{DRAFT}"))

    def test_serves_no_other_model_settings_corpus_or_rows(
        self, tiny_model: Path, other_model: Path, cache: Path, tmp_path: Path
    ) -> None:
        """The models here lie in one folder, one after the other: a path says nothing about weights."""
        place, text = tmp_path / "model", tmp_path / "few.txt"
        text.write_text("\n".join(sentences(50)))
        corpus = text_open(text).texts()

        def put(source: Path) -> str:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place)
            return str(place)

        plain, rows = known(corpus), np.arange(40)
        every: list[tuple[Path, dict[str, Any], BuildContext]] = [
            (tiny_model, {}, plain),
            (other_model, {}, plain),
            (tiny_model, {"pooling": "cls"}, plain),
            (tiny_model, {"max_length": 20}, plain),
            (tiny_model, {"precision": "bf16"}, plain),
            (tiny_model, {}, known(replace(corpus, key="another"))),
            (tiny_model, {}, replace(plain, rows=rows)),
            (tiny_model, {}, replace(plain, rows=rows + 1)),
        ]
        for number, (model, options, context) in enumerate(every, 1):
            teacher("cached", context, model=put(model), **options)
            assert len(files(cache)) == number, (number, options)
        for model, options, context in every:
            teacher("cached", context, model=put(model), **options)
        teacher("cached", plain, model=str(tiny_model))  # the same model elsewhere
        teacher("cached", replace(plain, rows=rows[::-1].copy()), model=str(tiny_model))  # the same rows
        teacher("cached", replace(plain, rows=np.arange(50)), model=str(tiny_model))  # all
        assert len(files(cache)) == len(every)

    @pytest.mark.parametrize("sample", [False, True])
    def test_goes_on_after_kills(self, corpus: Texts, tiny_model: Path, cache: Path, shards: Any, sample: bool) -> None:
        context = known(corpus, rows=np.arange(0, 600, 2) if sample else None)
        teacher("cached", context, model=str(tiny_model))
        undisturbed = vectors(cache)
        shutil.rmtree(cache)
        for kill_at in (100, 200):
            child = os.fork()
            if not child:
                shards.kill_at = kill_at
                try:
                    teacher("cached", context, model=str(tiny_model))
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            assert not files(cache)
        shards.clear()
        teacher("cached", context, model=str(tiny_model))
        assert shards == list(range(200, len(undisturbed), 100))
        assert np.array_equal(vectors(cache), undisturbed)

    def test_asks_for_space_first(
        self, corpus: Texts, tiny_model: Path, shards: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: SimpleNamespace(free=70_000))
        with pytest.raises(UserError, match="live = true"):
            teacher("cached", known(corpus), model=str(tiny_model))
        assert not shards
