"""Several processes, started by torchrun: their result, their errors, their end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from helpers.paths import ROOT
from helpers.small_runs import TORCHRUN, Small, lose, same_weights, torchrun
from helpers.words import sentences
from isotrope.training.processes import process_count, process_number

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def table_of_pairs(folder: Path, count: int = 320) -> Path:
    text, table = sentences(2 * count), folder / "pairs.jsonl"
    pairs = zip(text[:count], text[count:], strict=True)
    table.write_text("\n".join(json.dumps({"text": a, "positive": b}) for a, b in pairs))
    return table


def trained_apart(folder: Path, model: Path, *methods: list[str]) -> None:
    """Train each method in one process, and in two of half the batch: equal weights, head included."""
    for name, processes, batch in (("one", 1, 16), ("two", 2, 8)):
        words = [word for method in methods for word in ("+", RATE, *method)]
        ranks = (
            ROOT / "tests" / "helpers" / "ranks.py",
            table_of_pairs(folder),
            model,
            folder / name,
            batch,
            0.0,
            *words,
        )
        torchrun(*map(str, ranks), processes=processes)
    began = load_file(model / "model.safetensors")["embeddings.word_embeddings.weight"]
    for number in ("", *map(str, range(1, len(methods)))):
        one, two_ = (load_file(folder / f"{name}{number}-0.safetensors") for name in ("one", "two"))
        assert (
            one["model.0.model.embeddings.word_embeddings.weight"] - began
        ).abs().max() > 1e-3, "it has moved"
        assert one.keys() == two_.keys()
        for name, value in one.items():
            assert torch.allclose(value.float(), two_[name].float(), atol=1e-5), (number, name)


@pytest.mark.parametrize(
    ("variables", "number", "count"),
    [
        ({}, 0, 1),
        ({"RANK": "1"}, 0, 1),
        ({"RANK": "3", "WORLD_SIZE": "4"}, 0, 1),
        ({"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}, 1, 2),
    ],
)
def test_only_a_launchers_variables_number_the_processes(
    variables: dict[str, str], number: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch systems set RANK for a job, which is one process."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (process_number(), process_count()) == (number, count)


def test_a_batch_systems_rank_does_not_silence_a_training(
    small: Small, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANK", "1")
    run = small("run", labels="none", max_texts=64)
    assert (run.folder / "model" / "model.safetensors").is_file()
    assert "verdict" in run.record
    assert capsys.readouterr().out


@pytest.mark.slow
def test_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps without dropout. With dropout: equal heads on both ranks."""
    trained_apart(tmp_path, tiny_model, [])
    wet = (
        ROOT / "tests" / "helpers" / "ranks.py",
        table_of_pairs(tmp_path),
        tiny_model,
        tmp_path / "wet",
        8,
        0.1,
        RATE,
    )
    torchrun(*map(str, wet), processes=2)
    for run in ("two", "wet"):
        first, second = (load_file(tmp_path / f"{run}-{rank}.safetensors") for rank in (0, 1))
        assert {name for name in first if not name.startswith("model.")} >= {
            "components.0.linear.weight"
        }
        for name, value in first.items():
            assert torch.equal(value, second[name]), (run, name)


def train(*more: object, processes: int = 1) -> subprocess.CompletedProcess[str]:
    launcher = ["-m", *TORCHRUN, f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "isotrope", "train", *map(str, more)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT, check=False
    )


def words_of(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "reading", [("--preset", "crops", "--set", "pairs.rounds=3"), ("--set", "encoder.lora.rank=4")]
)
def test_the_command_in_two_processes_equals_one_of_twice_the_batch(
    reading: tuple[str, ...], tiny_model: Path, tmp_path: Path
) -> None:
    """The first process alone speaks. Pairs of documents come in rounds, of 324 rows or fewer."""
    positive = [] if "crops" in reading else ["--positive", "positive"]
    settings = words_of("encoder.dropout=0", "encoder.pooling=mean", "train.learning_rate=1e-3")
    common = [
        table_of_pairs(tmp_path),
        "--model",
        tiny_model,
        "--text-column",
        "text",
        *positive,
        *reading,
        *settings,
    ]
    weights = {}
    for name, processes, batch in (("one", 1, 16), ("two", 2, 8)):
        more = ["--set", f"train.batch_size={batch}", "--output", tmp_path / name]
        done = train(*common, *more, processes=processes)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("verdict: ") == 1
        weights[name] = load_file(tmp_path / name / "model" / "model.safetensors")
    for name, value in weights["one"].items():
        assert torch.allclose(value, weights["two"][name], atol=1e-5), name


@pytest.mark.slow
def test_under_torchrun_the_first_process_alone_tells_a_mistake(
    tiny_model: Path, tmp_path: Path
) -> None:
    done = train("no.txt", "--output", tmp_path / "run", "--model", tiny_model, processes=2)
    assert done.stderr.count("isotrope: no.txt does not exist") == 1
    assert done.stderr.count("isotrope: ") == 1


@pytest.mark.slow
def test_ctrl_c_stops_all_processes_and_they_go_on(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    settings = words_of("train.epochs=90", "train.batch_size=16", "train.eval_steps=10")
    words = [
        str(corpus_file),
        "--model",
        str(tiny_model),
        "--max-texts",
        "64",
        "--output",
        str(tmp_path),
        *settings,
    ]
    command = [
        sys.executable,
        "-m",
        *TORCHRUN,
        "--nproc-per-node=2",
        "-m",
        "isotrope",
        "train",
        *words,
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen(command, env=ENVIRONMENT, text=True, **pipes)  # type: ignore[call-overload]
    for line in running.stdout:
        if line.startswith("step 10:"):
            running.send_signal(signal.SIGINT)
            break
    _, err = running.communicate(timeout=120)
    assert running.returncode != 0
    assert err.count("isotrope: stopped after step 1") == 1, err
    done = train(*words, processes=2)
    assert done.returncode == 0, done.stderr
    assert "verdict: " in done.stdout


@pytest.mark.slow
def test_one_process_goes_on_for_two_of_which_one_was_lost(
    tiny_model: Path, tmp_path: Path
) -> None:
    """Without dropout, as many sentences a step give what they would have given."""
    settings = (
        "encoder.dropout=0",
        "encoder.pooling=mean",
        "train.learning_rate=1e-4",
        "train.save_steps=5",
    )
    common = [table_of_pairs(tmp_path, 640), "--model", tiny_model, *words_of(*settings)]
    common += ["--positive", "positive", "--text-column", "text"]
    command = ["-m", *TORCHRUN, "--nproc-per-node=2", "-m", "isotrope", "train", *common]
    words = [*command, "--output", tmp_path / "run", "--set", "train.batch_size=8"]
    code, errors, _ = lose(1, tmp_path / "run", *map(str, words))
    assert code != 0
    assert errors.count("isotrope: ") == 1
    refused = train(*common, "--output", tmp_path / "run", "--set", "train.batch_size=8")
    assert refused.returncode == 2
    for output in ("run", "whole"):
        done = train(*common, "--set", "train.batch_size=16", "--output", tmp_path / output)
        assert done.returncode == 0, done.stderr
    weights = [
        load_file(tmp_path / output / "model" / "model.safetensors") for output in ("run", "whole")
    ]
    assert all(
        torch.allclose(value, weights[1][name], atol=1e-5) for name, value in weights[0].items()
    )


RATE = "train.learning_rate=3e-4"  # with 10⁻³, Adam makes the rounding of one weight 2.3·10⁻⁵
PEERS = [
    "views.passes=3",
    "peers.trained.on=[1]",
    "peers.moving_average.on=[2]",
    "scores.positives.views=[1]",
]
PEERS += ["scores.key_queue.keys=2", "scores.key_queue.size=40", "train.mini_batch_size=5"]


def rankcse(teacher: Path) -> list[str]:
    listnet = [
        "kind='listnet'",
        "teacher='guide'",
        "temperature=0.025",
        "teacher_temperature=0.0125",
    ]
    terms = ["consistency.weight=1", *(f"rank.{option}" for option in listnet)]
    return [*(f"terms.{term}" for term in terms), f"teachers.guide.models=['{teacher}']"]


@pytest.mark.slow
def test_methods_in_two_processes_equal_one_of_twice_the_batch(
    tiny_model: Path, tmp_path: Path
) -> None:
    """20 steps of SimCSE, RankCSE, and of a trained and a slow second encoder with a queue, heads
    included.
    """
    trained_apart(tmp_path, tiny_model, [], rankcse(tiny_model), PEERS)


@pytest.mark.slow
def test_killed_under_torchrun_and_resumed_it_equals_an_unstopped_run(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """With dropout, a second encoder, a queue and a head."""
    settings = [
        *PEERS,
        "train.batch_size=8",
        "train.save_steps=5",
        "train.eval_steps=10",
        "encoder.pooling=mean",
    ]
    settings += ["train.learning_rate=1e-3", "train.keep_head=true"]
    common = [corpus_file, "--model", tiny_model, *words_of(*settings)]
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    command = [
        "-m",
        *TORCHRUN,
        "--nproc-per-node=2",
        "-m",
        "isotrope",
        "train",
        *common,
        "--output",
        stopped,
    ]
    code, errors, _ = lose(1, stopped, *map(str, command))
    assert code != 0
    (line,) = [line for line in errors.splitlines() if line.startswith("isotrope: ")]
    assert "another process of this run has ended" in line
    assert line.endswith("the same command goes on")
    for output in (stopped, whole):
        done = train(*common, "--output", output, processes=2)
        assert done.returncode == 0, done.stderr
    for name in ("model/model.safetensors", "checkpoints/checkpoint-20/objective.safetensors"):
        assert same_weights(stopped, whole, name)
    names = {path.name for path in (whole / "checkpoints" / "checkpoint-20").iterdir()}
    assert names >= {
        "model.safetensors",
        "objective.safetensors",
        "optimizer.pt",
        "scheduler.pt",
        "contents.json",
    }
    state = torch.load(whole / "checkpoints" / "checkpoint-20" / "optimizer.pt", weights_only=True)
    assert all(
        type(value) is torch.Tensor for kept in state["state"].values() for value in kept.values()
    )
