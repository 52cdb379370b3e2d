"""Text to one row of ids on disk."""

import numpy as np
import pytest

from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.pretraining.stream import blocks_of, write_ids
from isotrope.text.files import find_sources


def test_the_stream_is_every_sentence_framed_one_after_the_other(tokenizer, tmp_path):
    source = tmp_path / "text.txt"
    source.write_bytes("the cat .\n\n  a   dog\nbad \xff byte\nthe tree\n".encode("latin-1"))
    target = tmp_path / "tokens.bin"
    write_ids(find_sources([source]), tokenizer, target, plain_console(quiet=True))
    expected = [id for text in ("the cat .", "a dog", "the tree") for id in tokenizer(text)["input_ids"]]
    assert np.fromfile(target, np.uint16).tolist() == expected
    assert blocks_of(target, 4).tolist() == np.reshape(expected[:12], (3, 4)).tolist()


def test_text_without_a_sentence_leaves_no_file(tokenizer, tmp_path):
    source = tmp_path / "text.txt"
    source.write_text("\n \n")
    with pytest.raises(UserError, match="no text"):
        write_ids(find_sources([source]), tokenizer, tmp_path / "tokens.bin", plain_console(quiet=True))
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


def test_a_split_frames_each_sentence(tokenizer, tmp_path):
    source = tmp_path / "text.md"
    source.write_text("# the cat\n\nthe tree is here. the dog is here.\n")
    write_ids(find_sources([source], "sentences"), tokenizer, tmp_path / "ids.bin", plain_console(quiet=True))
    expected = [
        id for text in ("the cat", "the tree is here.", "the dog is here.") for id in tokenizer(text)["input_ids"]
    ]
    assert np.fromfile(tmp_path / "ids.bin", np.uint16).tolist() == expected
