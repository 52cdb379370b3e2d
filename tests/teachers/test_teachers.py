"""Teachers: right embeddings, kept once and never stale, out of the student's reach."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

import isotrope
from conftest import build_bert
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.store.cache import UNUSED
from isotrope.teachers import Context, _store
from isotrope.teachers._store import Store
from isotrope.teachers.mixture import mix
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.listmle import ListMLE
from isotrope.text.corpus import Corpus, open_corpus
from isotrope.types import Batch


@pytest.fixture(scope="module")
def corpus(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(corpus_file, cache=tmp_path_factory.mktemp("corpora"))


@pytest.fixture(scope="module")
def other_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Other weights, another dimension, its own tokenizer."""
    return build_bert(tmp_path_factory.mktemp("other-bert"), hidden=16, layers=1)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a cache of its own, in shards of 100 rows."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(_store, "SHARD", 100)
    return tmp_path / "cache" / "teachers"


def teacher(kind: str, context: Context, **options: Any) -> Any:
    return isotrope.component("teachers", kind, **options).open(context)


def batch(*rows: int) -> Batch:
    return Batch(torch.tensor(rows), torch.Generator())


def files(cache: Path) -> set[str]:
    return {path.name for path in cache.glob("*.npy")}


class Progress(list[int]):
    """Remembers where each shard began."""

    def __call__(self, model: str, done: int, total: int) -> None:
        self.append(done)


class TestEmbeddings:
    def test_are_the_models_own_on_the_unit_sphere(self, corpus: Corpus, tiny_model: Path) -> None:
        for pooling in ("mean", "cls"):
            found = teacher("cached", Context(corpus), model=str(tiny_model), pooling=pooling)(batch(5, 599, 0))
            sentences = [corpus.dataset[row]["text"] for row in (5, 599, 0)]
            expected = F.normalize(torch.from_numpy(isotrope.load(tiny_model, pooling).encode(sentences)), dim=-1)
            assert found.dtype == torch.float32
            assert torch.allclose(found, expected, atol=1e-6)

    @pytest.mark.parametrize("options", [{}, {"pooling": "cls"}, {"max_length": 6}, {"precision": "bf16"}])
    def test_cached_equals_live(self, corpus: Corpus, tiny_model: Path, options: dict[str, Any]) -> None:
        cached, live = (teacher(kind, Context(corpus), model=str(tiny_model), **options) for kind in ("cached", "live"))
        rows = batch(7, 3, 250, 599, 3)
        assert torch.allclose(cached(rows), live(rows), atol=1e-2 if "precision" in options else 1e-6)
        assert torch.allclose(cached(rows).norm(dim=-1), torch.ones(5), atol=1e-6)

    def test_options_reach_the_model(self, corpus: Corpus, tiny_model: Path) -> None:
        every = [{}, {"pooling": "cls"}, {"max_length": 6}, {"precision": "bf16"}]
        found = [teacher("live", Context(corpus), model=str(tiny_model), **options)(batch(1, 2)) for options in every]
        for options, embeddings in zip(every[1:], found[1:], strict=True):
            assert not torch.allclose(embeddings, found[0], atol=1e-5), options

    @pytest.mark.parametrize("kind", ["cached", "live"])
    def test_are_float32_within_autocast(self, corpus: Corpus, tiny_model: Path, kind: str) -> None:
        taught = teacher(kind, Context(corpus), model=str(tiny_model))
        plain = taught(batch(1, 2))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(taught(batch(1, 2)), plain)

    def test_of_a_sample_are_those_of_the_whole(self, corpus: Corpus, tiny_model: Path) -> None:
        rows = np.array([500, 17, 250, 3, 17])
        some = teacher("cached", Context(corpus, rows=rows), model=str(tiny_model))
        every = teacher("cached", Context(corpus), model=str(tiny_model))
        assert len(some.vectors) == 4
        assert torch.allclose(some(batch(250, 3, 500, 17)), every(batch(250, 3, 500, 17)), atol=1e-6)

    @pytest.mark.parametrize("row", [-1, 18, 600])
    @pytest.mark.parametrize("kind", ["sample", "cached", "live"])
    def test_of_unknown_rows_are_refused(self, corpus: Corpus, tiny_model: Path, kind: str, row: int) -> None:
        rows = np.array([17, 3]) if kind == "sample" else None
        taught = teacher(kind.replace("sample", "cached"), Context(corpus, rows=rows), model=str(tiny_model))
        if kind != "sample" and row == 18:
            assert taught(batch(3, row)).shape == (2, 32)
        else:
            with pytest.raises(UserError, match=f"row.* {row}"):
                taught(batch(3, row))

    def test_of_half_precision_weights_are_full_precision(
        self, corpus: Corpus, tiny_model: Path, tmp_path: Path
    ) -> None:
        """Computed so, too: ties that half precision makes would be there for good."""
        half = isotrope.load(tiny_model).half()
        half.save_pretrained(str(tmp_path / "half"))
        found = teacher("cached", Context(corpus), model=str(tmp_path / "half"))(batch(1, 2))
        expected = half.float().encode([corpus.dataset[row]["text"] for row in (1, 2)], convert_to_tensor=True)
        assert torch.allclose(found, F.normalize(expected.clone(), dim=-1), atol=1e-6)


class TestCache:
    def test_is_written_once_and_mapped(self, corpus: Corpus, tiny_model: Path, cache: Path) -> None:
        first, second = Progress(), Progress()
        taught = teacher("cached", Context(corpus, progress=first), model=str(tiny_model))
        again = teacher("cached", Context(corpus, progress=second), model=str(tiny_model))
        assert first == [0, 100, 200, 300, 400, 500, 600]
        assert second == []
        for store in (taught, again):
            assert isinstance(store.vectors, np.memmap)
            assert store.vectors.shape == (600, 32)
            assert not store.vectors.flags.writeable
        assert not list(cache.glob("*.part"))

    def test_serves_no_other_model_settings_corpus_or_rows(
        self, corpus: Corpus, tiny_model: Path, other_model: Path, cache: Path, tmp_path: Path
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

        plain, rows = Context(corpus), np.arange(40)
        every: list[tuple[Callable[[], str], dict[str, Any], Context]] = [
            (lambda: put(tiny_model), {}, plain),
            (lambda: put(other_model), {}, plain),
            (lambda: put(tiny_model, one_weight), {}, plain),
            (lambda: put(tiny_model, one_setting), {}, plain),
            (lambda: put(tiny_model, one_word), {}, plain),
            (lambda: put(tiny_model), {"pooling": "cls"}, plain),
            (lambda: put(tiny_model), {"max_length": 20}, plain),
            (lambda: put(tiny_model), {"precision": "bf16"}, plain),
            (lambda: put(tiny_model), {}, Context(replace(corpus, key="another"))),
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
    def test_goes_on_after_kills(self, corpus: Corpus, tiny_model: Path, cache: Path, sample: bool) -> None:
        rows = np.arange(0, 600, 2) if sample else None
        total = 300 if sample else 600
        undisturbed = np.array(teacher("cached", Context(corpus, rows=rows), model=str(tiny_model)).vectors)
        shutil.rmtree(cache)

        for kill_at in (100, 200):

            def kill(model: str, done: int, total: int, at: int = kill_at) -> None:
                if done == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            child = os.fork()
            if not child:
                try:
                    teacher("cached", Context(corpus, rows=rows, progress=kill), model=str(tiny_model))
                finally:
                    os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            assert not files(cache)

        progress = Progress()
        resumed = teacher("cached", Context(corpus, rows=rows, progress=progress), model=str(tiny_model))
        assert progress == list(range(200, total + 1, 100))
        assert np.array_equal(resumed.vectors, undisturbed)

    @pytest.mark.parametrize("length", [0, 1, 127, 128, 128 + 1, 128 + 128 * 100, 128 + 128 * 350 + 5, 128 + 128 * 600])
    def test_goes_on_from_any_length(self, corpus: Corpus, tiny_model: Path, cache: Path, length: int) -> None:
        """What a kill in the middle of a write leaves: the header has 128 bytes, a row of 32 dimensions too."""
        undisturbed = np.array(teacher("cached", Context(corpus), model=str(tiny_model)).vectors)
        whole = next(cache.glob("*.npy"))
        part = whole.rename(whole.with_suffix(".part"))
        os.truncate(part, length)
        progress = Progress()
        resumed = teacher("cached", Context(corpus, progress=progress), model=str(tiny_model))
        assert progress[0] == max(0, length - 128) // (128 * 100) * 100
        assert np.array_equal(resumed.vectors, undisturbed)
        assert whole.stat().st_size == 128 + 128 * 600

    def test_is_written_by_one_process_while_others_wait(
        self, corpus: Corpus, tiny_model: Path, tmp_path: Path
    ) -> None:
        children = []
        for number in range(3):
            if not (child := os.fork()):
                try:
                    progress = Progress()
                    found = teacher("cached", Context(corpus, progress=progress), model=str(tiny_model))(batch(0, 599))
                    np.save(tmp_path / f"{number}.npy", found.numpy())
                    (tmp_path / f"{number}.txt").write_text(str(len(progress)))
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        assert sorted((tmp_path / f"{number}.txt").read_text() for number in range(3)) == ["0", "0", "7"]
        found = [np.load(tmp_path / f"{number}.npy") for number in range(3)]
        assert np.array_equal(found[0], found[1])
        assert np.array_equal(found[0], found[2])

    def test_makes_room_after_thirty_days_without_use(
        self, corpus: Corpus, tiny_model: Path, other_model: Path, cache: Path
    ) -> None:
        def put(model: Path, **options: Any) -> str:
            before = files(cache)
            teacher("cached", Context(corpus), model=str(model), **options)
            return next(iter(files(cache) - before), "")

        old, used, fresh = put(tiny_model), put(tiny_model, pooling="cls"), put(tiny_model, max_length=9)
        (cache / "0.part").touch()
        long_ago = time.time() - UNUSED - 60
        for name in (old, used, "0.part"):
            os.utime(cache / name, (long_ago, long_ago))
        assert put(tiny_model, pooling="cls") == "", "opening it is a use"
        new = put(other_model)
        assert files(cache) == {used, fresh, new}
        assert not (cache / "0.part").exists()

    def test_names_a_damaged_file(self, corpus: Corpus, tiny_model: Path, cache: Path) -> None:
        teacher("cached", Context(corpus), model=str(tiny_model))
        os.truncate(next(cache.glob("*.npy")), 1000)
        with pytest.raises(UserError, match="damaged"):
            teacher("cached", Context(corpus), model=str(tiny_model))

    def test_asks_for_space_first(self, corpus: Corpus, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = namedtuple("usage", "total used free")
        monkeypatch.setattr(_store.shutil, "disk_usage", lambda path: usage(1 << 40, 0, 70_000))
        progress = Progress()
        with pytest.raises(UserError, match="free"):
            teacher("cached", Context(corpus, progress=progress), model=str(tiny_model))
        assert progress == []

    def test_keeps_no_nan(self, corpus: Corpus, tiny_model: Path, tmp_path: Path, cache: Path) -> None:
        broken = isotrope.load(tiny_model)
        next(broken.parameters()).data.fill_(torch.nan)
        broken.save_pretrained(str(tmp_path / "broken"))
        with pytest.raises(UserError, match="NaN"):
            teacher("cached", Context(corpus), model=str(tmp_path / "broken"))
        assert not files(cache)


class TestInitial:
    @pytest.fixture
    def student(self, tiny_model: Path) -> SentenceTransformer:
        return isotrope.load(tiny_model, "cls", dropout=0.3, max_length=12)

    @pytest.mark.parametrize(("kind", "options"), [
        ("initial", {}), ("cached", {"model": "initial"}), ("live", {"model": "initial"}),
        ("mixture", {"models": ["initial"]}), ("mixture", {"models": ["initial"], "live": True}),
    ])  # fmt: skip
    def test_stays_while_the_student_learns(
        self, corpus: Corpus, student: SentenceTransformer, kind: str, options: dict[str, Any]
    ) -> None:
        """Of the objective's parameters, all are the student's; the teacher's embeddings do not move."""
        student.train()
        taught = teacher(kind, Context(corpus, student.train()), **options)
        before, rows = taught(batch(0, 1, 2, 3)), torch.arange(4)
        expected = student.encode(list(corpus.dataset[:4]["text"]), convert_to_tensor=True)
        assert torch.allclose(before, F.normalize(expected.clone(), dim=-1), atol=1e-6)

        objective = Objective(student, {"infonce": InfoNCE(), "rank": ListMLE("rank")}, teachers={"rank": taught})
        assert {id(p) for p in objective.parameters()} == {id(p) for p in student.parameters()}
        optimizer = torch.optim.SGD(objective.parameters(), lr=0.5)
        objective.train()
        features = student.preprocess(list(corpus.dataset[:4]["text"]))
        sum(objective([features], rows).values()).backward()
        optimizer.step()
        after = student.encode(list(corpus.dataset[:4]["text"]), convert_to_tensor=True)
        assert not torch.allclose(after, expected, atol=1e-3)
        assert torch.equal(taught(batch(0, 1, 2, 3)), before)
        assert not taught(batch(0)).requires_grad

    def test_reads_at_its_own_length(self, corpus: Corpus, student: SentenceTransformer) -> None:
        plain, short = (teacher("initial", Context(corpus, student), max_length=length)(batch(1)) for length in (0, 5))
        assert not torch.allclose(plain, short, atol=1e-5)
        assert student.max_seq_length == 12

    def test_needs_a_student(self, corpus: Corpus, student: SentenceTransformer) -> None:
        with pytest.raises(UserError, match="student"):
            teacher("initial", Context(corpus))
        with pytest.raises(UserError, match="pooling"):
            teacher("live", Context(corpus, student), model="initial", pooling="mean")


class TestMixture:
    def test_golden_numbers(self, golden: Path) -> None:
        numbers = np.load(golden / "equations.npz")
        mixed = mix([torch.from_numpy(numbers["teacher_a"]), torch.from_numpy(numbers["teacher_b"])], [1, 2])
        assert mixed.shape == (12, 36)
        assert np.abs((mixed @ mixed.T).numpy() - numbers["teacher"]).max() < 1e-12

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.floats(0.01, 100), min_size=1, max_size=4), st.integers(0, 10_000))
    def test_cosines_are_the_weighted_mean(self, weights: list[float], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        parts = [torch.randn(5, 2 + i, generator=generator, dtype=torch.float64) for i in range(len(weights))]
        mixed = mix(parts, weights)
        cosines = [F.cosine_similarity(part[:, None], part[None], dim=-1) for part in parts]
        expected = sum(w / sum(weights) * c for w, c in zip(weights, cosines, strict=True))
        assert torch.allclose(mixed @ mixed.T, expected, atol=1e-12)
        assert torch.allclose(mixed.norm(dim=-1), torch.ones(5, dtype=torch.float64), atol=1e-12)

    def test_half_precision_is_widened(self) -> None:
        assert mix([torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(2, 2)], [1, 1]).dtype == torch.float32

    @pytest.mark.parametrize("live", [True, False])
    def test_of_models_with_their_own_ways(
        self, corpus: Corpus, tiny_model: Path, other_model: Path, live: bool
    ) -> None:
        options = {"pooling": ["cls", "mean"], "max_length": [8, 0], "live": live}
        models = [str(tiny_model), str(other_model)]
        mixed = teacher("mixture", Context(corpus), models=models, weights=[1, 2], **options)(batch(4, 5, 6))
        first = teacher("live", Context(corpus), model=models[0], pooling="cls", max_length=8)(batch(4, 5, 6))
        second = teacher("live", Context(corpus), model=models[1], pooling="mean")(batch(4, 5, 6))
        assert mixed.shape == (3, 32 + 16)
        assert torch.allclose(mixed @ mixed.T, (first @ first.T + 2 * second @ second.T) / 3, atol=1e-5)

    def test_weights_are_equal_by_default(self, corpus: Corpus, tiny_model: Path, other_model: Path) -> None:
        models = [str(tiny_model), str(other_model)]
        plain = teacher("mixture", Context(corpus), models=models)(batch(4, 5))
        assert torch.equal(plain, teacher("mixture", Context(corpus), models=models, weights=[3, 3])(batch(4, 5)))

    @pytest.mark.parametrize(("options", "said"), [
        ({"models": []}, "teachers.mixture.models is empty"),
        ({"models": ["a", "b"], "weights": [1]}, r"teachers.mixture.weights = \[1.0\] for 2 models"),
        ({"models": ["a"], "weights": [0]}, "some above 0"),
        ({"models": ["a"], "weights": [-1]}, r"teachers.mixture.weights.0 = -1"),
        ({"models": ["a"], "pooling": ["cls", "cls"]}, "pooling = .* for 1 models"),
        ({"models": ["a"], "pooling": ["best"]}, "teachers.mixture.pooling.0 = 'best'"),
        ({"models": ["a"], "model": "b"}, "model is an unknown key"),
        ({}, "teachers.mixture.models is missing"),
    ])  # fmt: skip
    def test_mistakes_are_named(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(UserError, match=said):
            isotrope.component("teachers", "mixture", **options)

    def test_of_a_missing_model(self, corpus: Corpus) -> None:
        with pytest.raises(UserError, match="does not exist"):
            teacher("mixture", Context(corpus), models=["./nowhere"])


def test_a_store_is_no_module(corpus: Corpus, tiny_model: Path) -> None:
    store = teacher("cached", Context(corpus), model=str(tiny_model))
    assert isinstance(store, Store)
    assert not isinstance(store, torch.nn.Module)
