"""The encoder as a student of rankings: it learns them, goes on after a stop, and may read queries
alone.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from helpers.small_runs import same_weights
from helpers.words import sentences
from isotrope.encoder import load, save
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.prompts import with_query_route
from isotrope.errors import UserError
from isotrope.evaluation.search import RankedLists
from isotrope.post.ranking_map import ranking_loss
from isotrope.training import rankings
from isotrope.training.rankings import SCALE, RankingLoss, learn_rankings
from isotrope.training.trainer import Trainer

QUERIES, DOCUMENTS = sentences(40, seed=1), sentences(30, seed=2)


def wanted(vectors: np.ndarray) -> RankedLists:
    """Other rankings than the model's own."""
    random = np.random.default_rng(0)
    found = random.permuted(np.tile(np.arange(len(vectors)), (len(QUERIES), 1)), axis=1)[:, :10]
    return RankedLists(found, np.sort(random.random(found.shape))[:, ::-1].copy())


def learn(model: Path, output: Path, texts: int = 80) -> Path:
    student = load(str(model))
    documents = vectors_of(student, DOCUMENTS)
    return learn_rankings(
        student, QUERIES, documents, wanted(documents), texts=texts, batch=8, output=output
    )


def loss_of(model: SentenceTransformer, documents: np.ndarray) -> float:
    """Over all queries, without dropout."""
    unit = torch.nn.functional.normalize(torch.from_numpy(documents), dim=-1)
    queries = torch.nn.functional.normalize(torch.from_numpy(vectors_of(model, QUERIES)), dim=-1)
    lists = wanted(documents)
    return float(
        ranking_loss(queries, unit[lists.documents], torch.from_numpy(lists.scores).float(), SCALE)
    )


def test_a_batch_has_the_loss_of_its_queries(tiny_model: Path) -> None:
    model = load(str(tiny_model)).eval()
    documents = vectors_of(model, DOCUMENTS)
    lists, rows = wanted(documents), [3, 0, 7]
    found = RankingLoss(model, documents, lists)(
        [model.preprocess([QUERIES[row] for row in rows])], torch.tensor(rows)
    )
    unit = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    queries = vectors_of(model, QUERIES)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    told = []
    for row in rows:
        student = SCALE * unit[lists.documents[row]] @ queries[row]
        teacher = np.exp(lists.scores[row] / 0.05)
        told.append(-(teacher / teacher.sum()) @ (student - np.log(np.exp(student).sum())))
    assert found.item() == pytest.approx(np.mean(told), abs=1e-5)


def test_it_learns_to_rank_as_the_lists_do(tiny_model: Path, tmp_path: Path) -> None:
    before = load(str(tiny_model))
    documents = vectors_of(before, DOCUMENTS)
    after = load(str(learn(tiny_model, tmp_path, texts=800)))
    assert loss_of(after, documents) < 0.9 * loss_of(before, documents)


def test_after_a_kill_it_goes_on_to_the_same_bits(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = learn(tiny_model, tmp_path / "whole")
    monkeypatch.setattr(rankings, "SAVE_STEPS", 4)
    step, seeds = Trainer.training_step, list[int]()

    def killed(self: Trainer, *args: Any, **kwargs: Any) -> Any:
        seeds.append(self.loss.step)
        if self.state.global_step == 6:
            raise MemoryError
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "training_step", killed)
        with pytest.raises(MemoryError):
            learn(tiny_model, tmp_path / "parts")
    assert seeds == list(range(7)), "each step has a dropout of its own"
    parts = learn(tiny_model, tmp_path / "parts")
    assert same_weights(whole, parts, "model.safetensors")
    assert learn(tiny_model, tmp_path / "parts") == parts, "a finished one is not trained again"


def test_a_model_with_routes_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    model = load(str(tiny_model))
    save(with_query_route(model, list(load(str(tiny_model))), list(model)), tmp_path / "routes")
    with pytest.raises(UserError, match="in another way than documents: name the model"):
        learn(tmp_path / "routes", tmp_path / "out")


def test_a_trained_encoder_may_read_queries_alone(tiny_model: Path, tmp_path: Path) -> None:
    """Documents keep their vectors to the last bit, in plain sentence-transformers too."""
    start, trained = load(str(tiny_model)), load(str(learn(tiny_model, tmp_path)))
    save(with_query_route(start, list(trained), list(start)), tmp_path / "routed")
    plain, ours = SentenceTransformer(str(tmp_path / "routed")), load(str(tmp_path / "routed"))
    np.testing.assert_array_equal(ours.encode_document(DOCUMENTS), start.encode(DOCUMENTS))
    np.testing.assert_array_equal(ours.encode(DOCUMENTS), start.encode(DOCUMENTS))
    np.testing.assert_array_equal(ours.encode_query(QUERIES), trained.encode(QUERIES))
    np.testing.assert_allclose(plain.encode_query(QUERIES), trained.encode(QUERIES), atol=1e-6)
    with pytest.raises(
        UserError, match="reads queries in another way than documents: name the model"
    ):
        load(str(tmp_path / "routed"), "cls")
