"""Before a training: every check first, and nothing written until the last of them."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer

import isotrope.text
from conftest import sentences, with_prompts
from isotrope.console.plain import plain_console
from isotrope.contract.context import BuildContext
from isotrope.encoder import load, save
from isotrope.errors import UserError
from isotrope.post.ranking_map import with_map
from isotrope.preset.preset import EncoderSettings
from isotrope.store.job import Job
from isotrope.teachers._model import TeacherModel
from isotrope.text.tokens import token_data
from isotrope.training.inputs import read_inputs
from isotrope.training.prepare import SHOWN, TrainingPlan, prepare, untrained
from small_causal import build_decoder
from small_runs import SMALL


@contextmanager
def prepared(
    model: Path, corpus: Path, output: Path, *overrides: str, **more: Any
) -> Iterator[tuple[TrainingPlan, str]]:
    """The plan, and what was said."""
    out = io.StringIO()
    text = {name: more.pop(name) for name in ("keep_duplicates", "split") if name in more}
    inputs = read_inputs(
        isotrope.text.open(corpus, **text), model=str(model), overrides=(*SMALL, *overrides),
        **{"dev": "none", "labels": "none", "sentences": 64, **more},
    )  # fmt: skip
    job = Job(output, "run", inputs.identity)
    with job.held():
        yield prepare(inputs, job, plain_console(file=out)), out.getvalue()


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        ([], {"log_to": ["notes"]}, "tracker 'notes' is unknown or not installed: install its package"),
        (["train.max_length=65"], {}, r"cannot read texts with train.max_length = 65: choose .* at most 64"),
        (["encoder.dropout=0.0"], {}, "equal.*dropout"),
    ],
)
def test_a_mistake_is_told_of_before_anything_is_written(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, overrides: list[str], options: dict[str, Any], message: str
) -> None:
    with (
        pytest.raises(UserError, match=message),
        prepared(tiny_model, corpus_file, tmp_path / "run", *overrides, **options),
    ):
        pass
    assert not (tmp_path / "run").exists()


def test_a_model_with_a_route_for_queries_is_not_trained(tiny_model: Path, tmp_path: Path) -> None:
    """Its trainer would ask for a route of each text."""
    save(with_map(load(tiny_model), np.zeros((32, 32))), tmp_path / "mapped")
    with pytest.raises(UserError, match="mapped reads queries in another way than documents"):
        untrained(EncoderSettings(backbone=str(tmp_path / "mapped")))


@pytest.mark.parametrize("include", [True, False])
def test_training_reads_what_encode_reads(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, include: bool, cached: Path
) -> None:
    """The prompt and, where the pooling leaves it out, its length: in tokens made before, in teachers."""
    folder = with_prompts(tiny_model, tmp_path / "own", include_prompt=include)
    words, own = "an old 😀\x7f song of ", SentenceTransformer(str(folder), device="cpu")
    with prepared(folder, corpus_file, tmp_path / "run", "encoder.dropout=0", "tokens.shuffle={}", prompt=words) as (
        plan, said,
    ):  # fmt: skip
        assert "has prompts" not in said
        dataset, collator = token_data(plan.model, plan.sample.corpus, plan.sample.rows, 64, plan.console)
        batch = collator([dataset[int(row)] for row in plan.sample.order.rows(0, 5)])
        texts = plan.sample.corpus.texts(batch["label"].numpy())
        plan.objective.tokens = []
        features = {key.removeprefix("text_"): value for key, value in batch.items() if key != "label"}
        with torch.no_grad():
            views = plan.objective.eval().encode([features], batch["label"])
        expected = own.encode(texts, prompt=words)
        torch.testing.assert_close(views.stack[0], torch.from_numpy(expected), atol=1e-5, rtol=0)
        teacher = TeacherModel("initial").load(BuildContext.of(plan.model))
        torch.testing.assert_close(teacher(texts), F.normalize(torch.from_numpy(expected), dim=-1), atol=1e-5, rtol=0)
        assert plan.folder.identity["preset"]["encoder.prompt"] == words


def test_the_run_begins_with_the_student_as_it_is_and_an_objective_that_has_seen_nothing(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    stateful = ("views.sgw={groups=8, running=true, momentum=0.5}",)  # its statistics are a state
    with prepared(tiny_model, corpus_file, tmp_path / "run", *stateful) as (plan, said):
        assert (tmp_path / "run" / "job.json").is_file()
        assert len(plan.sample) == 64
        assert plan.objective.step == 0
        assert [
            value.item() for name, value in plan.objective.components.state_dict().items() if "batches" in name
        ] == [0]
        assert not plan.model.training
        assert plan.model.max_seq_length == 64, "train.max_length is for training alone"
        assert plan.folder.sample == plan.watched[:SHOWN]
        assert set(plan.watched) <= set(corpus_file.read_text().splitlines())
        head = {name: value.clone() for name, value in plan.objective.components.state_dict().items()}
    assert "64 sentences, 1 epoch, batches of 16" in said
    assert "no dev pairs: label-free signals are shown" in said
    with prepared(tiny_model, corpus_file, tmp_path / "other", *stateful) as (again, _):
        other = again.objective.components.state_dict()
    assert all(torch.equal(head[name], other[name]) for name in head), "the same seed, the same head"


def test_how_much_of_the_text_will_be_read_is_said_before_training(tiny_model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "paragraphs.txt"
    drawn = [f"{sentence}x." for sentence in sentences(320)]
    corpus.write_text("".join(" ".join(drawn[i : i + 5]) + "\n" for i in range(0, 320, 5)))
    with prepared(tiny_model, corpus, tmp_path / "whole", "train.max_length=16", sentences=None) as (_, said):
        assert re.search(r"64 of 64 texts are longer than 16 tokens; [23]\d % of the text is read", said)
        assert "warning: much of the text is cut off: add --split sentences, or read more with --set train.max" in said
    run = prepared(
        tiny_model, corpus, tmp_path / "split", "train.max_length=64", "train.batch_size=16", sentences=None,
        split="sentences",
    )  # fmt: skip
    with run as (_, said):
        assert "64 texts read from 1 file, split into 320 sentences, 320 kept" in said
        assert "cut off" not in said


def test_half_precision_is_trained_in_full(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """A model saved in bfloat16 loads in bfloat16, where a step of 3e-5 changes few weights."""
    half = SentenceTransformer(str(tiny_model), device="cpu").bfloat16()
    half.save_pretrained(str(tmp_path / "half"), create_model_card=False)
    with prepared(tmp_path / "half", corpus_file, tmp_path / "run") as (plan, _):
        assert plan.model.dtype == torch.float32
        save(plan.model, tmp_path / "saved")
    assert SentenceTransformer(str(tmp_path / "saved"), device="cpu").dtype == torch.float32


def test_a_model_that_reads_from_left_to_right_is_not_pooled_at_its_first_token(
    corpus_file: Path, tmp_path: Path
) -> None:
    """There, the first token has seen no other."""
    decoder = build_decoder(tmp_path / "decoder", "right", pooled=False)
    problem = "'cls' tell a text's first token alone: choose --set encoder.pooling=lasttoken, or mean"
    refused = prepared(decoder, corpus_file, tmp_path / "run", "encoder.pooling=cls")
    with pytest.raises(UserError, match=problem), refused:
        pass
    assert not (tmp_path / "run").exists()
    with prepared(decoder, corpus_file, tmp_path / "run", "encoder.pooling=mean") as (plan, _):
        assert len(plan.sample) == 64
