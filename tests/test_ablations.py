"""The papers' ablations are settings: every row resolves, builds, and gives a finite loss and
gradient.
"""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel

from helpers.small_bert import build_bert
from helpers.words import WORDS
from isotrope import load
from isotrope.preset.preset import build_objective, read_preset
from isotrope.types import Batch

# BERT-base's width, which the groups divide; more sentences than 768 / 32 channels a group
D, N = 768, 26
COUNTS = {
    "whitenedcse-table3": 5, "whitenedcse-table4": 16, "whitenedcse-table5": 4, "whitenedcse-table6": 5,
    "dclr-table2": 6, "dclr-figure3": 16, "dclr-figure6": 10,
    "whitenedcse-choices": 0, "rankcse-table4": 11, "rankcse-table5": 12, "rankcse-figure3": 21,
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {}
for table in sorted(COUNTS):
    rows = tomllib.loads(
        (files("isotrope") / "studies" / f"{table}.toml").read_text(encoding="utf-8")
    )["rows"]
    ROWS |= {f"{table}: {name}": row for name, row in rows.items()}


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One random layer as wide as BERT-base."""
    folder = build_bert(tmp_path_factory.mktemp("wide"), hidden=4, layers=1)
    config = BertConfig.from_pretrained(folder, hidden_size=D, intermediate_size=16)
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    return folder


def teacher(batch: Batch) -> torch.Tensor:
    rows = torch.randn(len(batch.rows), D, generator=torch.Generator().manual_seed(1))
    rows[1] = rows[0]
    return F.normalize(rows, dim=-1)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_needs_nothing_but_settings(row: str, wide: Path) -> None:
    preset = read_preset(ROWS[row]["preset"], ROWS[row].get("set", []))
    model = load(wide, preset.encoder.pooling, dropout=preset.encoder.dropout, device="cpu").train()
    torch.manual_seed(0)
    objective = build_objective(
        preset, model, teachers=dict.fromkeys(preset.teachers, teacher)
    ).train()
    text = [f"{WORDS[i]} {WORDS[i + 40]} {WORDS[2 * i]}" for i in range(N)]
    losses = objective([model.preprocess(text)], torch.arange(N))
    assert list(losses) == list(preset.terms)
    sum(losses.values()).backward()
    gradients = [weight.grad for weight in objective.parameters() if weight.grad is not None]
    assert all(torch.isfinite(loss) for loss in losses.values())
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    assert max(gradient.abs().max() for gradient in gradients) > 0


def test_the_rows_are_those_of_the_papers() -> None:
    """How many each table has, and cells that scores can be.

    A row with another source is not the table's own.
    """
    counts = dict.fromkeys(COUNTS, 0)
    for name, row in ROWS.items():
        table = name.partition(":")[0]
        assert all(60 < cell < 90 for cell in row.get("published", {}).values())
        if (
            row["source"].lower().replace(" table ", "-table").replace(" figure ", "-figure")
            != table
        ):
            continue
        counts[table] += 1
        assert set(row) <= {"preset", "set", "published", "source"}
        if "-table" in table:
            assert row["published"], name
    assert counts == COUNTS


def test_a_table_that_is_taken_away_leaves_the_order() -> None:
    preset = read_preset("dclr", ["scores.noise=false", "views.mlp=false"])
    assert preset.scores["order"] == ["hard_negatives", "instance_weight"]
    assert "noise" not in preset.scores
    assert read_preset("dclr").scores["order"] == ["hard_negatives", "noise", "instance_weight"]
