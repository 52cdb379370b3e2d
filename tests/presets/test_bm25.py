"""The preset `bm25`: adapt, and a ranking that no model gives."""

import json
from pathlib import Path

import isotrope
from isotrope.preset.preset import read_preset


def test_it_is_adapt_with_one_more_term() -> None:
    preset, adapt = read_preset("bm25"), read_preset("adapt")
    assert set(preset.terms) - set(adapt.terms) == {"rank"}
    assert preset.teachers == {**adapt.teachers, "bm25": {"kind": "bm25"}}
    assert preset.encoder.pooling is None


def test_a_run_follows_bm25(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    overrides = ["train.batch_size=32", "train.learning_rate=1e-3", "train.epochs=2", "terms.infonce=false"]
    run = isotrope.train(
        corpus_file, output=tmp_path / "run", preset="bm25", model=str(tiny_model), sentences=384, dev="none",
        labels="none", overrides=[*overrides, "terms.hold=false", "train.eval_steps=6"],
    )  # fmt: skip
    records = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    logged = [record["rank"] for record in records if "rank" in record]
    assert logged[-1] < logged[0]
