"""The quickstart's report tells the quickstart's own story."""

from __future__ import annotations

import json
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from isotrope import load
from isotrope.errors import UserError
from isotrope.quickstart.docstrings import Docstrings
from isotrope.quickstart.measures import FOUR_MODELS, MEANINGS, WHAT_TO_DO
from isotrope.quickstart.page import write_page
from isotrope.quickstart.run import POOLING


def test_all_four_stages_and_one_verdict(finished: Path) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    page = unescape((finished / "report.html").read_text(encoding="utf-8"))
    text = re.sub("<[^>]+>", "|", page)
    assert f"{result['verdict']}|" in text
    assert WHAT_TO_DO[result["verdict"]] in text
    for words in ("not judged", "no labelled pairs", "--dev"):
        assert words not in text
    for name, values in result["measures"].items():
        scale, digits = (100, 2) if "p" in values else (1, 3)
        for stage in FOUR_MODELS:
            assert f"|{scale * values[stage]:.{digits}f}|" in text, (name, stage)
        assert text.count(MEANINGS[name]) == 2  # in the table, and below its figure
    assert f"{result['text']['sentences_trained_on']:,} sentences" in text
    retrieval = result["measures"]["retrieval"]
    alone = f"{100 * (retrieval['whitened'] - retrieval['before']):+.2f}".replace("-", "−")
    assert f"Whitening alone changed retrieval by {alone} points" in text
    assert "<script" not in page
    assert "src=" not in page


def test_every_measure_has_a_figure_and_the_training_has_its_own(finished: Path) -> None:
    names = {path.stem for path in (finished / "report").glob("*.svg")}
    assert names == {*MEANINGS, "loss", "path", "in-batch", "spectrum"}
    assert re.findall('<figure id="([^"]+)"', (finished / "report.html").read_text())[:4] == list(MEANINGS)


def test_the_card_of_the_new_model_has_the_same_verdict_and_both_steps(finished: Path, text: Docstrings) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    card = (finished / "model" / "README.md").read_text(encoding="utf-8")
    assert f"**{result['verdict']}**: {WHAT_TO_DO[result['verdict']]}." in card
    assert f"{100 * result['measures']['retrieval']['trained']:.2f}" in card
    assert "### 1. Trained with `simcse-tiny`" in card
    assert "### 2. Whitened with `BERT-whitening`" in card
    assert "gao2021simcse" in card
    assert "su2021whitening" in card
    assert not [sentence for sentence in text.sentences if sentence in card]
    for name in ("whitened", "run/model"):
        assert "**Not judged.**" in (finished / name / "README.md").read_text(encoding="utf-8")


def test_somebody_s_folder_of_that_name_is_left_alone(finished: Path, tiny_model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "start"
    shutil.copytree(finished, folder, ignore=shutil.ignore_patterns("report*"))
    (folder / "report").mkdir()
    (folder / "report" / "mine.txt").write_text("mine")
    model = load(tiny_model, POOLING)
    with pytest.raises(UserError, match="holds no report"):
        write_page(json.loads((finished / "quickstart.json").read_text()), folder, model, model)
    assert not (folder / "report.html").exists()
