"""How isotrope/small was begun: parts of a BERT that can go without a change, or nearly so."""

from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch.testing import assert_close

from benchmarks.models.shrink import keep_tokens, keep_units, narrow_embeddings
from helpers.small_bert import build_bert
from isotrope.encoder import load, save

TEXTS = ["the old king of the island", "a red bird", "war"]


def test_a_text_that_needs_no_lost_token_keeps_its_vector(tmp_path: Path) -> None:
    whole = load(build_bert(tmp_path / "teacher"), "mean", device="cpu")
    count = len(whole.tokenizer) - 20
    small = keep_tokens(load(tmp_path / "teacher", "mean", device="cpu"), count)
    assert len(small.tokenizer) == count
    known = small.tokenizer.get_vocab().keys()
    kept = [name for name in whole.tokenizer.get_vocab() if name.isalpha() and name in known]
    assert len(kept) > 10
    np.testing.assert_array_equal(small.encode(kept), whole.encode(kept))


def test_narrow_embeddings_of_few_directions_say_the_same(tmp_path: Path) -> None:
    """Tokens and places that differ in 10 directions have the same vectors with 12 numbers, also
    when saved.
    """
    teacher = load(build_bert(tmp_path / "teacher"), "mean", device="cpu")
    own = teacher[0].auto_model.embeddings
    inside = torch.linalg.qr(torch.randn(32, 10, generator=torch.Generator().manual_seed(0)))[0]
    with torch.no_grad():
        for table in (own.word_embeddings, own.position_embeddings, own.token_type_embeddings):
            table.weight.copy_(table.weight @ inside @ inside.T)
        own.LayerNorm.weight.uniform_(0.5, 2)
        own.LayerNorm.bias.uniform_(-1, 1)
    expected = teacher.encode(TEXTS)
    narrow = narrow_embeddings(teacher, 12)
    assert narrow[0].auto_model.get_input_embeddings().weight.shape[1] == 12
    assert_close(narrow.encode(TEXTS), expected, atol=1e-4, rtol=1e-4)
    save(narrow, tmp_path / "narrow")
    saved = SentenceTransformer(str(tmp_path / "narrow"), device="cpu")
    assert_close(saved.encode(TEXTS), narrow.encode(TEXTS), atol=1e-6, rtol=0.0)


def test_units_that_do_nothing_can_go_without_a_change(tmp_path: Path) -> None:
    model = load(build_bert(tmp_path / "teacher"), "mean", device="cpu")
    units = model[0].auto_model.config.intermediate_size
    dead = torch.arange(units) % 4 == 1
    with torch.no_grad():
        for layer in model[0].auto_model.encoder.layer:
            layer.output.dense.weight[:, dead] = 0.0
    expected = model.encode(TEXTS)
    smaller = keep_units(model, units - int(dead.sum()))
    assert_close(smaller.encode(TEXTS), expected)
    assert smaller[0].auto_model.config.intermediate_size < units
