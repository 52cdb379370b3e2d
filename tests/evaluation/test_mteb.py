"""The door to mteb."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.evaluation.suite import main_scores
from wordbag import Bag, own_pairs, results_of, sts_task


def test_prompts_go_through(prompted_model: Path) -> None:
    from mteb.types import PromptType

    from isotrope.evaluation.mteb import MtebEncoder

    texts, own = ["a river", "the sea"], SentenceTransformer(str(prompted_model), device="cpu")
    wrapped = MtebEncoder(load(prompted_model, device="cpu", prompt_name="query"), "me/e5")
    for kind, words in ((None, "song of "), (PromptType.query, "song of "), (PromptType.document, "a short book on ")):
        found = wrapped.encode([{"text": texts}], prompt_type=kind)
        np.testing.assert_allclose(found, own.encode(texts, prompt=words), atol=1e-5)


def test_mteb_takes_any_encoder() -> None:
    """A real task of mteb's own classes, its data from here."""
    import mteb

    from isotrope.evaluation.mteb import MtebEncoder

    pairs = own_pairs()
    found = mteb.evaluate(MtebEncoder(Bag(), "isotrope/bag"), sts_task(pairs), cache=None, show_progress_bar=False)
    score = found.task_results[0].scores["test"][0]["cosine_spearman"]
    assert score == pytest.approx(main_scores("sts", results_of(Bag(), "sts", pairs))["mine"], abs=2e-3)
