"""Run by test_kills: kills every long command at random moments, gives it again, and compares with
an undisturbed one.

The command line runs in forks of one process, which has imported everything already. A command
given again may refuse with one clear line (exit code 2) only where that is said below; all others
must end with the same bytes.
"""

import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import isotrope.cli.main
import isotrope.encoding.encode
import isotrope.evaluation.models
import isotrope.improvement.plan
import isotrope.improvement.prepare
import isotrope.improvement.whiten
import isotrope.study.study
import isotrope.training.train
from helpers.forks import code, fork
from helpers.library import write_library
from helpers.small_bert import build_bert
from helpers.studies import numbers, write_study
from helpers.words import sentences
from isotrope.errors import UserError

torch.set_num_threads(1)
isotrope.improvement.plan.FEWEST_PAIRS = 64
isotrope.improvement.prepare.MOST_ROUNDS = 2  # then the clock decides nothing
SETTINGS = [
    "train.batch_size=16", "train.eval_steps=4", "train.save_steps=7", "train.epochs=2", "train.learning_rate=1e-3",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One command: what is run, and a checksum of what it made."""

    kills: int
    command: Callable[[Path], list[str]]
    made: Callable[[Path], str]


def made(
    *names: str, record: str = "result.json", keys: tuple[str, ...] = ()
) -> Callable[[Path], str]:
    """A checksum of some files below a folder, and parts of a record without what the clock
    decides.
    """

    def told(folder: Path) -> str:
        total = hashlib.sha256(
            b"".join((folder / name).read_bytes() for name in names)
        ).hexdigest()[:16]
        found = json.loads((folder / "out" / record).read_text()) if keys else {}
        return total + json.dumps([numbers(found[key]) for key in keys])

    return told


def cases(base: Path) -> dict[str, Case]:
    """All commands, on a small random model and text of its own."""
    model = str(build_bert(base / "bert"))
    text, pairs, more = base / "corpus.txt", base / "pairs.tsv", base / "more.txt"
    text.write_text("\n".join(sentences(400)) + "\n")
    more.write_text("\n".join(sentences(1500, seed=5)) + "\n")
    drawn = sentences(60, seed=1)
    pairs.write_text(
        "".join(f"{a}\t{b}\t{i % 6}\n" for i, (a, b) in enumerate(itertools.pairwise(drawn)))
    )
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    train = ["train", str(text), "--model", model, "--dev", str(pairs), "--seed", "4", *settings]
    taught = [*train, "--preset", "rankcse-listmle", "--teacher", f"rank={model}"]
    rows = '[rows.SimCSE]\npreset = "simcse"\n[rows.before]\ntrain = false\n'
    study = write_study(base, Path(model), text, pairs, rows, seeds=2)

    def out(folder: Path) -> list[str]:
        return ["--output", str(folder / "out")]

    library = write_library(base / "library.jsonl")
    improve = ["improve", model, str(library), "--minutes", "60"]
    vectors = ["encode", model, str(more), "--batch-size", "8"]
    judged = ["evaluate", model, "--suite", "sts", "--tasks", "STSBenchmark", "--json"]
    weights, dense = "out/model/model.safetensors", "out/model/2_Dense/model.safetensors"
    trained = made(weights, keys=("selection",))
    chosen = made(weights, keys=("choice", "left_out", "notes", "table", "gains"))
    found = {
        "train": Case(14, lambda f: [*train, *out(f)], trained),
        "teacher": Case(10, lambda f: [*taught, *out(f)], trained),
        "encode file": Case(
            7, lambda f: [*vectors, "--output", str(f / "out.parquet")], made("out.parquet")
        ),
        "encode parts": Case(5, lambda f: [*vectors, *out(f)], made("out/part-00000.parquet")),
        "whiten": Case(6, lambda f: ["whiten", model, str(more), *out(f)], made(dense)),
        "improve": Case(12, lambda f: [*improve, *out(f)], chosen),
        "study": Case(
            4, lambda f: ["study", str(study), *out(f)], made(record="study.json", keys=("rows",))
        ),
    }
    if os.environ.get("ISOTROPE_DATA"):
        found["evaluate"] = Case(6, lambda f: [*judged, str(f / "out.json")], made("out.json"))
    return found


def start(command: list[str], folder: Path) -> int:
    """Fork the command; with a cache of its own, so that a kill may hit the caches too."""

    def work() -> None:
        os.environ["ISOTROPE_CACHE"] = str(folder / "cache")
        log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        try:
            sys.argv = ["isotrope", *command]
            isotrope.cli.main.main()
        except SystemExit as done:
            os._exit(int(done.code or 0))
        except UserError as error:
            os.write(1, f"isotrope: {error}\n".encode())
            os._exit(2)

    return fork(work)


def killed(child: int, after: float) -> bool:
    """Kill a command so many seconds from now -> whether it was still alive then."""
    began = time.monotonic()
    while time.monotonic() - began < after:
        if os.waitpid(child, os.WNOHANG)[0]:
            return False
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return code(child) == -signal.SIGKILL


def check(name: str, case: Case, base: Path, share: float, draw: random.Random) -> list[str]:
    """All kills of one command -> a line for each that did not end as it should."""
    wrong: list[str] = []
    whole = base / f"{name}-whole"
    whole.mkdir()
    began = time.monotonic()
    assert code(start(case.command(whole), whole)) == 0, (whole / "log.txt").read_text()
    length, expected = time.monotonic() - began, case.made(whole)
    for number in range(max(1, round(case.kills * share))):
        folder = base / f"{name}-{number}"
        folder.mkdir()
        # two at once: one of them is refused, or waits
        second = start(case.command(folder), folder) if number % 4 == 3 else None
        while (
            not killed(start(case.command(folder), folder), draw.uniform(0.02, 0.98) * length)
            and second is None
        ):
            length *= 0.8  # the machine has become faster, and the command had ended: once more
            shutil.rmtree(folder)
            folder.mkdir()
        if second is not None and (ended := code(second)) not in (0, 2):
            wrong.append(f"{name} {number}: the second of two ended with {ended}: {tail(folder)}")
        ended = code(start(case.command(folder), folder))
        # by the other of the two: it is not replaced
        finished = second is not None and "is not empty" in tail(folder)
        if ended != 0 and not (ended == 2 and finished):
            wrong.append(f"{name} {number}: given again, it ended with {ended}: {tail(folder)}")
        elif (found := case.made(folder)) != expected:
            wrong.append(f"{name} {number}: {found} instead of {expected}")
        shutil.rmtree(folder)
    return wrong


def tail(folder: Path) -> str:
    return (folder / "log.txt").read_text()[-300:]


if __name__ == "__main__":
    place, chosen, part = Path(sys.argv[1]), sys.argv[2].split(","), float(sys.argv[3])
    moments, every = random.Random(0), chosen == ["all"]
    asked = {title: one for title, one in cases(place).items() if every or title in chosen}
    sys.stdout.write(
        json.dumps({title: check(title, one, place, part, moments) for title, one in asked.items()})
    )
