"""A teacher's embeddings are its model's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import isotrope
from isotrope.errors import UserError
from isotrope.text.corpus import Texts
from teaching import batch, known, teacher


class TestEmbeddings:
    def test_are_the_models_own_on_the_unit_sphere(self, corpus: Texts, tiny_model: Path) -> None:
        for pooling in ("mean", "cls"):
            found = teacher("cached", known(corpus), model=str(tiny_model), pooling=pooling)(batch(5, 599, 0))
            sentences = [corpus.dataset[row]["text"] for row in (5, 599, 0)]
            expected = F.normalize(torch.from_numpy(isotrope.load(tiny_model, pooling).encode(sentences)), dim=-1)
            assert found.dtype == torch.float32
            assert torch.allclose(found, expected, atol=1e-6)

    def test_options_reach_the_model(self, corpus: Texts, tiny_model: Path) -> None:
        every = [{}, {"pooling": "cls"}, {"max_length": 6}, {"precision": "bf16"}, {"prompt": "song of "}]
        found = [teacher("live", known(corpus), model=str(tiny_model), **options)(batch(1, 2)) for options in every]
        for options, embeddings in zip(every[1:], found[1:], strict=True):
            assert not torch.allclose(embeddings, found[0], atol=1e-5), options

    def test_with_prompts_are_kept_apart(self, corpus: Texts, prompted_model: Path) -> None:
        options = {"models": [str(prompted_model)] * 2, "weights": [1, 0]}
        plain, own = (teacher("mixture", known(corpus), prompt=words, **options)(batch(1, 2))
                      for words in (["", ""], ["song of ", "red "]))  # fmt: skip
        sentences = [corpus.dataset[row]["text"] for row in (1, 2)]
        for words, found in (("", plain), ("song of ", own)):
            expected = isotrope.load(prompted_model, prompt=words).encode(sentences, convert_to_tensor=True).cpu()
            assert torch.allclose(found[:, :32], F.normalize(expected, dim=-1), atol=1e-5)
        with pytest.raises(UserError, match="prompt = 'red ' for the teacher 'initial'"):
            teacher("cached", known(corpus, student=isotrope.load(prompted_model)), model="initial", prompt="red ")

    @pytest.mark.parametrize("kind", ["cached", "live"])
    def test_are_float32_within_autocast(self, corpus: Texts, tiny_model: Path, kind: str) -> None:
        taught = teacher(kind, known(corpus), model=str(tiny_model))
        plain = taught(batch(1, 2))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(taught(batch(1, 2)), plain)

    @pytest.mark.parametrize("row", [-1, 18, 600])
    @pytest.mark.parametrize("kind", ["sample", "cached", "live"])
    def test_of_unknown_rows_are_refused(self, corpus: Texts, tiny_model: Path, kind: str, row: int) -> None:
        rows = np.array([17, 3]) if kind == "sample" else None
        taught = teacher(kind.replace("sample", "cached"), known(corpus, rows=rows), model=str(tiny_model))
        if kind != "sample" and row == 18:
            assert taught(batch(3, row)).shape == (2, 32)
        else:
            with pytest.raises(UserError, match=f"row.* {row}"):
                taught(batch(3, row))

    def test_of_half_precision_weights_are_full_precision(
        self, corpus: Texts, tiny_model: Path, tmp_path: Path
    ) -> None:
        """Computed so, too: ties that half precision makes would be there for good."""
        half = isotrope.load(tiny_model).half()
        half.save_pretrained(str(tmp_path / "half"))
        found = teacher("cached", known(corpus), model=str(tmp_path / "half"))(batch(1, 2))
        expected = half.float().encode([corpus.dataset[row]["text"] for row in (1, 2)], convert_to_tensor=True)
        assert torch.allclose(found, F.normalize(expected.clone(), dim=-1), atol=1e-6)
