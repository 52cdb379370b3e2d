"""Embeddings of a corpus: kept once, never stale, resumed after a kill."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.store import disk
from isotrope.store.mark import DRAFT
from isotrope.text.corpus import Texts
from teaching import Progress, files, known, teacher


class TestCache:
    def test_is_written_once_and_mapped(self, corpus: Texts, tiny_model: Path, cache: Path) -> None:
        first, second = Progress(), Progress()
        taught = teacher("cached", known(corpus, progress=first), model=str(tiny_model))
        again = teacher("cached", known(corpus, progress=second), model=str(tiny_model))
        assert first == [0, 100, 200, 300, 400, 500, 600]
        assert second == []
        for store in (taught, again):
            assert isinstance(store.vectors, np.memmap)
            assert store.vectors.shape == (600, 32)
            assert not store.vectors.flags.writeable
        assert not list(cache.glob(f".*{DRAFT}"))

    def test_serves_no_other_model_settings_corpus_or_rows(
        self, corpus: Texts, tiny_model: Path, other_model: Path, cache: Path, tmp_path: Path
    ) -> None:
        """The models here lie in one folder, one after the other: a path says nothing about weights."""
        place = tmp_path / "model"

        def put(source: Path, change: Callable[[Path], object] = lambda folder: None) -> str:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(source, place)
            change(place)
            return str(place)

        def one_weight(folder: Path) -> None:
            weights = load_file(folder / "model.safetensors")
            weights["embeddings.word_embeddings.weight"][7, 7] += 1e-3
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

        def one_setting(folder: Path) -> None:
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}))

        def one_word(folder: Path) -> None:
            text = (folder / "tokenizer.json").read_text()
            (folder / "tokenizer.json").write_text(text.replace('"river"', '"rivers"'))

        plain, rows = known(corpus), np.arange(40)
        every: list[tuple[Callable[[], str], dict[str, Any], BuildContext]] = [
            (lambda: put(tiny_model), {}, plain),
            (lambda: put(other_model), {}, plain),
            (lambda: put(tiny_model, one_weight), {}, plain),
            (lambda: put(tiny_model, one_setting), {}, plain),
            (lambda: put(tiny_model, one_word), {}, plain),
            (lambda: put(tiny_model), {"pooling": "cls"}, plain),
            (lambda: put(tiny_model), {"max_length": 20}, plain),
            (lambda: put(tiny_model), {"precision": "bf16"}, plain),
            (lambda: put(tiny_model), {}, known(replace(corpus, key="another"))),
            (lambda: put(tiny_model), {}, replace(plain, rows=rows)),
            (lambda: put(tiny_model), {}, replace(plain, rows=rows + 1)),
        ]
        for number, (model, options, context) in enumerate(every, 1):
            teacher("cached", context, model=model(), **options)
            assert len(files(cache)) == number, (number, options)
        for model, options, context in every:
            teacher("cached", context, model=model(), **options)
        teacher("cached", plain, model=str(tiny_model))  # the same model elsewhere
        teacher("cached", replace(plain, rows=rows[::-1].copy()), model=str(tiny_model))  # the same rows
        teacher("cached", replace(plain, rows=np.arange(600)), model=str(tiny_model))  # all
        assert len(files(cache)) == len(every)

    @pytest.mark.parametrize("sample", [False, True])
    def test_goes_on_after_kills(self, corpus: Texts, tiny_model: Path, cache: Path, sample: bool) -> None:
        rows = np.arange(0, 600, 2) if sample else None
        total = 300 if sample else 600
        undisturbed = np.array(teacher("cached", known(corpus, rows=rows), model=str(tiny_model)).vectors)
        shutil.rmtree(cache)

        for kill_at in (100, 200):

            def kill(model: str, done: int, total: int, at: int = kill_at) -> None:
                if done == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            child = os.fork()
            if not child:
                try:
                    teacher("cached", known(corpus, rows=rows, progress=kill), model=str(tiny_model))
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            assert not files(cache)

        progress = Progress()
        resumed = teacher("cached", known(corpus, rows=rows, progress=progress), model=str(tiny_model))
        assert progress == list(range(200, total + 1, 100))
        assert np.array_equal(resumed.vectors, undisturbed)

    def test_asks_for_space_first(self, corpus: Texts, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: SimpleNamespace(free=70_000))
        progress = Progress()
        with pytest.raises(UserError, match="live = true"):
            teacher("cached", known(corpus, progress=progress), model=str(tiny_model))
        assert progress == []
