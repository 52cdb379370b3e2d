"""How long `isotrope improve --minutes 20` takes on 5,000 documents, and how much memory.

    python benchmarks/race.py WORK --data DATA      # docs/results/improve/wikipedia.json; needs 20 minutes

The documents are Wikipedia's articles. The memory is the resident memory of the command and of all
processes that it starts, looked at five times a second.
"""

import argparse
import json
import lzma
import subprocess
import sys
import time
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path

import psutil

from isotrope.store.atomic import write_json
from isotrope.store.job import RESULT as EVIDENCE
from isotrope.training.processes import environment

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "improve" / "wikipedia.json"
MODEL, DOCUMENTS, MINUTES = "isotrope/minilm", 5000, 20
PAUSE = 0.2  # seconds between two looks


def write_documents(data: Path, target: Path) -> None:
    """A JSON line an article: its title and its text."""
    with ExitStack() as stack:
        paths = sorted((data / "wiki").glob("articles_0*.jsonl.xz"))
        files = [stack.enter_context(lzma.open(path, "rt", encoding="utf-8")) for path in paths]
        rows = list(map(json.loads, islice(chain.from_iterable(files), DOCUMENTS)))
    pages = ({"title": row["title"], "text": "\n\n".join(row["paragraphs"])} for row in rows)
    target.write_text(
        "".join(json.dumps(page, ensure_ascii=False) + "\n" for page in pages), encoding="utf-8"
    )


def held(process: psutil.Process) -> int:
    """Bytes in memory of a process and its children; one that has just ended counts nothing."""
    total = 0
    try:
        for each in [process, *process.children(recursive=True)]:
            total += each.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def main() -> None:
    """Run the command, watch it, and write the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", type=Path, help="a new folder for the documents and the run")
    parser.add_argument("--data", type=Path, required=True)
    given = parser.parse_args()
    given.work.mkdir(parents=True)
    documents, output = given.work / "documents.jsonl", given.work / "better"
    write_documents(given.data, documents)
    command = [
        sys.executable,
        "-m",
        "isotrope",
        "improve",
        MODEL,
        str(documents),
        "--output",
        str(output),
    ]
    began, peak = time.monotonic(), 0
    running = subprocess.Popen([*command, "--minutes", str(MINUTES)])
    watched = psutil.Process(running.pid)
    while running.poll() is None:
        peak = max(peak, held(watched))
        time.sleep(PAUSE)
    seconds = time.monotonic() - began
    if running.returncode:
        raise SystemExit(running.returncode)
    found = json.loads((output / EVIDENCE).read_text(encoding="utf-8"))
    write_json(
        RESULT,
        {
            "model": MODEL,
            "documents": DOCUMENTS,
            "minutes": MINUTES,
            "seconds": seconds,
            "peak_memory_mb": peak / 1e6,
            "choice": found["choice"],
            "judged_by": found["judged_by"],
            "left_out": found["left_out"],
            "environment": environment(),
        },
    )
    print(f"{seconds / 60:.1f} minutes, at most {peak / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
