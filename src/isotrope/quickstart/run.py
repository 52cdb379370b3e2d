"""A raw model becomes better for some documents without a label. Then questions that nobody has seen judge it."""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.embed import search_vectors
from isotrope.evaluation.significance import compare_means
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.improve import improve
from isotrope.improvement.page import candidates_table
from isotrope.report.outcome import MODEL, REPORT, Outcome
from isotrope.report.page import Page
from isotrope.report.tables import Table
from isotrope.store.atomic import write_text
from isotrope.store.job import Job
from isotrope.store.records import Record
from isotrope.training.processes import environment
from isotrope.types import Encoder

KIND, START = "quickstart", "isotrope/tiny"
THREADS = 2  # on every machine: sums in another order would give other figures
SHOWN = 5  # questions
TRIED = ("slight whitening", "soft whitening", "full whitening")
# Work, not time, so that every machine does the same.
PLAN: Mapping[str, Any] = {
    "size": {"queries": 250, "fitted_on": 1000},
    "left_out": {},
    "trials": [
        {"name": "keep", "steps": TRIED},
        {"name": "pooling first_last", "pooling": "first_last", "steps": TRIED},
        *(
            {
                "name": f"{recipe}, {pairs:,} pairs", "pooling": "first_last", "recipe": recipe, "pairs": pairs,
                "steps": TRIED,
            }
            for recipe, pairs in (("crops", 4096), ("titles", 4096), ("crops", 8192))
        ),
    ],
}  # fmt: skip


def shipped_pages() -> list[dict[str, str]]:
    """The collection that ships: 3,600 pages about commands, with ``name``, ``title``, ``text``, ``asked``."""
    packed = (files("isotrope.quickstart") / "tldr.jsonl.xz").read_bytes()
    return [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]


def quickstart(
    output: str | Path | None = "isotrope-quickstart",
    *,
    seed: int = 0,
    model: str = START,
    plan: Mapping[str, Any] = PLAN,
    collection: Sequence[Mapping[str, str]] | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Improve a raw model for the pages that ship, without a label, and let their questions judge it.

    Called again after a stop or a kill, it goes on. After its end, it gives the same result again.

    Args:
        output: a folder for the documents, the model and the report; None: a temporary one.
        seed: of all random numbers.
        model: to begin with.
        plan: the work of `improve`.
        collection: pages; None: `pages`.
        restart: forget what an earlier call left in the output.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: the folder is not ours, is in use, or was begun with something else.
        Stopped: Ctrl-C.
    """
    console = console or plain_console()
    identity = {"seed": seed, "model": files_checksum(model), "plan": plan}
    job = Job(output, KIND, identity, restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            job.begin()
            threads = torch.get_num_threads()
            torch.set_num_threads(THREADS)
            try:
                record = _made(job, model, collection or shipped_pages(), plan, seed, console)
            finally:
                torch.set_num_threads(threads)
    return Outcome(job, record, quickstart_page)


def quickstart_page(record: Mapping[str, Any]) -> Page:
    """The page: what was done, whether the model is better, questions, and all candidates."""
    return Page(
        title=f"Quickstart: {record['model']} for {record['documents']:,} pages about commands",
        lead=[
            f"isotrope compared {len(record['improved']['gains'])} candidates on tasks made from the pages. It saw no "
            f"label. Its choice: {record['choice']}.",
            f"Then {record['questions']:,} questions, each written for a page by its authors, searched all pages. No "
            "candidate was trained on them or chosen by them.",
        ],
        verdict=Verdict.from_record(record["verdict"]),
        tables=[*quickstart_tables(record), candidates_table(record["improved"])],
    )


def quickstart_tables(record: Mapping[str, Any]) -> list[Table]:
    """What both models find, and what some questions found before and after."""
    rows = [
        [name, *(f"{100 * record['table'][when][name]:.1f}" for when in ("before", "after"))]
        for name in record["table"]["before"]
    ]
    shown = [[of["question"], *of["found"]] for of in record["shown"]]
    return [
        Table(f"{record['questions']:,} questions, in 100", ["", "before", "after"], rows),
        Table("The first page that was found; ✓ is the right one", ["question", "before", "after"], shown, words=3),
    ]


def _made(
    job: Job, model: str, rows: Sequence[Mapping[str, str]], plan: Mapping[str, Any], seed: int, console: Console
) -> Record:
    began, documents = time.monotonic(), job.folder / "documents.jsonl"
    lines = (json.dumps({"title": row["title"], "text": row["text"]}, ensure_ascii=False) for row in rows)
    write_text(documents, "\n".join(lines) + "\n")
    console.print(f"{len(rows):,} pages about commands (tldr-pages, CC BY 4.0)")
    found = improve(model, documents, output=job.folder / "improved", plan=plan, seed=seed, console=console)
    right = np.array([place for place, row in enumerate(rows) if row["asked"]])
    with watch("judging", console, "both models by questions that they have not seen"):
        (old, old_first), (new, new_first) = (_searched(each, rows, right) for each in (load(model), found.model))
    before, after = (np.where(places <= 10, 1 / places, 0.0) for places in (old, new))
    verdict = Verdict.of(
        compare_means(before, after, seed=seed), before=model, after=found.choice,
        judge=f"{len(right):,} questions that no candidate has seen", measure="MRR@10 × 100",
    )  # fmt: skip
    changed = np.flatnonzero(old_first != new_first)
    some = changed[np.linspace(0, len(changed) - 1, min(SHOWN, len(changed))).astype(int)]

    def named(first: npt.NDArray[np.int64], at: int) -> str:
        return f"{rows[first[at]]['name']}{' ✓' if first[at] == right[at] else ''}"

    record = {
        "model": model, "choice": found.choice, "verdict": asdict(verdict), "documents": len(rows),
        "questions": len(right), "seed": seed,
        "table": {
            when: {"the right page is the first": float(np.mean(places == 1)),
                   "it is among the first ten": float(np.mean(places <= 10)), "MRR@10": float(np.mean(rank))}
            for when, places, rank in (("before", old, before), ("after", new, after))
        },
        "shown": [
            {"question": rows[right[at]]["asked"], "found": [named(old_first, at), named(new_first, at)]} for at in some
        ],
        "improved": found.record, "seconds": time.monotonic() - began, "environment": environment(),
    }  # fmt: skip
    found.save(job.folder / MODEL)
    write_text(job.folder / REPORT, quickstart_page(record).html())
    return job.finish(record)


def _searched(
    encoder: Encoder, rows: Sequence[Mapping[str, str]], right: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Of each question (Q,) the place of its own page among all, from 1, and the page that comes first."""
    texts = [f"{row['title']} {row['text']}" for row in rows]
    queries, found = search_vectors(encoder, [rows[at]["asked"] for at in right], texts)
    one, all_ = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (queries, found))
    cosines = one @ all_.T  # (Q, M)
    own = cosines[np.arange(len(right)), right]
    return 1 + (cosines > own[:, None]).sum(axis=1), cosines.argmax(axis=1)
