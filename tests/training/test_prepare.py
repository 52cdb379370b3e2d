"""Before a training: what a run reads, also from documents; every check first, and nothing written
until the last.
"""

import io
import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from helpers.library import write_library
from helpers.refusals import refused
from helpers.small_bert import with_prompts
from helpers.small_causal import build_decoder
from helpers.small_runs import SMALL, launched, small_run
from helpers.words import sentences
from isotrope.console.plain import plain_console
from isotrope.contract.context import BuildContext
from isotrope.encoder import load, save
from isotrope.errors import UserError
from isotrope.post.ranking_map import with_map
from isotrope.preset.preset import EncoderSettings
from isotrope.store.job import Job
from isotrope.teachers._model import TeacherModel
from isotrope.text import read_text
from isotrope.text.tokens import token_data
from isotrope.training.inputs import RunRequest, read_inputs
from isotrope.training.prepare import KEPT_TEXTS, TrainingPlan, prepare, untrained
from isotrope.training.train import Run

DECIDING = {
    "documents": "other documents", "model": "another model", "dev": "dev: other pairs",
    "labels": "labels: another pairs/test", "processes": "processes = 1, not 2", "seed": "seed = 0, not 304",
    "max_texts": "sentences = 320, not 304", "warmup": "preset: train.warmup = 0.0, not 0.5",
}  # fmt: skip


@pytest.mark.parametrize("what", DECIDING)
def test_what_decides_the_result_is_compared_first_also_for_a_finished_run(
    finished: Run,
    what: str,
    tiny_model: Path,
    corpus_file: Path,
    pairs_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a model is loaded."""
    model = shutil.copytree(tiny_model, tmp_path / "tiny")
    corpus, dev = (
        shutil.copy(corpus_file, tmp_path / "c.txt"),
        shutil.copy(pairs_file, tmp_path / pairs_file.name),
    )
    changed = {
        "documents": (corpus, "\n", "\none more "),
        "dev": (dev, "\t", " or so\t"),
        "model": (model / "config.json", '"layer_norm_eps": 1e-12', '"layer_norm_eps": 1e-3'),
    }
    if what in changed:
        file, old, new = changed[what]
        Path(file).write_text(Path(file).read_text().replace(old, new))
    if what == "processes":
        launched(monkeypatch, 2)
    given = {"labels": "none", "max_texts": 304, "seed": 304}
    monkeypatch.setattr(
        "isotrope.training.prepare.load", lambda *_, **__: pytest.fail("it has begun to work")
    )
    with pytest.raises(UserError, match=f"was begun with .*{DECIDING[what]}"):
        small_run(
            model,
            Path(corpus),
            finished.folder,
            *(["train.warmup=0.5"] if what == "warmup" else []),
            dev=str(dev),
            **{name: value for name, value in given.items() if name == what},
        )


def test_the_same_files_in_another_place_are_the_same_run(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "tiny")
    corpus, dev = (
        shutil.copy(corpus_file, tmp_path / "c.txt"),
        shutil.copy(pairs_file, tmp_path / pairs_file.name),
    )
    assert small_run(model, Path(corpus), finished.folder, dev=str(dev)).record == finished.record


def test_a_prompt_is_part_of_the_identity_and_of_the_model(
    prompted_model: Path, tmp_path: Path
) -> None:
    """Also the space at its end."""
    table, options = tmp_path / "pairs.tsv", {"dev": "none", "labels": "none", "max_texts": 32}
    rows = zip(sentences(40), sentences(40, seed=1), strict=True)
    table.write_text("q\tp\n" + "".join(f"{one}\t{two}\n" for one, two in rows))
    options |= {"text_column": "q", "positive": "p", "positive_prompt": "red: "}
    run = small_run(prompted_model, table, tmp_path / "run", prompt_name="query", **options)
    saved = SentenceTransformer(str(run.folder / "model"), device="cpu")
    assert (saved.prompts["passage"], saved.default_prompt_name) == ("a short book on ", "query")
    identity = json.loads((run.folder / "job.json").read_text())["preset"]
    assert (identity["encoder.prompt_name"], identity["encoder.positive_prompt"]) == (
        "query",
        "red: ",
    )
    for other in ({}, {"prompt": "song of "}, {"prompt_name": "passage"}):
        with refused("begun-differently", "encoder.prompt"):
            small_run(prompted_model, table, run.folder, **options, **other)


@pytest.mark.parametrize(
    ("more", "same"),
    [
        ([], True),
        (["train.batch_size=32"], False),
        (["encoder.dropout=0.1"], False),
        (["tokens.shuffle={}"], False),
    ],
)
def test_another_number_of_processes_is_the_same_run_if_none_draws_anything_of_its_own(
    more: list[str],
    same: bool,
    tiny_model: Path,
    corpus_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many sentences a step, and no dropout or token step."""

    def identity(batch: int, *overrides: str) -> object:
        request = RunRequest(
            read_text(corpus_file),
            model=str(tiny_model),
            dev="none",
            labels="none",
            overrides=(
                f"train.batch_size={batch}",
                "encoder.dropout=0",
                "views.mlp=false",
                *overrides,
            ),
        )
        return read_inputs(request).identity

    one = identity(16, *more)
    launched(monkeypatch, 2)
    assert (one == identity(8, *more)) is same


@pytest.mark.parametrize(
    ("preset", "given", "problem"),
    [
        (
            "crops",
            {"positive": "p"},
            "positive has no effect with the preset crops, which draws its pairs from whole",
        ),
        ("crops", {"keep_duplicates": True}, "keep_duplicates has no effect with the preset crops"),
        (
            "simcse",
            {"held_out": 5},
            "held_out has no effect with the preset simcse, which reads texts, not documents",
        ),
        (
            "simcse",
            {"positive_prompt": "p"},
            "positive_prompt has no effect .* positives only from a column",
        ),
        ("rankcse-listnet", {}, "is a preset, which is not trained yet: add --train-teachers"),
        (
            "simcse",
            {"teachers": {"guide": ["m"]}},
            "--teacher guide: the preset simcse has no such teacher",
        ),
        ("simcse", {"model": "rankcse-listnet"}, "is a preset, .*: train it, then add --model"),
        ("simcse", {"prompt_name": "query"}, "has no prompt called 'query': it has none"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(
    preset: str,
    given: dict[str, object],
    problem: str,
    tiny_model: Path,
    corpus_file: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(UserError, match=problem):
        small_run(
            given.pop("model", tiny_model),
            corpus_file,
            tmp_path / "run",
            preset=preset,
            dev="none",
            **given,
        )
    assert not (tmp_path / "run").exists()


OPTIONS: dict[str, Any] = {"max_texts": None, "dev": "none", "labels": "none", "preset": "crops"}


@pytest.fixture(scope="module")
def documents_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("documents") / "documents.jsonl", count=40)


def test_a_run_trains_on_pairs_of_documents_and_says_what_it_read(
    tiny_model: Path, documents_file: Path, tmp_path: Path
) -> None:
    out = io.StringIO()
    run = small_run(
        tiny_model, documents_file, tmp_path / "run", console=plain_console(file=out), **OPTIONS
    )
    assert run.record["selection"]["steps"] == 4  # two rounds of 40 documents, 16 a batch
    assert "izacard2022contriever" in (run.folder / "model" / "README.md").read_text()
    for words in (
        "40 documents read from 1 file, 40 kept, 0 dropped",
        "each row of a table is a document; 40 have a title",
        "80 pairs drawn from 40 of 40 documents",
        ": 80 pairs, 1 epoch, batches of 16",
    ):
        assert words in out.getvalue()


def test_held_out_documents_are_never_trained_on(tiny_model: Path, documents_file: Path) -> None:
    opened = read_text(documents_file)
    given = {"model": str(tiny_model), "dev": "none", "labels": "none"}
    corpus, documents = (
        read_inputs(RunRequest(opened, preset="crops", held_out=10, seed=3, **given)).corpus,
        opened.documents(),
    )
    train, held = documents.split(10, 3)
    assert corpus.rounds == (30, 30)
    bodies = {row: documents.texts(np.array([row]))[0] for row in range(40)}
    for pair in corpus.dataset:
        sources = {
            row for row, body in bodies.items() if pair["text"] in body and pair["positive"] in body
        }
        assert sources & set(train.tolist())
        assert not sources & set(held.tolist())


LONG = "some words that are enough for two crops of a document"


def test_titles_that_are_missing_are_one_clear_line(tiny_model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "d.jsonl"
    corpus.write_text(
        f'{{"title": "{LONG}", "text": "some words"}}\n{{"title": "", "text": "{LONG}"}}\n'
    )
    with refused("too-few-pairs", "1 of 2"):
        small_run(tiny_model, corpus, tmp_path / "run", **OPTIONS | {"preset": "title-body"})
    assert not (tmp_path / "run" / "job.json").exists()


@contextmanager
def prepared(
    model: Path, corpus: Path, output: Path, *overrides: str, **more: Any
) -> Iterator[tuple[TrainingPlan, str]]:
    """The plan, and what was said."""
    out = io.StringIO()
    text = {name: more.pop(name) for name in ("keep_duplicates", "split") if name in more}
    request = RunRequest(
        read_text(corpus, **text),
        model=str(model),
        overrides=(*SMALL, *overrides),
        **{"dev": "none", "labels": "none", "max_texts": 64, **more},
    )
    inputs = read_inputs(request)
    job = Job(output, "run", inputs.identity)
    with job.held():
        yield prepare(inputs, job, plain_console(file=out)), out.getvalue()


@pytest.mark.parametrize(
    ("overrides", "options", "message"),
    [
        (
            [],
            {"log_to": ["notes"]},
            "tracker 'notes' is unknown or not installed: install its package",
        ),
        (
            ["train.max_length=65"],
            {},
            r"cannot read texts with train.max_length = 65: choose .* at most 64",
        ),
        (["encoder.dropout=0.0"], {}, "equal.*dropout"),
    ],
)
def test_a_mistake_is_told_of_before_anything_is_written(
    tiny_model: Path,
    corpus_file: Path,
    tmp_path: Path,
    overrides: list[str],
    options: dict[str, Any],
    message: str,
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
    """The prompt and, where the pooling leaves it out, its length: in tokens made before, in
    teachers.
    """
    folder = with_prompts(tiny_model, tmp_path / "own", include_prompt=include)
    words, own = "an old 😀\x7f song of ", SentenceTransformer(str(folder), device="cpu")
    with prepared(
        folder,
        corpus_file,
        tmp_path / "run",
        "encoder.dropout=0",
        "tokens.shuffle={}",
        prompt=words,
    ) as (
        plan,
        said,
    ):
        assert "has prompts" not in said
        dataset, collator = token_data(
            plan.model, plan.sample.corpus, plan.sample.rows, 64, plan.console
        )
        batch = collator([dataset[int(row)] for row in plan.sample.order.rows(0, 5)])
        texts = plan.sample.corpus.texts(batch["label"].numpy())
        plan.objective.tokens = []
        features = {
            key.removeprefix("text_"): value for key, value in batch.items() if key != "label"
        }
        with torch.no_grad():
            views = plan.objective.eval().encode([features], batch["label"])
        expected = own.encode(texts, prompt=words)
        torch.testing.assert_close(views.stack[0], torch.from_numpy(expected), atol=1e-5, rtol=0)
        teacher = TeacherModel("initial").load(BuildContext.of(plan.model))
        torch.testing.assert_close(
            teacher(texts), F.normalize(torch.from_numpy(expected), dim=-1), atol=1e-5, rtol=0
        )
        assert plan.folder.identity["preset"]["encoder.prompt"] == words


STATEFUL = ("views.sgw={groups=8, running=true, momentum=0.5}",)  # its statistics are a state


def test_the_objective_has_seen_nothing_and_the_student_is_as_it_was(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    with prepared(tiny_model, corpus_file, tmp_path / "run", *STATEFUL) as (plan, _):
        assert plan.objective.step == 0
        state = plan.objective.components.state_dict()
        assert [value.item() for name, value in state.items() if "batches" in name] == [0]
        assert not plan.model.training
        assert plan.model.max_seq_length == 64, "train.max_length is for training alone"


def test_the_plan_names_what_is_read_and_watched(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    with prepared(tiny_model, corpus_file, tmp_path / "run", *STATEFUL) as (plan, said):
        assert (tmp_path / "run" / "job.json").is_file()
        assert len(plan.sample) == 64
        assert plan.folder.sample == plan.watched[:KEPT_TEXTS]
        assert set(plan.watched) <= set(corpus_file.read_text().splitlines())
    assert "64 sentences, 1 epoch, batches of 16" in said
    assert "no dev pairs: label-free signals are shown" in said


def test_the_same_seed_gives_the_same_head(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    heads = []
    for name in ("run", "other"):
        with prepared(tiny_model, corpus_file, tmp_path / name, *STATEFUL) as (plan, _):
            state = plan.objective.components.state_dict()
            heads.append({key: value.clone() for key, value in state.items()})
    first, second = heads
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_how_much_of_the_text_will_be_read_is_said_before_training(
    tiny_model: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "paragraphs.txt"
    drawn = [f"{sentence}x." for sentence in sentences(320)]
    corpus.write_text("".join(" ".join(drawn[i : i + 5]) + "\n" for i in range(0, 320, 5)))
    with prepared(
        tiny_model, corpus, tmp_path / "whole", "train.max_length=16", max_texts=None
    ) as (_, said):
        assert re.search(
            r"64 of 64 texts are longer than 16 tokens; [23]\d % of the text is read", said
        )
        assert (
            "warning: much of the text is cut off: add --split sentences, or read more with --set train.max"
            in said
        )
    run = prepared(
        tiny_model,
        corpus,
        tmp_path / "split",
        "train.max_length=64",
        "train.batch_size=16",
        max_texts=None,
        split="sentences",
    )
    with run as (_, said):
        assert "64 texts read from 1 file, split into 320 sentences, 320 kept" in said
        assert "cut off" not in said


def test_half_precision_is_trained_in_full(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
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
    problem = "'cls' depend only on the first token of a text: choose --set encoder.pooling=lasttoken, or mean"
    refused = prepared(decoder, corpus_file, tmp_path / "run", "encoder.pooling=cls")
    with pytest.raises(UserError, match=problem), refused:
        pass
    assert not (tmp_path / "run").exists()
    with prepared(decoder, corpus_file, tmp_path / "run", "encoder.pooling=mean") as (plan, _):
        assert len(plan.sample) == 64


def test_a_teacher_encodes_only_what_a_part_of_an_epoch_reads(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a short training on a large collection stays short. The weights are those of all rows, but
    for the rounding of batches of other shapes.
    """
    overrides = ("train.epochs=0.1", 'teachers.rank.models=["initial"]')
    weights = []
    for place in ("few", "all"):
        cache = tmp_path / place
        monkeypatch.setenv("ISOTROPE_CACHE", str(cache))
        if place == "all":
            monkeypatch.setattr("isotrope.text.sample.Sample.rows_within", lambda *_: None)
        run = small_run(
            tiny_model, corpus_file, tmp_path / f"{place}-run", *overrides, preset="rankcse-listnet"
        )
        (vectors,) = cache.glob("teachers/*/vectors.f32")
        rows = vectors.stat().st_size // (4 * 32)
        assert rows == 320 if place == "all" else rows <= 320 * 0.1 + 3 * 16
        weights.append(load_file(run.folder / "model" / "model.safetensors"))
    for name, few in weights[0].items():
        torch.testing.assert_close(few, weights[1][name], atol=1e-5, rtol=0)
