"""The training head as part of the model: the view steps in evaluation mode, in plain sentence-transformers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope import Objective, component, load
from isotrope.encoder import save
from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.evaluation.sts import spearman
from isotrope.training.fit import WithHead
from isotrope.training.pairs import judges
from isotrope.training.train import Run
from isotrope.types import Batch, Views
from isotrope.views.mlp import MLP
from small_runs import same_weights, small_run, unfinished

HEADS = {"mlp": ["mlp"], "sgw": ["sgw"], "sgw then mlp": ["sgw", "mlp"], "pca, normalized rows": ["pca", "mlp"]}


def trained(model: Path, steps: list[str], normalize: bool = False) -> Objective:
    """After three batches, so that the running statistics have seen something."""
    torch.manual_seed(0)
    made = {
        "mlp": component("views", "mlp", std=0.2),
        "sgw": component("views", "sgw", groups=16),
        "pca": component("views", "sgw", groups=16, method="pca", normalize=True, eps=1e-4),
    }
    student = load(model, "mean", dropout=0.1, normalize=normalize, device="cpu")
    objective = Objective(student, {"infonce": component("terms", "infonce")}, views=[made[name] for name in steps])
    for number in range(3):
        objective.train()([student.preprocess(sentences(12, seed=number))])
    return objective.eval()


@pytest.mark.parametrize("steps", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("normalize", [False, True])
def test_saved_and_loaded_it_gives_the_vectors_of_the_view_steps(
    steps: list[str], normalize: bool, tiny_model: Path, tmp_path: Path
) -> None:
    objective, texts = trained(tiny_model, steps, normalize), sentences(9, seed=7)
    with torch.no_grad():
        rows = objective.model.encode(texts, convert_to_tensor=True)
        views = Views(Batch(torch.arange(9), torch.Generator()), rows[None], rows.new_zeros(9, 0, 32), {})
        for step in objective.views:
            views = step(views)
    expected = views.stack[0]
    if normalize:
        expected = torch.nn.functional.normalize(expected, dim=-1)
    whole = WithHead(lambda model: model, objective)(objective.model)
    save(whole, tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    kinds = {module["type"].rsplit(".", 1)[-1] for module in json.loads((tmp_path / "model/modules.json").read_text())}
    assert kinds <= {"Transformer", "Pooling", "Dense", "Normalize"}, "nothing of our own"
    for model in (whole, plain, load(tmp_path / "model")):
        assert np.allclose(model.encode(texts), expected.numpy(), atol=1e-5)
    assert not np.allclose(objective.model.encode(texts), expected.numpy(), atol=1e-2), "the student is as it was"


def test_what_has_no_head_is_refused_before_any_work(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = "train.keep_head=true"
    with pytest.raises(UserError, match=r"keep_head = true, and simcse has no head: .*\[views.mlp\]"):
        small_run(tiny_model, corpus_file, tmp_path / "run", keep, "views.mlp=false", dev="none", labels="none")
    monkeypatch.delattr(MLP, "layers")  # as a third party's step may be
    with pytest.raises(UserError, match=r"views.mlp has no method layers"):
        small_run(tiny_model, corpus_file, tmp_path / "run", keep, dev="none", labels="none")
    assert not (tmp_path / "run").exists()


WHITENED = ["views.sgw.groups=16", "train.keep_head=true"]


@pytest.fixture(scope="module")
def kept(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("kept") / "run"
    return small_run(tiny_model, corpus_file, folder, *WHITENED, preset="whitenedcse", dev=str(pairs_file))


def test_a_run_selects_judges_and_saves_the_model_with_its_head(kept: Run, pairs_file: Path) -> None:
    model = SentenceTransformer(str(kept.folder / "model"), device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Dense", "Dense"]
    assert isinstance(model[3].activation_function, torch.nn.Tanh)
    judging, selecting = judges(None, {"pairs": read_pairs(pairs_file)}, None)
    for pairs, found in (
        (selecting["pairs"], kept.record["selection"]["best_score"]),
        (judging["pairs"]["test"], kept.record["comparison"]["after"]),
    ):
        first, second = (model.encode(side, normalize_embeddings=True) for side in (pairs.first, pairs.second))
        assert spearman((first * second).sum(-1), pairs.gold) == pytest.approx(found, abs=1e-3)
    assert kept.record["head"] == ["sgw", "mlp"]
    card = (kept.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert "The new model is judged with its training head" in card
    assert "The training head (sgw, mlp) is part of the model" in card


def test_a_run_that_went_on_has_the_same_head(
    kept: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = unfinished(kept, tmp_path / "run")
    last = begun / "checkpoints" / "checkpoint-20" / "optimizer.pt"
    last.write_bytes(b"")  # so that it goes on from step 10
    again = small_run(tiny_model, corpus_file, begun, *WHITENED, preset="whitenedcse", dev=str(pairs_file))
    for one in (kept.folder / "model").rglob("*.safetensors"):
        assert same_weights(kept.folder, again.folder, str(one.relative_to(kept.folder))), one
    assert again.record["comparison"] == kept.record["comparison"]


def test_without_pairs_the_last_head_is_kept(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """Also where every step was done before the run went on: the head comes from the checkpoint."""
    options = {"dev": "none", "labels": "none", "sentences": 160}
    run = small_run(tiny_model, corpus_file, tmp_path / "run", "train.keep_head=true", **options)
    again = small_run(tiny_model, corpus_file, unfinished(run, tmp_path / "again"), "train.keep_head=true", **options)
    state = load_file(run.folder / "checkpoints" / "checkpoint-10" / "objective.safetensors")
    for one in (run, again):
        model = SentenceTransformer(str(one.folder / "model"), device="cpu")
        assert torch.equal(model[2].linear.weight, state["components.0.linear.weight"])
