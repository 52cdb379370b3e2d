"""Teachers: a model's embeddings, kept once and never stale, or encoded anew; the student before
training; mixtures.
"""

import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer

import isotrope
from helpers.teaching import batch, files, known, teacher, vectors
from helpers.words import sentences
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.store import files as store_files
from isotrope.store.files import DRAFT
from isotrope.teachers.mixture import mix
from isotrope.terms.infonce import InfoNCE
from isotrope.terms.listmle import ListMLE
from isotrope.text import read_text
from isotrope.text.corpus import Texts


class TestEmbeddings:
    def test_with_prompts_are_kept_apart(self, corpus: Texts, prompted_model: Path) -> None:
        options = {"models": [str(prompted_model)] * 2, "weights": [1, 0]}
        plain, own = (
            teacher("mixture", known(corpus), prompt=words, **options)(batch(1, 2))
            for words in (["", ""], ["song of ", "red "])
        )
        sentences = [corpus.dataset[row]["text"] for row in (1, 2)]
        for words, found in (("", plain), ("song of ", own)):
            expected = (
                isotrope.load(prompted_model, prompt=words)
                .encode(sentences, convert_to_tensor=True)
                .cpu()
            )
            assert torch.allclose(found[:, :32], F.normalize(expected, dim=-1), atol=1e-5)
        with pytest.raises(UserError, match="'initial' has the student's pooling and prompt"):
            teacher(
                "cached",
                known(corpus, student=isotrope.load(prompted_model)),
                model="initial",
                prompt="red ",
            )

    @pytest.mark.parametrize("kind", ["sample", "cached", "live"])
    def test_of_unknown_rows_are_refused(self, corpus: Texts, tiny_model: Path, kind: str) -> None:
        rows = np.array([17, 3]) if kind == "sample" else None
        taught = teacher(
            kind.replace("sample", "cached"), known(corpus, rows=rows), model=str(tiny_model)
        )
        for row in (-1, 600) if rows is None else (-1, 18, 600):
            with pytest.raises(UserError, match=f"row.* {row}"):
                taught(batch(3, row))

    def test_of_half_precision_weights_are_full_precision(
        self, corpus: Texts, tiny_model: Path, tmp_path: Path
    ) -> None:
        """Computed so, too: ties that half precision makes would be there for good."""
        half = isotrope.load(tiny_model).half()
        half.save_pretrained(str(tmp_path / "half"))
        found = teacher("cached", known(corpus), model=str(tmp_path / "half"))(batch(1, 2))
        expected = half.float().encode(
            [corpus.dataset[row]["text"] for row in (1, 2)], convert_to_tensor=True
        )
        assert torch.allclose(found, F.normalize(expected.clone(), dim=-1), atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"pooling": "cls"}, {"max_length": 6}, {"precision": "bf16"}]
)
def test_cached_and_live_are_the_models_own(
    corpus: Texts, tiny_model: Path, cache: Path, options: dict[str, Any]
) -> None:
    live = teacher("live", known(corpus, rows=np.arange(4)), model=str(tiny_model), **options)
    numbers, tolerance = (7, 3, 250, 599, 3), 1e-2 if "precision" in options else 1e-6
    found = live(batch(*numbers))
    assert not cache.exists(), "nothing is kept"
    cached = teacher("cached", known(corpus), model=str(tiny_model), **options)
    assert torch.allclose(cached(batch(*numbers)), found, atol=tolerance)
    model = isotrope.load(tiny_model, options.get("pooling"), max_length=options.get("max_length"))
    expected = model.encode(
        [corpus.dataset[row]["text"] for row in numbers], convert_to_tensor=True
    )
    assert torch.allclose(found, F.normalize(expected.clone(), dim=-1), atol=tolerance)


def test_of_a_sample_are_those_of_the_whole(corpus: Texts, tiny_model: Path) -> None:
    rows = np.array([500, 17, 250, 3, 17])
    some = teacher("cached", known(corpus, rows=rows), model=str(tiny_model))
    every = teacher("cached", known(corpus), model=str(tiny_model))
    assert torch.allclose(some(batch(250, 3, 500, 17)), every(batch(250, 3, 500, 17)), atol=1e-6)


class TestInitial:
    @pytest.fixture
    def student(self, tiny_model: Path) -> SentenceTransformer:
        return isotrope.load(tiny_model, "cls", dropout=0.3, max_length=12)

    @pytest.mark.parametrize(
        ("kind", "options"),
        [
            ("initial", {}),
            ("live", {"model": "initial"}),
            ("mixture", {"models": ["initial"]}),
        ],
    )
    def test_stays_while_the_student_learns(
        self, corpus: Texts, student: SentenceTransformer, kind: str, options: dict[str, Any]
    ) -> None:
        """Of the objective's parameters, all are the student's; the teacher's embeddings do not
        move.
        """
        student.train()
        taught = teacher(kind, known(corpus, student=student.train()), **options)
        before, rows = taught(batch(0, 1, 2, 3)), torch.arange(4)
        expected = student.encode(list(corpus.dataset[:4]["text"]), convert_to_tensor=True)
        assert torch.allclose(before, F.normalize(expected.clone(), dim=-1), atol=1e-6)

        objective = Objective(
            student, {"infonce": InfoNCE(), "rank": ListMLE("rank")}, teachers={"rank": taught}
        )
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

    def test_reads_at_its_own_length(self, corpus: Texts, student: SentenceTransformer) -> None:
        context = known(corpus, student=student)
        plain, short = (
            teacher("initial", context, max_length=length)(batch(1)) for length in (0, 5)
        )
        assert not torch.allclose(plain, short, atol=1e-5)
        assert student.max_seq_length == 12


class TestMixture:
    def test_golden_numbers(self, golden: Path) -> None:
        numbers = np.load(golden / "equations.npz")
        mixed = mix(
            [torch.from_numpy(numbers["teacher_a"]), torch.from_numpy(numbers["teacher_b"])], [1, 2]
        )
        assert mixed.shape == (12, 36)
        assert np.abs((mixed @ mixed.T).numpy() - numbers["teacher"]).max() < 1e-12

    @settings(max_examples=25, deadline=None)
    @given(st.lists(st.floats(0.01, 100), min_size=1, max_size=4), st.integers(0, 10_000))
    def test_cosines_are_the_weighted_mean(self, weights: list[float], seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        parts = [
            torch.randn(5, 2 + i, generator=generator, dtype=torch.float64)
            for i in range(len(weights))
        ]
        mixed = mix(parts, weights)
        cosines = [F.cosine_similarity(part[:, None], part[None], dim=-1) for part in parts]
        expected = sum(w / sum(weights) * c for w, c in zip(weights, cosines, strict=True))
        assert torch.allclose(mixed @ mixed.T, expected, atol=1e-12)
        assert torch.allclose(mixed.norm(dim=-1), torch.ones(5, dtype=torch.float64), atol=1e-12)

    @pytest.mark.parametrize("live", [True, False])
    def test_of_models_with_their_own_ways(
        self, corpus: Texts, tiny_model: Path, other_model: Path, live: bool
    ) -> None:
        options = {"pooling": ["cls", "mean"], "max_length": [8, 0], "live": live}
        models = [str(tiny_model), str(other_model)]
        of_both = teacher("mixture", known(corpus), models=models, weights=[1, 2], **options)
        mixed = of_both(batch(4, 5, 6))
        first = teacher("live", known(corpus), model=models[0], pooling="cls", max_length=8)(
            batch(4, 5, 6)
        )
        second = teacher("live", known(corpus), model=models[1], pooling="mean")(batch(4, 5, 6))
        assert mixed.shape == (3, of_both.width) == (3, 32 + 16)
        unopened = isotrope.component("teachers", "mixture", models=models)
        assert unopened.width_in(known(corpus)) == 32 + 16, "before anything is encoded"
        assert torch.allclose(
            mixed @ mixed.T, (first @ first.T + 2 * second @ second.T) / 3, atol=1e-5
        )

    def test_one_length_for_all_and_that_of_the_student_in_training(
        self, corpus: Texts, tiny_model: Path, other_model: Path
    ) -> None:
        def rows(length: Any, in_training: int | None = None) -> torch.Tensor:
            context, models = (
                known(corpus, max_length=in_training),
                [str(tiny_model), str(other_model)],
            )
            return teacher("mixture", context, models=models, max_length=length, live=True)(
                batch(4, 5, 6)
            )

        five, whole = rows([5, 5]), rows(0)
        assert torch.equal(rows(5), five)
        assert torch.equal(rows("train", 5), five)
        assert not torch.equal(five, whole)
        assert torch.equal(rows("train", 4096), whole), "never more than a model can read"
        with pytest.raises(UserError, match="needs the max_length of its run"):
            rows("train")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"models": []}, r"teachers.mixture.models = \[\] is not possible"),
            (
                {"models": ["a", "b"], "weights": [1]},
                r"teachers.mixture.weights = \[1.0\] for 2 models",
            ),
            ({"models": ["a"], "weights": [-1]}, r"teachers.mixture.weights.0 = -1"),
            ({"models": ["a"], "pooling": ["cls", "cls"]}, "pooling = .* for 1 models"),
            ({"models": ["a"], "pooling": ["best"]}, "teachers.mixture.pooling.0 = 'best'"),
        ],
    )
    def test_mistakes_are_named(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(UserError, match=said):
            isotrope.component("teachers", "mixture", **options)


class TestCache:
    def test_is_written_once_and_mapped(
        self, corpus: Texts, tiny_model: Path, cache: Path, shards: Any
    ) -> None:
        taught, again = (teacher("cached", known(corpus), model=str(tiny_model)) for _ in range(2))
        assert shards == [0, 100, 200, 300, 400, 500]
        assert vectors(cache).shape == (600, taught.width) == (600, again.width)
        assert not list(cache.glob(f".*{DRAFT}"))

    def test_serves_no_other_model_settings_corpus_or_rows(
        self, tiny_model: Path, other_model: Path, cache: Path, tmp_path: Path
    ) -> None:
        """The models here lie in one folder, one after the other: a path says nothing about
        weights.
        """
        place, text = tmp_path / "model", tmp_path / "few.txt"
        text.write_text("\n".join(sentences(50)))
        corpus = read_text(text).texts()

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
        # the same rows
        teacher("cached", replace(plain, rows=rows[::-1].copy()), model=str(tiny_model))
        teacher("cached", replace(plain, rows=np.arange(50)), model=str(tiny_model))  # all
        assert len(files(cache)) == len(every)

    @pytest.mark.parametrize("sample", [False, True])
    def test_goes_on_after_kills(
        self, corpus: Texts, tiny_model: Path, cache: Path, shards: Any, sample: bool
    ) -> None:
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
        monkeypatch.setattr(
            store_files.shutil, "disk_usage", lambda folder: SimpleNamespace(free=70_000)
        )
        with pytest.raises(UserError, match="live = true"):
            teacher("cached", known(corpus), model=str(tiny_model))
        assert not shards
