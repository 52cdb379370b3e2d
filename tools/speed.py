"""The tables of docs/performance.md, from the files that the benchmarks wrote to docs/results/performance/."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "results" / "performance"
Result = dict[str, Any]


def performance() -> str:
    """A table for each benchmark that has files here: NAME.json or NAME-…json, NAME as in benchmarks/."""
    parts = []
    for name, render in TABLES.items():
        files = [path for path in sorted(FOLDER.glob("*.json")) if path.stem.partition("-")[0] == name]
        if files:
            parts.append(render([json.loads(path.read_text(encoding="utf-8")) for path in files]))
    return "\n\n".join(parts) if parts else "No measurement is committed yet."


def table(header: str, rows: Iterable[Iterable[object]]) -> str:
    """Lines of a table; the header's cells are divided by ``|``."""
    titles = [title.strip() for title in header.split("|")]
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def times(ratio: dict[str, float]) -> str:
    """A median with its quartiles."""
    return f"{ratio['median']:.2f} × ({ratio['low']:.2f} … {ratio['high']:.2f})"


def where(result: Result) -> str:
    """What the clock counted, on how many threads."""
    threads = "1 thread" if result["threads"] == 1 else f"{result['threads']} threads"
    return f"{threads}, {'wall' if result['clock'] == 'wall' else 'processor'} time"


def step(results: list[Result]) -> str:
    """A step of SimCSE beside (a), (b) and (c)."""
    rows = [
        (
            f"isotrope/{r['shape']}",
            f"{r['text'].split('.')[0]} ({r['tokens']:.1f} tokens)",
            f"{1000 * r['seconds']['ours']:.0f} ms",
            f"{r['ceiling']:.2f} ×",
            times(r["a_over_ours"]),
            times(r["b_over_ours"]),
            f"{r['bound_over_ours']['median']:.2f} ×",
            where(r),
        )
        for r in results
    ]
    said = "**A training step of SimCSE.** (a), (b) and (c) are times divided by ours."
    return f"{said}\n\n{table('model | text | ours | ceiling | (a) | (b) | (c) | measured in', rows)}"


def encode(results: list[Result]) -> str:
    """`encode` beside sentence-transformers' own."""
    rows = [
        (
            f"isotrope/{r['shape']}",
            f"{r['sentences']:,}",
            f"{r['sentences_a_second']['ours']:,}",
            f"{r['sentences_a_second']['plain']:,}",
            times(r["plain_over_ours"]),
            f"{r['difference']:.0e}",
            where(r),
        )
        for r in results
    ]
    header = "model | sentences | isotrope | sentence-transformers | ratio | largest difference | measured in"
    return f"**Encoding, in sentences a second**\n\n{table(header, rows)}"


def methods(results: list[Result]) -> str:
    """A step of each method over SimCSE's, and dev selection's share."""
    names = list(results[0]["over_simcse"])
    rows = []
    for r in results:
        ratios = [times(r["over_simcse"][name]) for name in names]
        share = f"{100 * r['selection']['share']:.1f} %"
        rows.append((f"isotrope/{r['shape']}", f"{1000 * r['seconds']['simcse']:.0f} ms", *ratios, share, where(r)))
    titles = ["model", "simcse", *names, f"STS-B dev every {results[0]['selection']['steps']} steps", "measured in"]
    said = (
        "**A training step of each method, divided by SimCSE's.** The last share is the time of evaluating STS-B dev."
    )
    return f"{said}\n\n{table(' | '.join(titles), rows)}"


def corpus(results: list[Result]) -> str:
    """Bytes a line, as a corpus grows; a batch's tokens from the store and from text."""
    (result,) = results
    parts = list(result["slope"])
    rows: list[tuple[object, ...]] = [
        (f"{r['lines']:,}", *(r["bytes_a_line"][part] for part in parts), f"{r['mapped_mb']:,} MB")
        for r in result["sizes"]
    ]
    rows.append(("growth from first to last", *(result["slope"][part] for part in parts), ""))
    batch = result["tokens"]
    said = f"A batch of 64 sentences: {batch['store']:.2f} ms from the store, {batch['text']:.2f} ms from text."
    header = ["lines", *parts, "mapped pages, not counted"]
    return f"**Memory for a corpus, in bytes a line**\n\n{table(' | '.join(header), rows)}\n\n{said}"


def memory(results: list[Result]) -> str:
    """Resident memory of a step, plain and with gradient caching."""
    (result,) = results
    rows = [
        (f"{r['batch']:,}", r["mini_batch_size"] or "all", f"{r['above']:,} MB", f"{r['peak']:,} MB")
        for r in result["cases"]
    ]
    said = f"**Memory of a step of SimCSE** with isotrope/{result['shape']}, with and without gradient caching"
    return f"{said}\n\n{table('sentences in a batch | at a time | the step takes | in all, at most', rows)}"


def threads(results: list[Result]) -> str:
    """A step with other numbers of threads, and other ways to wait."""
    (result,) = results
    rows = [
        (name, f"{seconds:.1f} s", times(result["over_one_thread"][name]) if name in result["over_one_thread"] else "")
        for name, seconds in result["seconds_a_step"].items()
    ]
    load = " to ".join(f"{one:.1f}" for one in result["load"])
    said = f"**Threads**: a step of SimCSE on {result['cores']} shared cores (load average {load})"
    return f"{said}\n\n{table('threads | a step | divided by one thread', rows)}"


TABLES: dict[str, Callable[[list[Result]], str]] = {
    "step": step,
    "encode": encode,
    "methods": methods,
    "corpus": corpus,
    "memory": memory,
    "threads": threads,
}
