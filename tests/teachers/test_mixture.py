"""Several teachers as one: the weighted mean of their cosines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import isotrope
from isotrope.errors import UserError
from isotrope.teachers.mixture import mix
from isotrope.text.corpus import Texts
from teaching import batch, known, teacher


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
        self, corpus: Texts, tiny_model: Path, other_model: Path, live: bool
    ) -> None:
        options = {"pooling": ["cls", "mean"], "max_length": [8, 0], "live": live}
        models = [str(tiny_model), str(other_model)]
        of_both = teacher("mixture", known(corpus), models=models, weights=[1, 2], **options)
        mixed = of_both(batch(4, 5, 6))
        first = teacher("live", known(corpus), model=models[0], pooling="cls", max_length=8)(batch(4, 5, 6))
        second = teacher("live", known(corpus), model=models[1], pooling="mean")(batch(4, 5, 6))
        assert mixed.shape == (3, of_both.width) == (3, 32 + 16)
        unopened = isotrope.component("teachers", "mixture", models=models)
        assert unopened.width_in(known(corpus)) == 32 + 16, "before anything is encoded"
        assert torch.allclose(mixed @ mixed.T, (first @ first.T + 2 * second @ second.T) / 3, atol=1e-5)

    @pytest.mark.parametrize("live", [True, False])
    def test_one_length_for_all_and_that_of_the_student_in_training(
        self, corpus: Texts, tiny_model: Path, other_model: Path, live: bool
    ) -> None:
        models = [str(tiny_model), str(other_model)]
        five = teacher("mixture", known(corpus), models=models, max_length=[5, 5], live=live)(batch(4, 5, 6))
        whole = teacher("mixture", known(corpus), models=models, live=live)(batch(4, 5, 6))
        for length, context in ((5, known(corpus)), ("train", known(corpus, max_length=5))):
            found = teacher("mixture", context, models=models, max_length=length, live=live)(batch(4, 5, 6))
            assert torch.equal(found, five)
            assert not torch.equal(found, whole)
        far = teacher("mixture", known(corpus, max_length=4096), models=models, max_length="train", live=live)
        assert torch.equal(far(batch(4, 5, 6)), whole), "never more than a model can read"
        with pytest.raises(UserError, match="needs the max_length of its run"):
            teacher("mixture", known(corpus), models=models, max_length="train", live=live)

    def test_weights_are_equal_by_default(self, corpus: Texts, tiny_model: Path, other_model: Path) -> None:
        models = [str(tiny_model), str(other_model)]
        plain = teacher("mixture", known(corpus), models=models)(batch(4, 5))
        assert torch.equal(plain, teacher("mixture", known(corpus), models=models, weights=[3, 3])(batch(4, 5)))

    @pytest.mark.parametrize(("options", "said"), [
        ({"models": []}, "for 0 models: name at least one"),
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

    def test_of_a_missing_model(self, corpus: Texts) -> None:
        with pytest.raises(UserError, match="does not exist"):
            teacher("mixture", known(corpus), models=["./nowhere"])
