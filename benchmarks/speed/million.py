"""One million short documents through `encode`, `search` and `improve`: time, memory and size.

    python -m benchmarks.speed.million WORK --data DATA [--texts 1000000] [--minutes 10]

The documents are the first 12 words of Wikipedia's sentences, each once. Each command is a process
of its own, as a user starts it. ``seconds`` are the clock's, ``processor_seconds`` those of all its
threads, and ``peak_mb`` is the most of resident memory, with the pages of mapped files in it. What
is done already is not run again.
"""

import argparse
import json
import lzma
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.paths import RESULTS
from isotrope.store.files import write_json
from isotrope.training.processes import environment

TARGET = RESULTS / "performance" / "million.json"
MODEL = "isotrope/small"
WORDS = 12  # of a document
QUERIES = [
    "a river in the north of Italy",
    "the second album of the band",
    "a species of moth in the family",
]


def documents(data: Path) -> Iterator[str]:
    """The beginnings of Wikipedia's sentences, each once."""
    seen = set[str]()
    for file in sorted((data / "wiki").glob("wiki_train_*.txt.xz")):
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                text = " ".join(line.split()[:WORDS])
                if text and text not in seen:
                    seen.add(text)
                    yield text


def measure(arguments: list[str]) -> dict[str, Any]:
    """Run a command of isotrope, and say what it took."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "isotrope", *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"isotrope {arguments[0]} has failed")
    return {
        "command": arguments[0],
        "seconds": round(time.perf_counter() - began, 1),
        "processor_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peak_mb": round(usage.ru_maxrss / 1024),
    }


def folder_mb(folder: Path) -> int:
    """Megabytes of all files in a folder."""
    return round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=10.0, help="for improve")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    text = args.work / "documents.txt"
    if not text.is_file():
        lines = "".join(f"{line}\n" for line in islice(documents(args.data), args.texts))
        text.write_text(lines, encoding="utf-8")
    vectors = args.work / "vectors"
    improved = args.work / "improved"
    commands = {
        "encode": ["encode", MODEL, str(text), "--output", str(vectors)],
        "search": ["search", str(vectors), *QUERIES],
        "improve": [
            *["improve", MODEL, str(text), "--output", str(improved)],
            *["--minutes", f"{args.minutes:g}"],
        ],
    }
    record: dict[str, Any] = {}
    if TARGET.is_file():
        record = json.loads(TARGET.read_text(encoding="utf-8"))
    for name, command in commands.items():
        if name in record:
            continue
        record[name] = measure(command)
        if name == "encode":
            record["documents"] = len(text.read_text(encoding="utf-8").splitlines())
            record["text_mb"] = round(text.stat().st_size / 1e6)
            record["vectors_mb"] = folder_mb(vectors)
        record["environment"] = environment()
        write_json(TARGET, record)


if __name__ == "__main__":
    main()
