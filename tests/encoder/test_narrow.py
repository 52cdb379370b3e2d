"""A student with fewer tokens and fewer inner units: what stays is as it was, also when saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models
from torch.testing import assert_close
from transformers import PreTrainedTokenizerFast

from conftest import build_bert
from isotrope.encoder import load, save
from isotrope.encoder.narrow import keep_tokens, keep_units, unit_norms
from isotrope.errors import UserError
from small_encoders import KINDS, batch, random_model

LETTERS = 5 + 26 + 26  # the tokens of `build_bert` before its words


def test_a_text_of_kept_tokens_has_the_same_vector_and_other_words_are_read_in_pieces(tiny_model: Path) -> None:
    whole, cut = load(tiny_model, "mean"), keep_tokens(load(tiny_model, "mean"), LETTERS)
    assert cut[0].auto_model.config.vocab_size == len(cut.tokenizer) == LETTERS
    text = "q z j"
    assert_close(cut.encode([text]), whole.encode([text]))
    assert cut.tokenizer.tokenize("king") == ["k", "##i", "##n", "##g"]
    assert whole.tokenizer.tokenize("king") == ["king"]
    assert cut.tokenizer.model_max_length == whole.tokenizer.model_max_length
    assert cut.tokenizer.pad_token_id == whole.tokenizer.pad_token_id


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, r"vocabulary:0: the model has \d+ tokens: choose fewer than"),
        (10**6, r"vocabulary:1000000: the model has \d+ tokens: choose fewer than \d+, or leave it out"),
        (4, r"vocabulary:4: \[MASK\] is behind them: choose more tokens"),
        (20, r"vocabulary:20: p is behind them"),
    ],
)
def test_a_vocabulary_that_cannot_be_cut_is_refused(count: int, words: str, tiny_model: Path) -> None:
    with pytest.raises(UserError, match=words):
        keep_tokens(load(tiny_model), count)


def test_what_is_no_wordpiece_or_no_language_model_is_refused(tiny_model: Path) -> None:
    other = load(tiny_model)
    other[0].processor = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()))
    with pytest.raises(UserError, match="vocabulary:9: the tokenizer is a BPE: this needs a WordPiece"):
        keep_tokens(other, 9)
    with pytest.raises(UserError, match="inner:9: a modernbert has no two matrices of 384 units a layer"):
        keep_units(load("isotrope/tiny"), 9)
    with pytest.raises(UserError, match="inner:9: a Linear has no layers"):
        keep_units(torch.nn.Sequential(torch.nn.Linear(2, 2)), 9)  # type: ignore[arg-type]


def test_the_norm_of_a_unit_is_what_it_reads_times_what_it_writes() -> None:
    reads, writes = torch.tensor([[3.0, 4.0], [1.0, 0.0]]), torch.tensor([[2.0, 0.0], [0.0, 7.0], [0.0, 0.0]])
    assert unit_norms(reads, writes).tolist() == [10.0, 7.0]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ModernBert"])
def test_units_that_do_nothing_can_go_without_a_change(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, features = random_model(kind).eval(), batch()
    monkeypatch.setattr("isotrope.encoder.narrow._language_model", lambda model, _: model[0])
    dead = torch.arange(24) % 3 == 1  # 8 of 24 units
    with torch.no_grad():
        for module in whole.modules():
            if isinstance(module, torch.nn.Linear) and module.in_features == 24:
                module.weight[:, dead] = 0.0
        expected = whole(**features).last_hidden_state
        holder = torch.nn.Module()
        holder.auto_model = whole
        keep_units([holder], 16)  # type: ignore[arg-type]
        found = whole(**features).last_hidden_state
    real = features["attention_mask"].bool()
    assert_close(found[real], expected[real])
    assert not any(24 in module.weight.shape for module in whole.modules() if isinstance(module, torch.nn.Linear))


def test_too_many_units_are_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError, match="inner:64: the model has 64 inner units: choose fewer than 64"):
        keep_units(load(tiny_model), 64)


def test_a_narrow_student_is_saved_whole(tmp_path: Path) -> None:
    student = keep_units(keep_tokens(load(build_bert(tmp_path / "teacher"), "mean"), 60), 40)
    save(student, tmp_path / "student")
    texts = ["the old king of the island", "a red bird", "war"]
    expected = student.encode(texts)
    assert_close(load(tmp_path / "student").encode(texts), expected)
    assert_close(SentenceTransformer(str(tmp_path / "student"), device="cpu").encode(texts), expected)
