"""A sentence and its translation, and a preset that asks for the translations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import isotrope
from drawn import draw, scores
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms.translated import Translated
from oracle import losses as oracle


def test_it_is_nt_xent_of_what_the_projector_gives() -> None:
    made: Translated = component("terms", "translated", size=7).build(BuildContext(width=4)).double()
    stack = draw(2, 5, 4)
    assert made(scores(stack)).item() == pytest.approx(oracle.nt_xent(*made.projector(stack), 0.01), rel=1e-9)


def test_the_preset_asks_for_the_column(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    def train(corpus: Path, **options: str) -> Any:
        return isotrope.train(
            corpus, output=tmp_path / "run", preset="contrastive-bt", model=str(tiny_model), dev="none", labels="none",
            sentences=32, overrides=["train.max_length=40", "terms.translated.size=8"], **options,
        )  # fmt: skip

    with pytest.raises(UserError, match=r"the data has one column: name that column: --positive COLUMN"):
        train(corpus_file)
    table, lines = tmp_path / "table.jsonl", corpus_file.read_text().splitlines()[:40]
    table.write_text("\n".join(json.dumps({"text": one, "back": one[::-1]}) for one in lines))
    assert train(table, text="text", positive="back").record["selection"]["steps"]
