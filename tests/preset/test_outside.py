"""Losses of sentence-transformers and third parties in isotrope's runs: what they read, trained,
resumed, refused.
"""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sentence_transformers.sentence_transformer.losses import (
    EmbedDistillLoss,
    GISTEmbedLoss,
    MultipleNegativesRankingLoss,
)
from transformers import TrainerCallback, TrainerState

import isotrope
from helpers.small_runs import logged, same_weights, script, small_run
from helpers.words import sentences
from isotrope.contract.context import BuildContext
from isotrope.errors import Stopped, UserError
from isotrope.objective.passes import TextColumn
from isotrope.preset import outside
from isotrope.preset.outside import OutsideLoss, build_outside
from isotrope.preset.preset import read_preset
from isotrope.text import read_text
from isotrope.text.permutation import derive
from isotrope.text.sample import PermutedBatches
from isotrope.training.train import Run
from isotrope.training.trainer import WEIGHTS, ObjectiveState

Given = tuple[OutsideLoss, list[TextColumn], torch.Tensor]


@pytest.fixture
def batch(tiny_model: Path, corpus_file: Path, cached: Path) -> Given:
    """Sixteen sentences of the corpus, not its first."""
    model, corpus, rows = (
        isotrope.load(tiny_model, device="cpu"),
        read_text(corpus_file).texts(),
        range(40, 56),
    )
    column = model.preprocess(corpus.dataset[list(rows)]["text"], max_length=32)
    loss = OutsideLoss(model, torch.nn.Identity(), [], BuildContext.of(model, corpus=corpus), 3, 32)
    return loss, [column], torch.tensor(rows)


def test_six_words_of_ten_go() -> None:
    text = [f"{i} {line}" for i, line in enumerate(sentences(400))]
    kept = [outside.delete_words(line, seed) for seed, line in enumerate(text)]
    share = sum(len(line.split()) for line in kept) / sum(len(line.split()) for line in text)
    assert 0.37 < share < 0.44
    for line, few in zip(text, kept, strict=True):
        words = iter(line.split())
        assert few
        assert all(word in words for word in few.split()), "in their order"
    assert kept == [outside.delete_words(line, seed) for seed, line in enumerate(text)]
    assert kept != [outside.delete_words(line, seed + 1) for seed, line in enumerate(text)]
    assert outside.delete_words("alone", 0) == "alone"


def test_what_is_read(batch: Given) -> None:
    """A damaged text beside the whole one; one pair of eight is one sentence; texts twice, and
    positives once.
    """
    few, whole = outside.damaged(*batch)
    assert whole is batch[1][0]
    assert torch.equal(few["input_ids"], outside.damaged(*batch)[0]["input_ids"])
    for short, long in zip(few["input_ids"], whole["input_ids"], strict=True):
        assert set(short.tolist()) - {0} < set(long.tolist()) | {0}
    first, second = outside.paired(*batch)
    equal = (first["input_ids"] == second["input_ids"]).all(dim=1)
    assert equal.nonzero().flatten().tolist() == [0, 8]
    assert torch.equal(second["input_ids"][1], first["input_ids"][0])
    first, second = outside.twice(*batch)
    assert first is not second
    assert torch.equal(first["input_ids"], second["input_ids"])
    three = [first, second, first]
    assert outside.twice(batch[0], three, batch[2]) is three
    assert outside.once(*batch) == batch[1]
    for read in outside.READ_BY.values():
        with pytest.raises(UserError, match="reads texts alone"):
            read(batch[0], three, batch[2])


LOSSES = "sentence_transformers.sentence_transformer.losses:"
BARE = ["views=false", "scores=false", "terms=false"]
GUIDED = [
    "teachers.before.kind=initial",
    "loss_options.guide=before",
    "loss_options.temperature=0.05",
]
TAUGHT = ['teachers.labels.models=["isotrope/tiny"]']
OWN = """
import torch
from torch import nn

class Pull(nn.Module):
    stage = "loss"
    def __init__(self, model, share: float = 1.0):
        super().__init__()
        self.model, self.share = model, share
    def forward(self, columns, labels):
        first, second = (self.model(column)["sentence_embedding"] for column in columns)
        return self.share * (first - second).square().mean()

class Anything(nn.Module):
    pass
"""


def run(
    model: str | Path, corpus: Path, output: Path, loss: str, *overrides: str, **more: object
) -> Run:
    options = {"dev": "none", "labels": "none", "sentences": 96, **more}
    return small_run(Path(model), corpus, output, *BARE, f"loss={loss}", *overrides, **options)


def built(model: Path, loss: str, *overrides: str) -> OutsideLoss:
    student = isotrope.load(model, "mean", device="cpu")
    return build_outside(
        read_preset("simcse", [*BARE, f"loss={loss}", *overrides]), student, 0, BuildContext()
    )


def test_the_value_is_that_of_the_loss_itself(tiny_model: Path) -> None:
    text = sentences(8)
    student, guide = (isotrope.load(tiny_model, "mean", device="cpu").eval() for _ in range(2))
    columns = [student.preprocess(text) for _ in range(2)]
    mnrl, gist = (
        MultipleNegativesRankingLoss(student, scale=10.0),
        GISTEmbedLoss(student, guide, temperature=0.05),
    )
    ours = built(
        tiny_model, LOSSES + "MultipleNegativesRankingLoss", "loss_options.scale=10.0"
    ).eval()
    assert torch.equal(ours([student.preprocess(text)]), mnrl([dict(c) for c in columns], None))
    guided = built(tiny_model, LOSSES + "GISTEmbedLoss", *GUIDED).eval()
    assert torch.equal(guided([student.preprocess(text)]), gist([dict(c) for c in columns], None))


def test_a_teacher_gives_the_labels(tiny_model: Path) -> None:
    """Its vectors; for a loss of lists, its cosines with the rest of the batch, whose texts are
    encoded once.
    """
    text, rows = sentences(6), torch.arange(6)
    taught = F.normalize(torch.randn(6, 8, generator=torch.Generator().manual_seed(0)), dim=-1)
    student = isotrope.load(tiny_model, "mean", device="cpu").eval()
    ours = built(
        tiny_model, LOSSES + "EmbedDistillLoss", "loss_options.projection_dim=8", *TAUGHT
    ).eval()
    theirs = EmbedDistillLoss(student, projection_dim=8)
    theirs.projection.load_state_dict(ours.inner.projection.state_dict())
    ours.teacher = lambda batch: taught[batch.rows]
    expected = theirs([student.preprocess(text)], taught)
    assert ours([student.preprocess(text)], rows).item() == pytest.approx(expected.item(), rel=1e-6)

    lists = built(tiny_model, LOSSES + "DistillKLDivLoss", "loss_options.temperature=0.05", *TAUGHT)
    lists.teacher = ours.teacher
    found = lists.eval()([student.preprocess(text)], rows)
    vectors = student.encode(text, convert_to_tensor=True)
    others = ~torch.eye(6, dtype=torch.bool)
    cosines, target = ((x @ x.T)[others].reshape(6, 5) / 0.05 for x in (vectors, taught))
    kl = F.kl_div(cosines.log_softmax(-1), target.softmax(-1), reduction="batchmean")
    assert found.item() == pytest.approx(0.05**2 * kl.item(), rel=1e-4)


def test_a_run_with_labels_trains(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    loss = LOSSES + "EmbedDistillLoss"
    more = [
        *TAUGHT,
        f"teachers.labels.models=[{json.dumps(str(tiny_model))}]",
        "teachers.labels.max_length=train",
    ]
    done = run(tiny_model, corpus_file, tmp_path / "run", loss, *more)
    losses = [line["loss"] for line in logged(done.folder) if "loss" in line]
    assert losses
    assert 0 < losses[-1] < 0.2, "a student and the teacher are one model but for dropout"


@pytest.mark.parametrize(
    "loss",
    [
        "MultipleNegativesRankingLoss",
        pytest.param("ContrastiveTensionLossInBatchNegatives", marks=pytest.mark.slow),
        pytest.param("DenoisingAutoEncoderLoss", marks=pytest.mark.slow),
    ],
)
def test_a_stopped_run_ends_as_if_nothing_had_been(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss's own weights too: a second encoder, a decoder whose weights are in part the
    student's.
    """

    def ctrl_c(
        self: ObjectiveState, args: object, state: TrainerState, *_: object, **__: object
    ) -> None:
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    whole = run(tiny_model, corpus_file, tmp_path / "whole", LOSSES + loss)
    with monkeypatch.context() as patched:
        patched.setattr(ObjectiveState, "on_step_begin", ctrl_c)
        with pytest.raises(Stopped, match="stopped after step 4 of 6"):
            run(tiny_model, corpus_file, tmp_path / "run", LOSSES + loss)
    again = run(tiny_model, corpus_file, tmp_path / "run", LOSSES + loss)
    begun = isotrope.load(tiny_model).state_dict()
    for name in ("model/model.safetensors", kept := f"checkpoints/checkpoint-6/{WEIGHTS}"):
        assert same_weights(whole.folder, again.folder, name), name
    one = load_file(whole.folder / kept)
    assert not any(torch.equal(value, begun.get(name, value + 1)) for name, value in one.items())
    assert not any(name.startswith("inner.model.") for name in one), "the student is saved once"
    assert (len(one) > 1) == (loss != "MultipleNegativesRankingLoss")
    with_decoder = [name for name in one if "crossattention" in name]
    assert bool(with_decoder) == (loss == "DenoisingAutoEncoderLoss")
    assert not any(name.endswith("bert.embeddings.word_embeddings.weight") for name in one), (
        "tied to the student"
    )


def test_a_run_takes_the_steps_of_the_library_s_own_trainer(
    tiny_model: Path, tmp_path: Path
) -> None:
    """The same order and the same dropout given, all weights are equal."""

    class Seed(TrainerCallback):
        def on_step_begin(
            self, args: object, state: TrainerState, *_: object, **__: object
        ) -> None:
            torch.manual_seed(derive(derive(0, state.global_step), 0))

    settings = [*GUIDED, "train.warmup=0.05", "train.max_length=32", "encoder.dropout=0.1"]
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(sentences(100)))
    ours = run(
        tiny_model, corpus, tmp_path / "run", LOSSES + "GISTEmbedLoss", *settings, sentences=None
    )
    student, guide = (
        isotrope.load(tiny_model, "mean", dropout=d, max_length=32, device="cpu")
        for d in (0.1, 0.0)
    )
    columns = read_text(corpus).texts().dataset.select_columns("text")
    columns = columns.add_column("positive", columns["text"][:])
    script(
        GISTEmbedLoss(student, guide, temperature=0.05),
        tmp_path / "theirs",
        columns,
        [Seed()],
        num_train_epochs=1,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        warmup_steps=0.05,
        seed=0,
        dataloader_drop_last=True,
        batch_sampler=PermutedBatches,
    ).train()
    assert ours.record["selection"]["steps"] == 6
    own = student.state_dict()
    for name, weight in isotrope.load(ours.folder / "model", device="cpu").state_dict().items():
        torch.testing.assert_close(weight, own[name], atol=1e-6, rtol=1e-5)


def test_a_guide_stays_as_it_was(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """Dev pairs select, the verdict and the card are as with any preset."""
    done = run(
        tiny_model,
        corpus_file,
        tmp_path / "run",
        LOSSES + "GISTEmbedLoss",
        *GUIDED,
        dev=str(pairs_file),
        labels=None,
    )
    assert done.verdict.word in ("better", "worse", "no difference found")
    assert done.record["selection"]["best_step"]
    assert load_file(done.folder / "checkpoints" / "checkpoint-6" / WEIGHTS).keys() == {
        "_extra_state"
    }
    card = (done.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert "  - action: Trained with\n    method: GISTEmbedLoss\n" in card, (
        "not the preset that it replaces"
    )
    assert "solatorio2024gistembed" in card
    assert str(tiny_model) not in card
    student = isotrope.load(tiny_model, "mean", dropout=0.1, device="cpu")
    recipe = read_preset("simcse", [*BARE, f"loss={LOSSES}GISTEmbedLoss", *GUIDED])
    loss = build_outside(recipe, student, 0, BuildContext()).train()
    guide = loss.inner.guide
    assert not guide.training
    assert not loss.has_weights
    assert not any(weight.requires_grad for weight in guide.parameters())
    before = guide.encode(["a river"])
    with torch.no_grad():
        for weight in student.parameters():
            weight.zero_()
    assert (guide.encode(["a river"]) == before).all()


def test_a_class_of_ones_own(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it is a loss; what does not is refused, whatever it is."""
    (tmp_path / "own_losses.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    done = run(
        tiny_model,
        corpus_file,
        tmp_path / "run",
        "own_losses:Pull",
        "loss_options.share=2.0",
        sentences=32,
    )
    assert done.record["selection"]["steps"] == 2
    for wrong in (
        "own_losses:Anything",
        "subprocess:Popen",
        "torch.nn:Linear",
        "sentence_transformers:InputExample",
    ):
        with pytest.raises(UserError, match=r"is not a loss.*must declare stage"):
            outside.outside_class(wrong)


def test_what_has_no_effect_is_refused() -> None:
    two = "teachers.x.models=['a', 'b']"
    for overrides, message in (
        (
            ["loss=a:B"],
            r"\[views\] has no effect with loss = 'a:B': leave it out; .* goes with NAME = false",
        ),
        ([*BARE, "loss=MSELoss"], "loss = 'MSELoss' is not possible"),
        ([*BARE, "loss=a:B", "tokens.shuffle={}"], r"\[tokens\] has no effect"),
        (["loss_options.scale=1"], r"\[loss_options\] has no effect with loss = None"),
        (
            [*BARE, "loss=a:B", "loss_options.guide=x", two],
            r"\[teachers.x\], unless it is one model",
        ),
        ([*BARE], "has no terms, so no loss"),
    ):
        with pytest.raises(UserError, match=message):
            read_preset("simcse", overrides)


def test_a_decoder_needs_an_architecture_that_can_decode(
    corpus_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    overrides = [*BARE, f"loss={LOSSES}DenoisingAutoEncoderLoss"]
    with pytest.raises(UserError, match=r"cannot be made for isotrope/tiny .*architecture of BERT"):
        isotrope.train(corpus_file, output=tmp_path / "run", dev="none", overrides=overrides)
    assert "XXXLMHead" not in capfd.readouterr().err


def test_a_loss_that_cannot_be_is_refused_before_anything_is_written(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    for loss, overrides, message in (
        ("NoSuchLoss", [], "NoSuchLoss"),
        (
            "MultipleNegativesRankingLoss",
            ["loss_options.scal=1.0"],
            "loss_options.scal is an unknown key.*takes scale",
        ),
        ("GISTEmbedLoss", ["loss_options.guide=before"], "cannot be made for"),
        ("CosineSimilarityLoss", [], "cannot be computed from these texts.*needs no labels"),
    ):
        with pytest.raises(UserError, match=message):
            run(tiny_model, corpus_file, tmp_path / "run", LOSSES + loss, *overrides)
        assert not (tmp_path / "run").exists()
