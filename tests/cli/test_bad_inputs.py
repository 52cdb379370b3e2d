"""What a user can get wrong, at the real command line: exit code 2, one line with cause and remedy,
nothing left.

One mistake for each stage of a command: the others are tested in the rooms that refuse them.
"""

import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from helpers.commands import Shell, check_line
from helpers.forks import code, command

Command = list[str]


class Bench:
    """A folder to make mistakes in, and commands that would be right but for one."""

    def __init__(self, folder: Path, model: Path, corpus: Path, pairs: Path) -> None:
        self.folder, self.model, self.corpus, self.pairs, self.run = (
            folder,
            model,
            corpus,
            pairs,
            folder / "run",
        )

    def train(self, *more: str, corpus: str = "", backbone: str | Path = "") -> Command:
        """A run of six steps."""
        return [
            "train",
            corpus or str(self.corpus),
            "--output",
            str(self.run),
            "--model",
            str(backbone or self.model),
            "--set",
            "train.batch_size=100",
            *more,
        ]

    def without_tokenizer(self) -> Path:
        copy = shutil.copytree(self.model, self.folder / "model")
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (copy / name).unlink()
        return copy

    def broken_preset(self) -> str:
        (self.folder / "mine.toml").write_text("[train\n")
        return "mine.toml"


@pytest.fixture
def bench(
    tmp_path: Path,
    tiny_model: Path,
    corpus_file: Path,
    pairs_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Bench:
    # test_journeys waits for one
    monkeypatch.setattr("isotrope.cli.show.draw_report", lambda folder: None)
    return Bench(tmp_path, tiny_model, corpus_file, pairs_file)


# the command, and what its one line must say, in this order
Mistake = tuple[Callable[[Bench], Command], str]

MISTAKES: dict[str, Mistake] = {
    "missing file": (lambda b: b.train(corpus="no/such.txt"), "no/such.txt does not exist … check the path"),
    "sample above corpus": (lambda b: b.train("--max-texts", "601"), "601 sentences from a corpus of 600 … 1 to 600"),
    "unknown preset": (lambda b: b.train("--preset", "simsce"), "preset 'simsce' is unknown … simcse, "),
    "broken TOML": (
        lambda b: b.train("--preset", b.broken_preset()), "mine.toml is not valid TOML … line 1 … correct"
    ),
    "missing folder": (lambda b: b.train(backbone="./no/model"), "./no/model does not exist … check the path"),
    "no tokenizer": (
        lambda b: b.train(backbone=b.without_tokenizer()), "model has no tokenizer … tokenizer.json",
    ),
    "unknown test set": (lambda b: b.train("--labels", "stsc"), "labels = 'stsc' is unknown … mean 'sts'? … a file"),
    "evaluate: second model missing": (
        lambda b: ["evaluate", str(b.model), "./no/model", "--labels", str(b.pairs)],
        "./no/model does not exist … check the path",
    ),
    "train: teacher": (lambda b: b.train("--teacher", "a"), "--teacher a: not of the form NAME=MODEL … --teacher"),
    "seed": (lambda b: b.train("--seed", "-1"), "--seed … greater than or equal to 0 … see isotrope train --help"),
    "no output": (lambda b: ["train", str(b.corpus)], "Missing option … --output … see isotrope train --help"),
    "unknown option": (lambda b: b.train("--sede", "3"), "No such option … see isotrope train --help"),
    "unknown command": (lambda b: ["🦜"], "No such command '🦜' … see isotrope --help"),
}  # fmt: skip


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {
        path: path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
        if path.name != ".lock"
    }


@pytest.mark.parametrize(("command", "expected"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_ends_with_one_line(
    bench: Bench,
    shell: Shell,
    command: Callable[[Bench], Command],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(bench.folder)
    given = command(bench)
    before, began = contents(bench.folder), time.monotonic()
    said = shell(*given)
    said.is_mistake(expected)
    assert "Traceback" not in said.out
    assert contents(bench.folder) == before
    assert not list(Path(os.environ["ISOTROPE_CACHE"]).rglob("*.part"))
    assert time.monotonic() - began < 20


def test_full_disk_and_on(bench: Bench, shell: Shell) -> None:
    """In its own process, which may write no file above 64 KiB: too little for the weights."""
    limit = 1 << 16
    assert (bench.model / "model.safetensors").stat().st_size > limit > bench.corpus.stat().st_size
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    ended = code(command(bench.train(), bench.folder, prepare=small))
    err = (bench.folder / "err").read_text()
    assert ended == 2, err
    assert (
        err
        == f"isotrope: no space left to write {bench.run}: free some, then give the same command again\n"
    )
    assert "Traceback" not in (bench.folder / "out").read_text()
    assert shell(*bench.train()).code == 0
    assert json.loads((bench.run / "result.json").read_text())["selection"]["steps"] == 6


def test_full_disk_for_the_cleaned_corpus(
    bench: Bench, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(bench.folder / "cache"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 13, before[1]))
    try:
        said = shell(*bench.train())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said.is_mistake("no space left to write … free some")
    assert not bench.run.exists()
    assert not list(bench.folder.rglob("*.part"))


def test_ctrl_c_and_on(bench: Bench, shell: Shell) -> None:
    settings = ("train.batch_size=20", "train.epochs=6", "train.eval_steps=10")
    words = bench.train(
        "--max-texts", "100", *(word for setting in settings for word in ("--set", setting))
    )
    running, out, began = command(words, bench.folder), bench.folder / "out", time.monotonic()
    while not (out.exists() and "step 10:" in out.read_text()) and time.monotonic() - began < 60:
        time.sleep(0.05)
    os.kill(running, signal.SIGINT)
    ended, err = code(running), (bench.folder / "err").read_text()
    assert ended == 130, err
    check_line(err, "isotrope: stopped after step … of 30 … the same command goes on")
    assert "Traceback" not in out.read_text()
    assert shell(*words).code == 0
    assert json.loads((bench.run / "result.json").read_text())["selection"]["steps"] == 30
