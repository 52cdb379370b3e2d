"""The card of a run's model."""

from __future__ import annotations

import json
from pathlib import Path

from sentence_transformers import SentenceTransformer

from isotrope.run.train import Run


def test_it_tells_the_run_and_no_text_of_it(finished: Run, corpus_file: Path, tiny_model: Path) -> None:
    text = (finished.model / "README.md").read_text(encoding="utf-8")
    result = finished.result
    (scores,) = result["comparison"]["per_task"].values()
    for words in (
        f"**{result['verdict']}**: {result['advice']}.",
        f"{100 * scores['before']:.2f} | {100 * scores['after']:.2f}",
        "### 1. Trained with `simcse`",
        f"| text | `{corpus_file.name}` |",
        f"{result['corpus']['used']:,} of {result['corpus']['rows']:,}",
        result["corpus"]["key"],
        "| `train.batch_size` | `16` | set for this run |",
        "| `views.passes` | `2` | SimCSE Sec. 3 |",
        "| `seed` | `0` |",
        "gao2021simcse",
        "Labelled pairs chose the checkpoint (pairs)",
        "at most 32 tokens",
    ):
        assert words in text, words
    assert f"`{json.dumps(tiny_model.name)}`" in text
    assert str(tiny_model.parent) not in text
    assert str(corpus_file.parent) not in text
    assert not [sentence for sentence in corpus_file.read_text().splitlines() if sentence and sentence in text]


def test_sentence_transformers_keeps_the_card(finished: Run, tmp_path: Path) -> None:
    SentenceTransformer(str(finished.model)).save_pretrained(str(tmp_path))
    assert (tmp_path / "README.md").read_text() == (finished.model / "README.md").read_text()
