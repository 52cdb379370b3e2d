"""``isotrope search``: the nearest texts to a query, among encoded ones."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from isotrope.cli.options import Word, command
from isotrope.console.plain import plain_console
from isotrope.errors import UserError

if TYPE_CHECKING:
    from isotrope.encoding.search import Hit
    from isotrope.report.tables import Table

SHOWN = 200  # characters of a text


@command(
    model=Word("The model that encoded the texts; default: the one that the index names."),
    top=Word("Rows for each query.", low=1),
    hybrid=Word("BM25's share of the score, from 0 to 1; the cosine is the rest.", low=0, high=1),
    json_file=Word("Write all results to this .json file.", "json"),
)
def search(
    index: str,
    queries: list[str] | None = None,
    *,
    model: str | None = None,
    top: int = 10,
    engine: str = "exact",
    hybrid: float = 0.0,
    texts: Sequence[str] = (),
    text: str | None = None,
    query_prompt: str | None = None,
    json_file: str | None = None,
) -> None:
    """Show the encoded texts that are nearest to a query.

    Every vector is compared. The memory does not grow with their number.

    Args:
        index: What isotrope encode wrote: OUT.npy, OUT.parquet or a folder.
        queries: Default: the lines of the standard input.
        engine: `exact` (torch), or faiss (needs isotrope[faiss]).
        texts: For OUT.npy: a file that was encoded; again for more, in their order.
    """
    from isotrope.encoding.search import search as run
    from isotrope.report.tables import print_table
    from isotrope.store.atomic import write_text
    from isotrope.store.disk import check_file, writing

    target, console = check_file(Path(json_file)) if json_file else None, plain_console()
    queries = queries or _lines()
    hits = run(
        index, queries, model=model, top=top, engine=engine, hybrid=hybrid, texts=list(texts) or None,
        text=text, query_prompt=query_prompt, console=plain_console(stderr=True),
    )  # fmt: skip
    found = list(zip(queries, hits, strict=True))
    for query, rows in found:
        print_table(_table(query, rows, bool(hybrid)), console)
    if target:
        record = [{"query": query, "hits": list(map(asdict, rows))} for query, rows in found]
        with writing(target.parent, again="run the same command again"):
            write_text(target, json.dumps(record, indent=2, default=str) + "\n")  # dates of kept columns as words
        console.print(f"written to {target}")


def _lines() -> list[str]:
    """The queries of the standard input. Bytes that are not UTF-8 are refused later, with the query."""
    if sys.stdin.isatty():
        raise UserError("there is no query", "write one behind the index, or pipe lines into the command")
    lines = (line.decode("utf-8", "surrogateescape").strip() for line in sys.stdin.buffer)
    return list(filter(None, lines))


def _table(query: str, hits: "Sequence[Hit]", scored: bool) -> "Table":
    from isotrope.report.tables import Table

    names = sorted(hits[0].fields if hits else (), key=lambda name: name == "text")  # the text last
    score = ["score"] if scored else []
    cells = [
        [str(rank), *(f"{hit.score:.3f}" for _ in score), f"{hit.cosine:.3f}", str(hit.row)]
        + [_cell(hit.fields[name]) for name in names]
        for rank, hit in enumerate(hits, start=1)
    ]
    header = ["rank", *score, "cosine", "row", *names]
    return Table(query, header, cells, words=len(header))


def _cell(value: object) -> str:
    """On one line, and cut."""
    line = "" if value is None else " ".join(str(value).split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 1]}…"
