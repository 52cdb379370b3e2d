"""The trainer: clipping, evaluation, divergence; the objective in a checkpoint, in any script; a
head that is kept.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from transformers import TrainerControl, TrainerState, TrainingArguments

from helpers.refusals import refused
from helpers.small_runs import SHORT, Small, same_weights, script, small_run, unfinished
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.encoder import save
from isotrope.evaluation.correlation import spearman
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.preset.preset import build_objective, read_preset
from isotrope.training.evaluators import WithHead
from isotrope.training.pairs import judges
from isotrope.training.train import Run
from isotrope.training.trainer import ObjectiveState
from isotrope.types import Batch, Views
from isotrope.views.mlp import MLP

TABLE = {"text": sentences(64)}
SAVING = {"save_strategy": "steps", "save_steps": 2}


def test_encoder_and_head_are_clipped_by_one_norm(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the optimizer steps, all gradients together have the norm that was set, and the head has
    its share.
    """
    seen: list[tuple[float, float]] = []

    def look(self: ObjectiveState, *_: object, **__: object) -> None:
        named = [
            (name, p.grad.norm())
            for name, p in self.objective.named_parameters()
            if p.grad is not None
        ]
        whole = torch.stack([norm for _, norm in named]).norm().item()
        seen.append(
            (whole, torch.stack([norm for name, norm in named if "linear" in name]).norm().item())
        )

    monkeypatch.setattr(ObjectiveState, "on_pre_optimizer_step", look)
    small("run", "train.max_grad_norm=0.01", **SHORT)
    assert len(seen) == 4
    for whole, head in seen:
        assert whole == pytest.approx(0.01, rel=1e-3)
        assert 0 < head < whole


@pytest.mark.slow
def test_how_often_a_run_is_evaluated_changes_nothing(small: Small) -> None:
    often = small("often", "train.eval_steps=1", **SHORT)
    seldom = small("seldom", "train.eval_steps=50", **SHORT)
    assert same_weights(often.folder, seldom.folder)


@pytest.mark.parametrize(
    ("override", "pairs"),
    [("train.weight_decay=1e30", True), ("terms.infonce.temperature=1e-40", False)],
)
def test_divergence_is_named_with_its_step_and_setting(
    small: Small, override: str, pairs: bool, pairs_file: Path
) -> None:
    """Not "row 0 is zero, leave it out", nor a traceback."""
    options = {"dev": str(pairs_file)} if pairs else {"dev": "none", "labels": "none"}
    more = [override, "train.max_grad_norm=1e30", "train.epochs=3"]
    with refused("diverged"):
        small("run", *more, **options)


def test_weights_that_are_not_finite_are_not_saved(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints before the divergence stay, and a run with other settings can begin
    elsewhere.
    """

    def spoil(self: ObjectiveState, args: object, state: Any, control: object, **_: object) -> None:
        if state.global_step == 11:
            next(self.objective.model.parameters()).data[:] = float("nan")

    monkeypatch.setattr(ObjectiveState, "on_step_end", spoil)
    with refused("diverged"):
        small("run", dev="none", labels="none")
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("checkpoint-*")] == [
        "checkpoint-10"
    ]
    assert not (tmp_path / "run" / "model").exists()


def objective_of(tiny_model: Path, seed: int = 0) -> Objective:
    torch.manual_seed(seed)
    return build_objective(read_preset("simcse"), load(tiny_model, "mean", device="cpu"))


@pytest.mark.parametrize("extra", [[], ["positive", "negative_0"]])
def test_in_a_users_own_trainer_script(tiny_model: Path, tmp_path: Path, extra: list[str]) -> None:
    """The real trainer: terms logged one by one, the head saved and restored by our callback, and
    clipped.
    """
    whole, again = (objective_of(tiny_model, 5) for _ in range(2))
    table = {**TABLE, **dict.fromkeys(extra, sentences(64)[::-1])}
    options = {
        "max_steps": 6,
        "learning_rate": 1e-3,
        "lr_scheduler_type": "constant",
        **SAVING,
        "save_steps": 3,
    }
    undisturbed = script(whole, tmp_path, table, [ObjectiveState(whole)], **options)
    undisturbed.train()
    assert any("infonce" in record for record in undisturbed.state.log_history)
    assert not torch.equal(again.views[0].linear.weight, whole.views[0].linear.weight)
    resumed = script(again, tmp_path, table, [ObjectiveState(again)], **options)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


def test_resume_without_saved_head_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    objective = objective_of(tiny_model)
    script(objective, tmp_path, TABLE, max_steps=4, **SAVING).train()
    again = script(objective, tmp_path, TABLE, [ObjectiveState(objective)], max_steps=4)
    with refused("incomplete-checkpoint"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))


@pytest.mark.parametrize(("longest", "expected"), [(0.01, 0.01), (1e9, None), (0.0, None)])
def test_the_heads_gradients_are_clipped_by_their_own_norm(
    tiny_model: Path, tmp_path: Path, longest: float, expected: float | None
) -> None:
    """The encoder's, which the trainer clips, stay as they are; 0 is no clipping."""
    objective = objective_of(tiny_model)
    for parameter in objective.parameters():
        parameter.grad = torch.ones_like(parameter)
    arguments = TrainingArguments(output_dir=str(tmp_path), report_to="none", max_grad_norm=longest)
    ObjectiveState(objective).on_pre_optimizer_step(arguments, TrainerState(), TrainerControl())
    head = torch.cat(
        [p.grad.flatten() for p in objective.views[0].parameters() if p.grad is not None]
    )
    assert head.norm().item() == pytest.approx(expected or len(head) ** 0.5, rel=1e-3)
    assert all(p.grad is not None and p.grad.eq(1).all() for p in objective.model.parameters())


def test_what_a_script_can_do_wrong(tiny_model: Path, tmp_path: Path) -> None:
    """Each went unnoticed: a head was lost, and sentence-transformers' trainer logs NaN as 0."""
    ours, other = (objective_of(tiny_model) for _ in range(2))
    for kept, rate, problem in (
        ([other], 5e-5, "another-objective"),
        ([ours], 1e30, "diverged"),
    ):
        callbacks = [ObjectiveState(each) for each in kept]
        trainer = script(
            ours,
            tmp_path,
            TABLE,
            callbacks,
            max_steps=3,
            logging_steps=2,
            max_grad_norm=0.0,
            learning_rate=rate,
        )
        with refused(problem):
            trainer.train()


HEADS = {
    "mlp": ["mlp"],
    "sgw": ["sgw"],
    "sgw then mlp": ["sgw", "mlp"],
    "pca, normalized rows": ["pca", "mlp"],
}


def trained(model: Path, steps: list[str], normalize: bool = False) -> Objective:
    """After three batches, so that the running statistics have seen something."""
    torch.manual_seed(0)
    made = {
        "mlp": component("views", "mlp", std=0.2),
        "sgw": component("views", "sgw", groups=16),
        "pca": component("views", "sgw", groups=16, method="pca", normalize=True, eps=1e-4),
    }
    student = load(model, "mean", dropout=0.1, normalize=normalize, device="cpu")
    objective = Objective(
        student, {"infonce": component("terms", "infonce")}, views=[made[name] for name in steps]
    )
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
        views = Views(
            Batch(torch.arange(9), torch.Generator()), rows[None], rows.new_zeros(9, 0, 32), {}
        )
        for step in objective.views:
            views = step(views)
    expected = views.stack[0]
    if normalize:
        expected = torch.nn.functional.normalize(expected, dim=-1)
    whole = WithHead(lambda model: model, objective)(objective.model)
    save(whole, tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    kinds = {
        module["type"].rsplit(".", 1)[-1]
        for module in json.loads((tmp_path / "model/modules.json").read_text())
    }
    assert kinds <= {"Transformer", "Pooling", "Dense", "Normalize"}, "nothing of our own"
    for model in (whole, plain, load(tmp_path / "model")):
        assert np.allclose(model.encode(texts), expected.numpy(), atol=1e-5)
    assert not np.allclose(objective.model.encode(texts), expected.numpy(), atol=1e-2), (
        "the student is as it was"
    )


def test_what_has_no_head_is_refused_before_any_work(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = "train.keep_head=true"
    with refused("no-head"):
        small_run(
            tiny_model,
            corpus_file,
            tmp_path / "run",
            keep,
            "views.mlp=false",
            dev="none",
            labels="none",
        )
    monkeypatch.delattr(MLP, "layers")  # as a third party's step may be
    with refused("no-head", "views.mlp"):
        small_run(tiny_model, corpus_file, tmp_path / "run", keep, dev="none", labels="none")
    assert not (tmp_path / "run").exists()


WHITENED = ["views.sgw.groups=16", "train.keep_head=true"]


@pytest.fixture(scope="module")
def kept(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    folder = tmp_path_factory.mktemp("kept") / "run"
    return small_run(
        tiny_model, corpus_file, folder, *WHITENED, preset="whitenedcse", dev=str(pairs_file)
    )


def test_a_run_selects_judges_and_saves_the_model_with_its_head(
    kept: Run, pairs_file: Path
) -> None:
    model = SentenceTransformer(str(kept.folder / "model"), device="cpu")
    assert [type(module).__name__ for module in model] == [
        "Transformer",
        "Pooling",
        "Dense",
        "Dense",
    ]
    assert isinstance(model[3].activation_function, torch.nn.Tanh)
    judging, selecting = judges(None, {"pairs": read_pairs(pairs_file)}, None)
    for pairs, found in (
        (selecting["pairs"], kept.record["selection"]["best_score"]),
        (judging["pairs"]["test"], kept.record["comparison"]["after"]),
    ):
        cosines = pairs.similarities(Embeddings.of(model, pairs.texts))
        assert spearman(cosines, pairs.gold) == pytest.approx(found, abs=1e-3)
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
    again = small_run(
        tiny_model, corpus_file, begun, *WHITENED, preset="whitenedcse", dev=str(pairs_file)
    )
    for one in (kept.folder / "model").rglob("*.safetensors"):
        assert same_weights(kept.folder, again.folder, str(one.relative_to(kept.folder))), one
    assert again.record["comparison"] == kept.record["comparison"]


def test_without_pairs_the_last_head_is_kept(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """Also where every step was done before the run went on: the head comes from the checkpoint."""
    options = {"dev": "none", "labels": "none", "max_texts": 160}
    run = small_run(tiny_model, corpus_file, tmp_path / "run", "train.keep_head=true", **options)
    again = small_run(
        tiny_model,
        corpus_file,
        unfinished(run, tmp_path / "again"),
        "train.keep_head=true",
        **options,
    )
    state = load_file(run.folder / "checkpoints" / "checkpoint-10" / "objective.safetensors")
    for one in (run, again):
        model = SentenceTransformer(str(one.folder / "model"), device="cpu")
        assert torch.equal(model[2].linear.weight, state["components.0.linear.weight"])
