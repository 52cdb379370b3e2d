"""compress, whole, on small models: what it trains, holds out, measures and writes; stops, goes on
and refuses.
"""

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec import AbstractFileSystem
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

import isotrope
from helpers.library import write_library
from helpers.small_bert import build_bert
from helpers.words import sentences
from isotrope.compression import compress as module
from isotrope.compression.compress import Compression, compress
from isotrope.compression.page import write_student_report
from isotrope.encoder.student import student_of
from isotrope.errors import Stopped, UserError
from isotrope.training.folder import RunFolder
from isotrope.training.trainer import Trainer

SMALL = ["train.batch_size=16", "train.epochs=1", "terms.queue_kl.queue=32", "train.max_length=32"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers model of four layers, which ends with unit length."""
    folder = tmp_path_factory.mktemp("teacher")
    build_bert(folder / "bert", layers=4, dropout=0.0)
    isotrope.load(folder / "bert", "cls", normalize=True, device="cpu").save_pretrained(
        str(folder / "model")
    )
    return folder / "model"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 texts, long enough for tasks."""
    path = tmp_path_factory.mktemp("texts") / "texts.txt"
    pairs = zip(sentences(300), sentences(300, seed=1), strict=True)
    path.write_text("".join(f"{first} {second}\n" for first, second in pairs), encoding="utf-8")
    return path


def small(
    teacher: Path, texts: str | Path, output: Path, student: str, *overrides: str, **options: Any
) -> Compression:
    return compress(
        teacher,
        texts,
        student=student,
        output=output,
        overrides=[*SMALL, *overrides],
        console=Console(quiet=True),
        **options,
    )


def vectors(run: Compression) -> np.ndarray:
    """Of a static student, a row a token."""
    return (
        SentenceTransformer(str(run.folder / "model"), device="cpu")[0]
        .embedding.weight.detach()
        .numpy()
    )


LONGER = ["train.epochs=4", "train.learning_rate=1e-3"]


@pytest.fixture
def two_layers(trained: Compression) -> SentenceTransformer:
    return SentenceTransformer(str(trained.folder / "model"), device="cpu")


@pytest.fixture(scope="module")
def trained(teacher: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Compression:
    """A student of two layers, trained long enough to follow its teacher."""
    return small(teacher, texts, tmp_path_factory.mktemp("trained") / "run", "layers:2", *LONGER)


def test_the_student_has_the_layers_and_the_pooling_of_its_teacher(
    two_layers: SentenceTransformer,
) -> None:
    assert len(two_layers[0].auto_model.encoder.layer) == 2
    assert two_layers[1].pooling_mode == "cls"


def test_training_brings_the_student_nearer_to_its_teacher(trained: Compression) -> None:
    start = trained.record["compression"]["quality"]["parts of texts"]["start"]
    assert start["after"] > start["before"]


def test_texts_and_graded_pairs_judge_the_student(trained: Compression) -> None:
    assert set(trained.record["compression"]["quality"]) == {"parts of texts", "graded pairs"}
    assert trained.record["corpus"]["used"] == 240, "a fifth is held out"
    assert trained.kept == trained.record["compression"]["kept"]
    assert list(trained.table.columns) == ["teacher", "start", "student"]


def test_it_is_never_better_than_its_teacher_for_what_training_gained(
    trained: Compression,
) -> None:
    assert trained.verdict.before == "model"
    assert "Training it " in trained.verdict.advice


def test_it_weighs_less(trained: Compression) -> None:
    teacher, student = trained.record["compression"]["cost"]["weights"]
    assert student < teacher


def test_its_card_compares_it_with_its_teacher(trained: Compression) -> None:
    card = (trained.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert "Is it better than model?" in card
    assert "of the points of" in card


def test_its_page_says_where_to_use_it(trained: Compression) -> None:
    page = write_student_report(trained.folder).read_text(encoding="utf-8")
    for title in ("Use it where", "Points kept", "How to switch"):
        assert title in page
    for words in ("Speed and size", "times as fast", "layers:2"):
        assert words in page


def test_a_finished_run_is_only_read(trained: Compression, teacher: Path, texts: Path) -> None:
    again = small(teacher, texts, trained.folder, "layers:2", *LONGER)
    assert again.record == trained.record


def test_objects_give_what_files_give(teacher: Path, texts: Path, tmp_path: Path) -> None:
    """A loaded teacher and a list of texts, with no folder named."""
    lines = texts.read_text(encoding="utf-8").splitlines()
    first = small(teacher, texts, tmp_path / "run", "static")
    second = compress(
        SentenceTransformer(str(teacher), device="cpu"),
        lines,
        student="static",
        overrides=SMALL,
        console=Console(quiet=True),
    )
    np.testing.assert_allclose(
        first.model.encode(lines[:4]), second.model.encode(lines[:4]), atol=1e-6
    )
    np.testing.assert_allclose(first.table, second.table, atol=1e-6)


def test_a_static_student_is_a_plain_static_embedding(
    teacher: Path, texts: Path, tmp_path: Path
) -> None:
    run = small(teacher, texts, tmp_path / "run", "static")
    model = SentenceTransformer(str(run.folder / "model"), device="cpu")
    assert isinstance(model[0], StaticEmbedding)
    np.testing.assert_allclose(
        model.encode(["a red bird"]), run.model.encode(["a red bird"]), atol=1e-6
    )
    start = student_of(isotrope.load(teacher, device="cpu"), "static")
    assert not np.allclose(vectors(run), start[0].embedding.weight.detach().numpy()), (
        "training changed the vectors"
    )
    assert (
        json.loads((run.folder / "result.json").read_text())["compression"]["student"] == "static"
    )


def test_any_other_model_can_be_the_student(
    teacher: Path,
    texts: Path,
    tiny_model: Path,
    tmp_path: Path,
    pairs_file: Path,
    memory: AbstractFileSystem,
) -> None:
    """With graded pairs of the user's own, which judge too, on a sample of a URL: its other texts
    are held out.
    """
    memory.put_file(str(texts), "/texts.txt")
    run = small(
        teacher,
        "memory://texts.txt",
        tmp_path / "run",
        str(tiny_model),
        dev=str(pairs_file),
        max_texts=64,
    )
    assert run.record["corpus"]["used"] == 64
    tasks = run.record["compression"]["quality"]["graded pairs"]["teacher"]["per_task"]
    assert set(tasks) == {"English, 330 pairs", "pairs"}


def test_documents_are_held_out_whole(teacher: Path, tmp_path: Path) -> None:
    library = write_library(tmp_path / "library.jsonl", count=60)
    run = small(
        teacher,
        library,
        tmp_path / "run",
        "layers:1",
        "pairs.rounds=2",
        "train.max_length=64",
        preset="distil-documents",
    )
    assert run.record["corpus"]["rows"] == 96, "two passages of each of 48 documents: twelve judge"
    assert list(run.record["compression"]["quality"]) == ["graded pairs"], (
        "twelve are too few for tasks"
    )


def test_a_measuring_that_was_killed_is_done_by_the_next_call(
    teacher: Path, texts: Path, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the student is compared with itself before training alone, and its card says so."""
    given: dict[str, Any] = {"max_texts": 64, "dev": str(pairs_file)}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(module, "measure_costs", killed)
        with pytest.raises(KeyboardInterrupt):
            small(teacher, texts, tmp_path / "run", "static", **given)
    assert "compression" not in RunFolder(tmp_path / "run").result
    card = (tmp_path / "run" / "model" / "README.md").read_text(encoding="utf-8")
    assert "Is it better than model?" in card
    run = small(teacher, texts, tmp_path / "run", "static", **given)
    assert run.record["compression"]["kept"] > 0


@pytest.mark.slow
def test_ctrl_c_and_resume_give_the_same_student(
    teacher: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = ("static", "train.save_steps=3", "train.eval_steps=3")
    whole = small(teacher, texts, tmp_path / "whole", *often)
    step, count = Trainer.training_step, iter(range(100))

    def interrupted(self: Trainer, *arguments: Any, **options: Any) -> Any:
        if next(count) == 5:
            signal.raise_signal(signal.SIGINT)
        return step(self, *arguments, **options)

    with monkeypatch.context() as during:
        during.setattr(Trainer, "training_step", interrupted)
        with pytest.raises(Stopped):
            small(teacher, texts, tmp_path / "cut", *often)
    np.testing.assert_array_equal(
        vectors(small(teacher, texts, tmp_path / "cut", *often)), vectors(whole)
    )


@pytest.mark.parametrize(
    ("student", "options", "words"),
    [
        ("layers:9", {}, r"layers:9: the model has 4 layers: choose 1 to 4"),
        ("small", {}, r"the student 'small' is unknown: choose static, or layers:N"),
        ("./nowhere", {}, r"\./nowhere does not exist"),
        (
            "tiny",
            {"overrides": ["encoder.student=all"]},
            r"the student 'all' is unknown: choose static",
        ),
        ("static", {"preset": "simcse"}, r"the preset simcse has 0 teachers that can be named"),
    ],
)
def test_a_mistake_is_one_line_before_any_work(
    student: str, options: dict[str, Any], words: str, teacher: Path, texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words):
        compress(
            teacher,
            texts,
            student=student,
            output=tmp_path / "run",
            console=Console(quiet=True),
            **options,
        )
    assert not (tmp_path / "run" / "job.json").exists()


@pytest.mark.parametrize(
    ("named", "student"), [("nobody/nothing", "tiny"), (None, "nobody/nothing")]
)
def test_a_wrong_name_of_a_model_is_told_before_the_texts_are_read(
    named: str | None,
    student: str,
    teacher: Path,
    texts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []
    monkeypatch.setattr(module, "hold_out", lambda *_: read.append(1))
    with pytest.raises(
        UserError, match="nobody/nothing is neither a folder here nor a model that the hub gave"
    ):
        compress(
            named or teacher,
            texts,
            student=student,
            output=tmp_path / "run",
            console=Console(quiet=True),
        )
    assert not read


def test_a_restart_makes_the_student_anew(teacher: Path, texts: Path, tmp_path: Path) -> None:
    """Once, what was trained anew was deleted before it was judged."""
    (tmp_path / "few.txt").write_text(
        "".join(texts.read_text(encoding="utf-8").splitlines(True)[:60])
    )
    first = small(teacher, tmp_path / "few.txt", tmp_path / "run", "static")
    before = vectors(first)
    again = small(teacher, tmp_path / "few.txt", tmp_path / "run", "static", restart=True)
    assert again.record["compression"]["kept"] == first.record["compression"]["kept"]
    assert np.array_equal(vectors(again), before)
