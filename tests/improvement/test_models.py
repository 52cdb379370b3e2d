"""The models of a race, before any long work."""

import shutil
from pathlib import Path

import pytest
from sentence_transformers import CrossEncoder
from transformers import AutoModelForSequenceClassification

from helpers.refusals import refused
from isotrope.improvement.models import Models


@pytest.mark.parametrize("role", ["model", "teacher"])
def test_a_cross_encoder_is_refused(role: str, tiny_model: Path, tmp_path: Path) -> None:
    raw = shutil.copytree(tiny_model, tmp_path / "raw")
    scorer = AutoModelForSequenceClassification.from_pretrained(tiny_model, num_labels=1)
    scorer.save_pretrained(raw)
    cross = tmp_path / "cross"
    CrossEncoder(str(raw), device="cpu").save_pretrained(str(cross))

    given, teachers = (cross, []) if role == "model" else (tiny_model, [cross])
    models = Models.locate(given, None, [], teachers)
    with refused("cross-encoder", cross):
        models.check()
