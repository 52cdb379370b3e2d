"""What bulk encoding and search read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from hashes import Hashes
from isotrope.encoder import load
from isotrope.encoding.inputs import encoder_checksum, every_text, first_vector, opened, shown_name
from isotrope.errors import UserError
from isotrope.text.files import find_sources


def test_an_encoder_is_opened_as_it_is(tiny_model: Path) -> None:
    encoder = Hashes()
    assert opened(encoder, {"device": None}) is encoder
    assert shown_name(encoder) == f"{Hashes.__module__}.Hashes"
    with pytest.raises(UserError, match=r"pooling = 'cls' needs the name of a model: give pooling to"):
        opened(encoder, {"pooling": "cls"})
    with pytest.raises(UserError, match="None is not an encoder"):
        opened(None, {})  # type: ignore[arg-type]
    assert opened(tiny_model, {"pooling": "cls"}).encode(["a river"]).shape == (1, 32)
    assert shown_name(tiny_model) == str(tiny_model)


def test_checksums_know_models_apart(tiny_model: Path) -> None:
    encoders = [Hashes(), Hashes(seed=1), load(tiny_model), load(tiny_model, "cls")]
    found = [encoder_checksum(encoder, first_vector(encoder)) for encoder in encoders]
    assert len(set(found)) == 4
    assert encoder_checksum(encoders[2], first_vector(encoders[0])) == found[2]  # of the weights alone


def test_every_row_has_a_text(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.txt.gz", "wt", encoding="utf-8") as file:
        file.write("one \r\n\n three")
    (tmp_path / "b.csv").write_text("id,body\n1,four\n2,\n")
    sources = find_sources([tmp_path / "a.txt.gz", tmp_path / "b.csv"])
    assert list(every_text(sources, "body")) == ["one ", "", " three", "four", ""]
    (tmp_path / "c.txt").write_bytes(b"one\nna\xefve\n")
    with pytest.raises(UserError, match=r"c.txt:2 holds what is not UTF-8 text"):
        list(every_text(find_sources([tmp_path / "c.txt"]), None))
