"""``layers:3`` and ``static``: which words are understood, and what they make."""

from __future__ import annotations

from pathlib import Path

import pytest
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from conftest import build_bert
from isotrope.encoder import load
from isotrope.encoder.student import check_student, student_of
from isotrope.errors import UserError


@pytest.mark.parametrize(
    "student",
    [
        "layers", "layers:0", "layers:2:middle", "Static", "layers:-1", "tiny", "", "layers:2,inner:0",
        "layers:2,inner:3,vocabulary:4", "static,inner:3", "vocabulary:5",
    ],
)  # fmt: skip
def test_unknown_students_are_refused(student: str) -> None:
    with pytest.raises(UserError, match="is unknown: choose static, or layers:N"):
        check_student(student)


@pytest.mark.usefixtures("cached")
def test_each_student_is_made(tmp_path: Path) -> None:
    folder = build_bert(tmp_path / "teacher", layers=3)
    assert len(student_of(load(folder), None)[0].model.encoder.layer) == 3
    last = student_of(load(folder), "layers:1:last")[0].model
    whole = load(folder)[0].model
    name = "attention.self.query.weight"
    assert last.encoder.layer[0].get_parameter(name).equal(whole.encoder.layer[2].get_parameter(name))
    spread = student_of(load(folder), "layers:2")[0].model
    assert spread.encoder.layer[1].get_parameter(name).equal(whole.encoder.layer[2].get_parameter(name))
    assert isinstance(student_of(load(folder), "static")[0], StaticEmbedding)
    narrow = student_of(load(folder), "layers:2,vocabulary:60,inner:40")
    assert len(narrow.tokenizer) == 60
    assert narrow[0].model.config.intermediate_size == 40
    assert student_of(load(folder), "layers:1:last,inner:40")[0].model.config.vocab_size == whole.config.vocab_size
