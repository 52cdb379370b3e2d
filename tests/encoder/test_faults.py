"""What the first module of a folder is; the messages of broken models are tested with `isotrope.load`."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.encoder.faults import first_module, no_tokenizer


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '[{"path": ""}]', "\xff"])
def test_a_folder_without_readable_modules_counts_as_a_language_model(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "modules.json").write_text(text, encoding="latin-1")
    assert first_module(tmp_path) == "Transformer"


def test_the_first_module_is_called_by_its_class(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text('[{"type": "sentence_transformers.models.StaticEmbedding"}]')
    assert first_module(tmp_path) == "StaticEmbedding"
    assert "put the tokenizer's files" in str(no_tokenizer("some-model"))
