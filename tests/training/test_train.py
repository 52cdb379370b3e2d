"""Whole runs: what they take and leave behind, seeds, kills; what selects and judges; the verdict
and the card.
"""

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pandas import DataFrame
from sentence_transformers import SentenceTransformer

import isotrope
from helpers.refusals import refused
from helpers.small_runs import SHORT, SMALL, Small, logged, same_weights, small_run
from helpers.words import sentences
from isotrope import load
from isotrope.console.plain import plain_console
from isotrope.encoder import save
from isotrope.encoder.checksum import model_checksum
from isotrope.errors import UserError
from isotrope.evaluation.correlation import spearman
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.evaluation.sts import main_pairs, pair_similarities
from isotrope.training.pairs import dev_names, dev_pairs, evaluation_pairs
from isotrope.training.train import Run
from isotrope.training.trainer import ObjectiveState


def test_a_run_leaves_its_record(finished: Run) -> None:
    kept = {path.name for path in finished.folder.iterdir()}
    assert kept >= {
        "model",
        "result.json",
        "metrics.jsonl",
        "preset.toml",
        "environment.json",
        "job.json",
    }
    assert finished.verdict.word in {"better", "worse", "no difference found"}
    records = logged(finished.folder)
    evaluated = {record["step"]: record["score"] for record in records if "score" in record}
    assert list(evaluated) == [5, 10, 15, 20]
    selection = finished.record["selection"]
    assert selection["best_score"] == max(evaluated.values()) == evaluated[selection["best_step"]]
    losses = [record["infonce"] for record in records if "infonce" in record]
    assert losses[-1] < 0.8 * losses[0], "it learns"


def test_the_model_is_the_best_one_and_loads_in_plain_sentence_transformers(finished: Run) -> None:
    plain = SentenceTransformer(str(finished.folder / "model"), device="cpu")
    assert np.array_equal(plain.encode(sentences(5)), finished.model.to("cpu").encode(sentences(5)))
    assert not any("linear" in name for name, _ in plain.named_parameters()), (
        "the head is for training only"
    )
    assert plain.max_seq_length == 64, "the training length is not the model's"
    best = finished.record["selection"]["best_step"]
    kept = finished.folder / "checkpoints" / f"checkpoint-{best}"
    assert same_weights(finished.folder / "model", kept, "model.safetensors")


def test_a_result_saves_its_model_and_writes_its_report(finished: Run, tmp_path: Path) -> None:
    finished.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "README.md").is_file()
    assert np.array_equal(
        isotrope.load(tmp_path / "mine").encode(["a bird"]), finished.model.encode(["a bird"])
    )
    page = finished.report(tmp_path / "page.html")
    assert finished.verdict.word in page.read_text(encoding="utf-8")


def test_the_default_method_fits_the_model_and_is_said(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A raw model gets SimCSE; a sentence-embedding model is adapted, and keeps its pooling."""
    isotrope.load(tiny_model, "mean").save_pretrained(str(tmp_path / "embedding"))
    few = {
        "overrides": ["train.batch_size=16", "train.epochs=0.1"],
        "dev": "none",
        "labels": "none",
        "max_texts": 64,
    }
    for model, preset, pooling in (
        (tiny_model, "simcse", "cls"),
        (tmp_path / "embedding", "adapt", "mean"),
    ):
        found = isotrope.train(corpus_file, model=model, output=tmp_path / preset, **few)
        assert found.record["preset"] == preset
        assert found.verdict.word == "not tested"
        assert found.model[1].pooling_mode == pooling
        assert f"--preset {preset}" in " ".join(capsys.readouterr().out.split())


def test_seeds_differ_and_a_seed_repeats(small: Small) -> None:
    first, again, other = (
        small(f"run{place}", seed=seed, **SHORT).folder for place, seed in enumerate((1, 1, 2))
    )
    assert same_weights(first, again)
    assert not same_weights(first, other)


def test_a_finished_run_is_only_read_until_it_begins_anew(small: Small) -> None:
    run = small("run", **SHORT)
    before = (run.folder / "model" / "model.safetensors").stat().st_mtime_ns
    assert small(run.folder, **SHORT).record == run.record
    assert (run.folder / "model" / "model.safetensors").stat().st_mtime_ns == before
    with refused("begun-differently", "seed = 0, not 7"):
        small(run.folder, seed=7, **SHORT)
    assert small(run.folder, seed=7, restart=True, **SHORT).record["seed"] == 7


@pytest.fixture(scope="module")
def from_files(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    table = tmp_path_factory.mktemp("table") / "texts.csv"
    table.write_text(
        "name,text\n" + "".join(f"{number},{text}\n" for number, text in enumerate(sentences(64)))
    )
    return isotrope.train(
        table, preset="simcse", model=tiny_model, overrides=SMALL, dev="none", labels="none"
    )


@pytest.mark.parametrize("given", [DataFrame, lambda table: table["text"]])
def test_objects_give_the_same_model_as_files(
    given: Callable[[dict[str, list[str]]], Any], from_files: Run, tiny_model: Path
) -> None:
    """Without an output nothing is left when the result is gone; the loaded model stays as it was."""
    model = isotrope.load(tiny_model)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    texts = given({"text": sentences(64), "name": [f"{number}" for number in range(64)]})
    run = isotrope.train(
        texts, preset="simcse", model=model, overrides=SMALL, dev="none", labels="none"
    )
    assert np.array_equal(run.model.encode(sentences(5)), from_files.model.encode(sentences(5)))
    assert run.record["selection"]["steps"] == 4
    assert "64 " in (said := (run.folder / "model" / "README.md").read_text())
    assert "texts.parquet" not in said
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    folder = run.folder
    del run
    assert not folder.exists()


def test_each_file_is_opened_once(small: Small, corpus_file: Path, cached: Path) -> None:
    """By a first training, with nothing in the cache."""
    opened: list[str] = []
    sys.addaudithook(
        lambda event, words: (
            opened.append(str(words[0])) if event == "open" and opened_by_test else None
        )
    )
    opened_by_test = [True]
    small("run", **SHORT)
    opened_by_test.clear()
    assert opened.count(str(corpus_file)) == 1


def test_a_teacher_that_is_a_preset_is_trained_first(small: Small, tmp_path: Path) -> None:
    """As if it had been trained by itself and named; the same call goes on with both."""
    given = {"preset": "rankcse-listnet", "labels": "none", "dev": "none", "max_texts": 64}
    said = io.StringIO()
    console = plain_console(file=said)
    run = small("run", train_teachers=True, console=console, **given)
    assert "training 1 of 2: the teacher simcse\n" in said.getvalue()
    teacher = tmp_path / "run.teachers" / "simcse" / "model"
    assert json.loads((teacher.parent / "result.json").read_text())["preset"] == "simcse"
    named = small("named", teachers={"simcse": teacher}, **given)
    assert model_checksum(run.model) == model_checksum(named.model)
    before = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    small("run", train_teachers=True, **given)
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == before


def test_text_that_changes_under_a_training_ends_it(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = tmp_path / "notes.txt"
    growing.write_text(corpus_file.read_text())

    def grow(*_: object, **__: object) -> None:
        with growing.open("a") as file:
            file.write("one more sentence\n")

    monkeypatch.setattr(ObjectiveState, "on_step_end", grow)
    with refused("text-changed", "notes.txt"):
        small_run(tiny_model, growing, tmp_path / "run", **SHORT)
    assert not (tmp_path / "run" / "result.json").exists()


def test_the_verdict_is_on_pairs_that_did_not_select(finished: Run, pairs_file: Path) -> None:
    """Half of the user's pairs select, the other half judges; its numbers are those of the two
    models.
    """
    comparison, verdict = finished.record["comparison"], finished.verdict
    (task,) = comparison["per_task"]
    scored = next(iter(finished.record["after"].values()))
    assert scored["nsamples"] == len(read_pairs(pairs_file)) // 2
    assert comparison["after"] == pytest.approx(scored["spearman"]["test"], abs=1e-12)
    assert verdict.scores == (comparison["before"], comparison["after"])
    assert verdict.difference == pytest.approx(comparison["after"] - comparison["before"])
    assert verdict.judge == "60 graded pairs of pairs"
    assert "a raw language model, pooled as sentence-transformers loads it" in verdict.before
    assert finished.record["selection"]["sets"] == [task] == ["pairs"]
    assert list(finished.table.index) == ["pairs"]
    assert finished.table["after"]["pairs"] == comparison["after"]


@pytest.fixture(scope="module")
def own_pooling(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-embedding model with a pooling and a prompt of its own, which the preset does not
    have.
    """
    model = load(tiny_model, "mean", normalize=True, device="cpu")
    model.prompts, model.default_prompt_name = {"query": "the river "}, "query"
    save(model, folder := tmp_path_factory.mktemp("own") / "model")
    return folder


def test_before_is_the_model_as_it_was_given(
    own_pooling: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """Else `train` praises a model that has lost what the user had: 77.37 with its mean, 72.91 with
    the preset's.
    """
    said = io.StringIO()
    run = small_run(
        own_pooling,
        corpus_file,
        tmp_path / "run",
        "encoder.pooling=cls",
        "encoder.prompt=''",
        dev="none",
        max_texts=32,
        labels=pairs_file,
        console=plain_console(file=said),
    )
    pairs = {"pairs": {"test": read_pairs(pairs_file)}}
    gold, cosines = main_pairs(pairs, pair_similarities(load(own_pooling, device="cpu"), pairs))[
        "pairs"
    ]
    assert run.verdict.scores is not None
    assert run.verdict.scores[0] == pytest.approx(spearman(cosines, gold), abs=1e-6)
    assert (run.verdict.before, run.verdict.judge) == ("model", "120 graded pairs of pairs")
    assert (
        said.getvalue().count(
            "note: the new model has the pooling cls, and is compared with model as it is"
        )
        == 1
    )


def test_it_tells_the_run_and_no_text_of_it(
    finished: Run, corpus_file: Path, tiny_model: Path
) -> None:
    text = (finished.folder / "model" / "README.md").read_text(encoding="utf-8")
    result = finished.record
    (scores,) = result["comparison"]["per_task"].values()
    for words in (
        f"{finished.verdict.word}**: ",
        "60 graded pairs of pairs",
        f"{100 * scores['before']:.2f} | {100 * scores['after']:.2f}",
        f"## Is it better than {tiny_model.name} (a raw language model",
        "### 1. Trained with `simcse`",
        f"| text | `{corpus_file.name}` |",
        f"{result['corpus']['used']:,} of {result['corpus']['rows']:,}",
        result["corpus"]["key"],
        "| `train.batch_size` | `16` | set for this run |",
        "| `views.passes` | `2` | SimCSE Sec. 3 |",
        "| `seed` | `0` |",
        '| `train.select` | `["pairs"]` | set for this run |',
        "gao2021simcse",
        "Labelled pairs chose the checkpoint (pairs)",
        "at most 32 tokens",
    ):
        assert words in text, words
    assert f"`{json.dumps(tiny_model.name)}`" in text
    assert str(tiny_model.parent) not in text
    assert str(corpus_file.parent) not in text
    assert not [
        sentence
        for sentence in corpus_file.read_text().splitlines()
        if sentence and sentence in text
    ]


def test_without_pairs_the_last_checkpoint_is_kept(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    run = small("run", dev="none", labels="none")
    assert run.verdict.word == "not tested"
    assert "**Not judged.**" in (run.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert run.record["selection"]["best_step"] is None
    assert "the last checkpoint is kept" in capsys.readouterr().out
    signals = [record for record in logged(run.folder) if "uniformity" in record]
    assert [record["step"] for record in signals] == [5, 10, 15, 20]
    assert all(
        np.isfinite([r["alignment"], r["uniformity"], r["mean_cosine"]]).all() for r in signals
    )


def test_half_of_the_users_pairs_select_and_the_other_half_judges(pairs_file: Path) -> None:
    judging, selecting = evaluation_pairs(str(pairs_file), [], None, None)
    whole, kept, held = read_pairs(pairs_file), selecting["pairs"], judging["pairs"]["test"]
    assert len(kept) == len(held) == len(whole) // 2
    assert sorted([*kept.first, *held.first]) == sorted(whole.first)
    again = evaluation_pairs(str(pairs_file), [], None, None)[1]["pairs"]
    assert again.checksum() == kept.checksum()


def test_none_and_several_names(pairs_file: Path, tmp_path: Path) -> None:
    assert dev_names(["stsb,none", "a.tsv"]) == ["stsb", "a.tsv"]
    assert evaluation_pairs("none", ["stsb"], None, None) == ({}, {})
    other = shutil.copy(pairs_file, tmp_path / "other.tsv")
    assert set(dev_pairs([str(pairs_file), str(other)], None)) == {"pairs", "other"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("none", [], "stts", None), r"labels = 'stts' is unknown: did you mean 'sts'"),
        (("stsb-dve", [], "none", None), r"dev set 'stsb-dve' is unknown: did you mean 'stsb-dev'"),
        ((["a.tsv", "b/a.tsv"], [], None, None), "two dev sets are called 'a'"),
        (("a.tsv", [], "b/a.tsv", None), "a both selects and judges: leave labels out"),
        (("transfer-dev", [], None, "b"), r"senteval/downstream/.* does not exist"),
    ],
)
def test_what_cannot_select_or_judge_is_refused_before_training(
    given: Any, problem: str, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never passed over, and nothing else judges in its place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    (tmp_path / "b").mkdir()
    for folder in (".", "b"):
        shutil.copy(pairs_file, Path(folder) / "a.tsv")
    with pytest.raises(UserError, match=problem):
        evaluation_pairs(*given)
