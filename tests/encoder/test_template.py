"""A template around every text: in training, saved, and in plain sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from conftest import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.load import locate
from isotrope.encoder.template import frame_ids, frame_size
from isotrope.errors import UserError

TEXT = sentences(3)


@pytest.mark.parametrize("name", ["isotrope/tiny", "isotrope/minilm"])  # a generic tokenizer, and BERT's own class
def test_the_vector_is_the_state_of_the_mask(tmp_path: Path, name: str) -> None:
    folder = locate(name)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    encoder, found = load(name, "mask", device="cpu"), []
    for text in TEXT:
        features = tokenizer(f'This sentence : "{text}" means {tokenizer.mask_token}.', return_tensors="pt")
        place = features["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        with torch.no_grad():
            found.append(model(**features).last_hidden_state[0, place].numpy())
    assert np.allclose(encoder.encode(TEXT), np.stack(found), atol=1e-5)
    save(encoder, tmp_path / "saved")
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.allclose(plain.encode(TEXT), np.stack(found), atol=1e-5)
    assert np.array_equal(load(tmp_path / "saved", device="cpu").encode(TEXT), encoder.encode(TEXT))
    again = load(tmp_path / "saved", "mask", device="cpu")
    assert np.array_equal(again.encode(TEXT), encoder.encode(TEXT)), "one template, not two"


def test_a_long_text_is_cut_and_the_template_stays(tiny_model: Path) -> None:
    encoder = load(tiny_model, "mask", device="cpu")
    before, behind = frame_size(encoder.tokenizer)
    ids = encoder.preprocess([" ".join(TEXT)], max_length=before + behind + 5)["input_ids"][0].tolist()
    first, last = frame_ids(encoder.tokenizer, 'This sentence : "{text}" means {mask}.')
    assert (ids[:before], ids[-behind:]) == (first, last)
    assert len(ids) == before + behind + 5
    assert last.count(encoder.tokenizer.mask_token_id) == 1


def test_no_weight_of_it_is_trained(tiny_model: Path, tmp_path: Path) -> None:
    save(load(tiny_model, "mask", device="cpu"), tmp_path / "saved")
    for encoder in (load(tiny_model, "mask", device="cpu"), load(tmp_path / "saved", device="cpu")):
        weights = dict(encoder[1].named_parameters())
        assert weights
        assert not any(weight.requires_grad for weight in weights.values())


@pytest.mark.parametrize("template", ["{text} means", "{mask} {mask} {text}", "a {mask}"])
def test_a_template_has_one_text_and_one_mask(tiny_model: Path, template: str) -> None:
    tokenizer = load(tiny_model, device="cpu").tokenizer
    with pytest.raises(UserError, match=r"template .* is not possible.*write {text} once"):
        frame_ids(tokenizer, template)
    tokenizer.mask_token = None
    with pytest.raises(UserError, match="needs a tokenizer with a mask token"):
        frame_ids(tokenizer, "{text} {mask}")
