"""What a user can get wrong, at the real command line: exit code 2, one line with cause and remedy, nothing left."""

import gzip
import json
import logging
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from transformers.utils.logging import disable_progress_bar, enable_progress_bar

import isotrope.cli.main
from forks import code, command

Command = list[str]
COMMAND = [sys.executable, "-m", "isotrope.cli.main"]


class Bench:
    """A folder to make mistakes in, and commands that would be right but for one."""

    def __init__(self, folder: Path, model: Path, corpus: Path, pairs: Path) -> None:
        self.folder, self.model, self.corpus, self.pairs, self.run = folder, model, corpus, pairs, folder / "run"

    def file(self, name: str, content: str | bytes = b"") -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def train(
        self,
        *more: str,
        corpus: str | None = None,
        backbone: str | Path | None = None,
        output: str | Path | None = None,
    ) -> Command:
        """A run of six steps."""
        return [
            "train", corpus or str(self.corpus), "--output", str(output or self.run),
            "--model", str(backbone or self.model), "--set", "train.batch_size=100", *more,
        ]  # fmt: skip

    def set(self, override: str) -> Command:
        return self.train("--set", override)

    def preset(self, text: str) -> Command:
        return self.train("--preset", self.file("mine.toml", text))

    def dev(self, text: str) -> Command:
        return self.train("--dev", self.file("dev.tsv", text))

    def spoilt(self, *removed: str, **written: bytes) -> Path:
        """A copy of the model without some files, and with others written anew."""
        copy = self.folder / "model"
        shutil.copytree(self.model, copy)
        for name in removed:
            (copy / name).unlink()
        for name, content in written.items():
            (copy / name.replace("__", ".")).write_bytes(content)
        return copy

    def weights(self) -> bytes:
        return (self.model / "model.safetensors").read_bytes()

    def config(self) -> bytes:
        return (self.model / "config.json").read_bytes()

    def earlier(self, *more: str, **identity: object) -> Command:
        """The folder of the run holds an earlier one's identity."""
        self.file("run/.isotrope", '{"kind": "run"}')
        self.file("run/job.json", json.dumps({"preset": "", "corpus": "", "seed": 0, "sentences": None, **identity}))
        return self.train(*more)


@pytest.fixture
def bench(tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path) -> Bench:
    return Bench(tmp_path, tiny_model, corpus_file, pairs_file)


@pytest.fixture(autouse=True)
def _no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command line quiets other libraries for its own process, which here is the tests'."""
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    disable_progress_bar()  # what TRANSFORMERS_VERBOSITY does, for a library not yet imported
    before = dict(os.environ)
    with warnings.catch_warnings():
        yield
    logging.disable(logging.NOTSET)
    enable_progress_bar()
    os.environ.clear()
    os.environ.update(before)


Mistake = tuple[Callable[[Bench], Command], str]  # the command, and what its one line must say, in this order
ROWS = "".join(f"sentence number {i}\tanother one {i}\t{i % 5}\n" for i in range(20))

CORPUS: dict[str, Mistake] = {
    "missing file": (lambda b: b.train(corpus="no/such.txt"), "no/such.txt does not exist … check the path"),
    "empty file": (lambda b: b.train(corpus=b.file("a.txt")), "a.txt is empty … one sentence a line"),
    "unknown ending": (lambda b: b.train(corpus=b.file("a.docx", "a b")), "a.docx has the unknown ending … supported:"),
    "folder without text": (
        lambda b: b.train(corpus=str(Path(b.file("texts/a.pdf", "x")).parent)),
        "texts holds no file of text … supported:",
    ),
    "short row, tsv": (
        lambda b: b.train("--text", "s", corpus=b.file("a.tsv", "s\tt\none\ttwo\nthree\n")),
        "a.tsv:3 cannot be read as a table (1 columns, its header has 2 … correct the line",
    ),
    "broken jsonl": (
        lambda b: b.train(corpus=b.file("a.jsonl", '{"text": "one"}\n{"text": \n')),
        "a.jsonl:2 is not valid JSON … one JSON object on each line",
    ),
    "missing column": (
        lambda b: b.train("--text", "body", corpus=b.file("a.csv", "text,id\none,1\n")),
        "a.csv has no column 'body' (columns: text, id) … name one",
    ),
    "negative without positive": (lambda b: b.train("--negative", "n"), "no positive … name the column"),
    "truncated gz": (
        lambda b: b.train(corpus=b.file("a.txt.gz", gzip.compress(os.urandom(4000).hex().encode())[:-900])),
        "a.txt.gz is truncated or broken … again",
    ),
    "broken parquet": (lambda b: b.train(corpus=b.file("a.parquet", "PAR1 no")), "a.parquet is truncated … again"),
    "one sentence": (lambda b: b.train(corpus=b.file("a.txt", "just the one\n")), "single text is left … give more"),
    "batch above corpus": (
        lambda b: b.train(corpus=b.file("a.txt", "".join(f"line {i}\n" for i in range(50)))),
        "batch of 100 is larger than the 50 sentences … at most 50",
    ),
    "sample above corpus": (lambda b: b.train("--sentences", "601"), "601 sentences from a corpus of 600 … 1 to 600"),
}  # fmt: skip

PRESET: dict[str, Mistake] = {
    "unknown preset": (lambda b: b.train("--preset", "simsce"), "preset 'simsce' is unknown … simcse, "),
    "unknown key": (
        lambda b: b.preset('extends = "simcse"\n[train]\nbatchsize = 3\n'),
        "mine.toml … train.batchsize is an unknown key … batch_size",
    ),
    "unknown kind": (lambda b: b.preset('extends = "simcse"\n[terms.infonec]\n'), "no kind 'infonec' … infonce"),
    "broken TOML": (lambda b: b.preset("[train\n"), "mine.toml is not valid TOML … line 1 … correct"),
    "max_length above the model's": (lambda b: b.set("train.max_length=65"), "train.max_length = 65 … at most 64"),
    "no dropout": (lambda b: b.set("encoder.dropout=0"), "two views … are equal … encoder.dropout in a preset"),
}  # fmt: skip

FOLDER: dict[str, Mistake] = {
    "output is a file": (lambda b: b.train(output=b.file("note")), "note is a file … choose a folder"),
    "output is a dangling link": (
        lambda b: ((b.folder / "link").symlink_to("nowhere/below"), b.train(output="link"))[1],
        "link is a symbolic link … name the folder itself",
    ),
    "output with an endless name": (lambda b: b.train(output="x" * 300), "xxx … File name too long … another name"),
    "output in the corpus": (
        lambda b: b.train(corpus=str(Path(b.file("texts/a.txt", "one\ntwo\n" * 99)).parent), output="texts/run"),
        "texts/run lies in … texts, which is read … elsewhere",
    ),
    "output holds something": (
        lambda b: b.train(output=Path(b.file("full/thesis.tex", "x")).parent),
        "full is not empty and holds no run … new or an empty folder",
    ),
    "resume with another preset": (
        lambda b: b.earlier(preset={"train.epochs": 9}),
        "run was begun with … another --output",
    ),
    "resume a broken run": (
        lambda b: (b.earlier(), b.file("run/job.json", "{"), b.train())[2],
        "job.json is damaged … --restart",
    ),
}  # fmt: skip

MODEL: dict[str, Mistake] = {
    "missing folder": (lambda b: b.train(backbone="./no/model"), "./no/model does not exist … check the path"),
    "broken config": (lambda b: b.train(backbone=b.spoilt(config__json=b"{")), "model cannot be loaded … config.json"),
    "no tokenizer": (
        lambda b: b.train(backbone=b.spoilt("tokenizer.json", "tokenizer_config.json")),
        "model has no tokenizer … tokenizer.json",
    ),
    "truncated safetensors": (
        lambda b: b.train(backbone=b.spoilt(model__safetensors=b.weights()[:-1000])),
        "model.safetensors is broken … again",
    ),
    "pickled weights alone": (
        lambda b: b.train(backbone=b.spoilt("model.safetensors", pytorch_model__bin=b"\x80\x02}q\x00.")),
        "model has no model.safetensors … pickled files are not opened",
    ),
    "hub without a network": (
        lambda b: b.train(backbone="nobody/no-such-model"),
        "nobody/no-such-model is neither a folder here nor … network",
    ),
}  # fmt: skip

PAIRS: dict[str, Mistake] = {
    "unknown dev set": (lambda b: b.train("--dev", "stsx"), "dev set 'stsx' is unknown … stsb"),
    "missing dev file": (lambda b: b.train("--dev", "no.tsv"), "no.tsv does not exist … name"),
    "dev: score": (lambda b: b.dev(ROWS + "one\ttwo\tgood\n"), "dev.tsv, line 21: the score 'good' … correct"),
    "dev: too few": (lambda b: b.dev("one a\ttwo b\t3\n"), "dev.tsv: 1 pair(s) … at least 10"),
    "dev: two of one name": (
        lambda b: b.train("--dev", b.file("x/dev.tsv", ROWS), "--dev", b.file("y/dev.tsv", ROWS)),
        "two dev sets are called 'dev' … rename a file",
    ),
    "unknown test set": (lambda b: b.train("--labels", "stsc"), "labels = 'stsc' is unknown … mean 'sts'? … a file"),
    "dev without data": (lambda b: b.train("--dev", "stsb"), "no data folder given … --data"),
    "data missing": (lambda b: b.train("--dev", "stsb", "--data", "no/data"), "no/data does not exist … --data"),
}  # fmt: skip

OTHERS: dict[str, Mistake] = {
    "unknown suite": (lambda b: ["evaluate", str(b.model), "--suite", "stss"], "unknown suite 'stss' … sts"),
    "unknown task": (lambda b: ["evaluate", str(b.model), "--tasks", "STS99"], "no task 'STS99' … STS12"),
    "evaluate without data": (lambda b: ["evaluate", str(b.model)], "no data folder given … --data"),
    "train: prompt": (lambda b: b.train("--prompt-name", "query"), "has no prompt called 'query': it has none"),
    "train: prompt of nothing": (lambda b: b.train("--positive-prompt", "a "), "positives only from a column"),
    "evaluate: prompt": (
        lambda b: ["evaluate", str(b.model), "--labels", str(b.pairs), "--prompt-name", "query"],
        "has no prompt called 'query': it has none … give the words",
    ),
    "encode: kept column": (
        lambda b: ["encode", str(b.model), b.file("a.csv", "text,id\none,1\n"), f"--output={b.folder}/v", "--keep=n"],
        "a.csv has no column 'n' (columns: text, id) … name one",
    ),
    "evaluate: second model missing": (
        lambda b: ["evaluate", str(b.model), "./no/model", "--labels", str(b.pairs)],
        "./no/model does not exist … check the path",
    ),
    "encode: unknown ending": (
        lambda b: ["encode", str(b.model), str(b.corpus), "--output", str(b.folder / "a.xlsx")],
        "a.xlsx has the unknown ending … .npy",
    ),
    "tracker": (lambda b: b.train("--log-to", "paper"), "tracker 'paper' is unknown … --log-to"),
    "seed": (lambda b: b.train("--seed", "-1"), "--seed … greater than or equal to 0 … see isotrope train --help"),
    "sample of one": (lambda b: b.train("--sentences", "1"), "--sentences … greater than or equal to 2 … --help"),
    "no output": (lambda b: ["train", str(b.corpus)], "Missing option … --output … see isotrope train --help"),
    "unknown option": (lambda b: b.train("--sede", "3"), "No such option … see isotrope train --help"),
}  # fmt: skip

GROUPS = {"corpus": CORPUS, "preset": PRESET, "folder": FOLDER, "model": MODEL, "pairs": PAIRS, "others": OTHERS}
TABLE = [
    pytest.param(*mistake, id=f"{group}: {name}") for group, table in GROUPS.items() for name, mistake in table.items()
]


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*") if path.name != ".lock"}


def in_process(command: Command, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["isotrope", *command])
    try:
        isotrope.cli.main.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def check_line(err: str, expected: str) -> None:
    """One line, in which the parts between … occur in this order."""
    assert err.count("\n") == 1, err
    assert err.startswith("isotrope: "), err
    assert re.search(".*".join(re.escape(part.strip()) for part in expected.split("…")), err), err


@pytest.mark.parametrize(("command", "expected"), TABLE)
def test_a_mistake_ends_with_one_line(
    bench: Bench,
    command: Callable[[Bench], Command],
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(bench.folder)
    given = command(bench)
    before = contents(bench.folder)
    began = time.monotonic()
    code = in_process(given, monkeypatch)
    out, err = capfd.readouterr()
    assert code == 2, err
    check_line(err, expected)
    assert "Traceback" not in out + err
    assert contents(bench.folder) == before
    assert not list(Path(os.environ["ISOTROPE_CACHE"]).rglob("*.part"))
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trian", "corpus.txt"], "isotrope: No such command 'trian' … see isotrope --help"),
        (["train", "--output"], "isotrope: Option '--output' requires an argument … --help"),
        (["presets", "shwo"], "isotrope: No such command 'shwo' … see isotrope presets --help"),
        (["🦜"], "isotrope: No such command '🦜' … see isotrope --help"),
    ],
)
def test_gibberish_in_its_own_process(words: list[str], expected: str) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    check_line(done.stderr, expected)
    assert done.stdout == ""


def test_full_disk_and_on(bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """In its own process, which may write no file above 64 KiB: too little for the weights."""
    limit = 1 << 16
    assert len(bench.weights()) > limit > bench.corpus.stat().st_size
    small = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
    ended = code(command(bench.train(), bench.folder, prepare=small))
    err = (bench.folder / "err").read_text()
    assert ended == 2, err
    assert err == f"isotrope: no space left to write {bench.run}: free some, then give the same command again\n"
    assert "Traceback" not in (bench.folder / "out").read_text()
    assert in_process(bench.train(), monkeypatch) == 0, capfd.readouterr().err
    assert json.loads((bench.run / "result.json").read_text())["selection"]["steps"] == 6


def test_full_disk_for_the_cleaned_corpus(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(bench.folder / "cache"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 13, before[1]))
    try:
        code = in_process(bench.train(), monkeypatch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    check_line(capfd.readouterr().err, "no space left to write … free some")
    assert code == 2
    assert not bench.run.exists()
    assert not list(bench.folder.rglob("*.part"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_really_full_disk_and_on(
    bench: Bench, small_disk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With 200 KiB left; afterwards, with some freed, the run ends as it should."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes((1024 - 200) * 1024))
    command = bench.train("--set", "train.save_steps=2", output=small_disk / "run")
    code = in_process(command, monkeypatch)
    check_line(capfd.readouterr().err, "no space left to write … give the same command again")
    assert code == 2
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    assert in_process([*command], monkeypatch) == 0, capfd.readouterr().err
    assert (small_disk / "run" / "model" / "model.safetensors").is_file()


def test_ctrl_c_and_on(bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    settings = ("train.batch_size=20", "train.epochs=20", "train.eval_steps=25")
    words = bench.train("--sentences", "100", *(word for setting in settings for word in ("--set", setting)))
    running, out, began = command(words, bench.folder), bench.folder / "out", time.monotonic()
    while not (out.exists() and "step 25:" in out.read_text()) and time.monotonic() - began < 60:
        time.sleep(0.05)
    os.kill(running, signal.SIGINT)
    ended, err = code(running), (bench.folder / "err").read_text()
    assert ended == 130, err
    check_line(err, "isotrope: stopped after step … of 100 … the same command goes on")
    assert "Traceback" not in out.read_text()
    assert in_process(words, monkeypatch) == 0, capfd.readouterr().err
    assert json.loads((bench.run / "result.json").read_text())["selection"]["steps"] == 100
