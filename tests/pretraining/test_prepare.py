"""What is made of the text: once, whole, and again where it is damaged."""

import numpy as np
import pytest

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.pretraining.prepare import prepare_blocks, prepare_tokenizer, prepare_vectors
from isotrope.text.files import find_sources
from toy import TOY

QUIET = plain_console(quiet=True)


def test_each_part_is_made_once_and_again_where_it_is_damaged(corpus, tmp_path, monkeypatch):
    sources = find_sources([corpus])
    made = prepare_tokenizer(tmp_path / "tokenizer", sources, TOY, QUIET)
    blocks, unseen = prepare_blocks(tmp_path / "text", sources, [], made, TOY, QUIET)
    assert len(unseen) == TOY.held_out_blocks
    blocks = blocks.copy()
    (tmp_path / "text" / "tokens.bin").write_bytes(b"odd")
    again, _ = prepare_blocks(tmp_path / "text", sources, [], made, TOY, QUIET)
    assert np.array_equal(again, blocks)
    monkeypatch.setattr("isotrope.pretraining.prepare.train_tokenizer", None)  # it is not learnt again
    assert prepare_tokenizer(tmp_path / "tokenizer", sources, TOY, QUIET).get_vocab() == made.get_vocab()


def test_too_few_different_tokens_for_vectors_are_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="4 different tokens, too few for word vectors of width 8"):
        prepare_vectors(tmp_path / "vectors", np.zeros((2, 2), np.uint16), np.zeros((4, 8), np.float32), TOY, 0, QUIET)
    assert not (tmp_path / "vectors").exists()
