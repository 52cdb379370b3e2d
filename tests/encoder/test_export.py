"""What a saved folder holds beside the weights."""

import json
from pathlib import Path

import isotrope
from isotrope.encoder import save


def test_the_latest_batch_leaves_no_trace_in_the_tokenizer(tiny_model: Path, tmp_path: Path) -> None:
    """Else a run that resumes after its last step would save another tokenizer than one without interruption."""
    model = isotrope.load(tiny_model)
    model.preprocess(["a text", "another one"], max_length=4)
    save(model, tmp_path / "model")
    kept = json.loads((tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8"))
    assert (kept["truncation"] or {}).get("max_length", model.max_seq_length) == model.max_seq_length
