"""The door to mteb."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.evaluation.suite import main_scores
from wordbag import Bag, own_pairs, results_of


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
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    from datasets import Dataset, DatasetDict
    from isotrope.evaluation.mteb import MtebEncoder

    pairs = own_pairs()

    class Mine(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Mine", dataset={"path": "mine", "revision": "1"}, description="mine", reference=None, type="STS",
            category="t2t", modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"],
            main_score="cosine_spearman", date=None, domains=None, task_subtypes=None, license=None,
            annotations_creators=None, dialect=None, sample_creation=None, bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            columns = {"sentence1": pairs.first, "sentence2": pairs.second, "score": pairs.gold.tolist()}
            self.dataset, self.data_loaded = DatasetDict(test=Dataset.from_dict(columns)), True

    found = mteb.evaluate(MtebEncoder(Bag(), "isotrope/bag"), Mine(), cache=None, show_progress_bar=False)
    score = found.task_results[0].scores["test"][0]["cosine_spearman"]
    assert score == pytest.approx(main_scores("sts", results_of(Bag(), "sts", pairs))["mine"], abs=2e-3)
