"""``isotrope encode`` and ``isotrope search``: vectors of any amount of text, and search."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from isotrope.cli.call import call
from isotrope.cli.options import command, text_sources
from isotrope.cli.show import console
from isotrope.errors import UserError
from isotrope.report.tables import Table, print_table
from isotrope.store.files import check_file, write_text, writing

if TYPE_CHECKING:
    from isotrope.encoding.search import Hit

MAX_CHARACTERS = 200  # of a text in the table of hits


@command
def encode(
    model: str,
    texts: list[str],
    *,
    output: str,
    text_column: str | None = None,
    batch_size: int = 64,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    keep: str | None = None,
    engine: str = "one",
    workers: int | None = None,
    address: str | None = None,
    restart: bool = False,
    dtype: str = "auto",
) -> None:
    """Turn text of any size into vectors.

    The memory does not grow with the text. After a stop, the same command goes on.

    Args:
        model: The model: a folder or a hub name, such as isotrope/small.
        texts: Files, folders or URLs of text; each row gives one vector.
        output: OUT.parquet, or a folder or URL for Parquet files.
        batch_size: Texts at a time, at most; fewer where they are long.
        keep: Columns to write beside the vectors, such as id,title.
        engine: one process, or ray (needs isotrope[ray]).
        workers: Workers of ray; default: one a core.
        address: Of a Ray cluster; default: Ray on this machine.
        dtype: float32, bf16 or int8 (for CPUs that have them), or auto: a faster one that is as
            good.
    """
    options = {**locals(), "texts": text_sources(texts)}
    written = call("isotrope.encoding.encode:encode", options)
    console.print(f"written to {written}")


@command
def search(
    index: str,
    queries: list[str] | None = None,
    *,
    model: str | None = None,
    top: int = 10,
    hybrid: float = 0.0,
    query_prompt: str | None = None,
    json_file: str | None = None,
) -> None:
    """Show the encoded texts that are nearest to a query.

    Every vector is compared. The memory does not grow with their number.

    Args:
        index: What isotrope encode wrote: OUT.parquet or a folder.
        queries: Default: the lines of the standard input.
        model: The model that encoded the texts; default: the one that the index names.
        top: Rows for each query.
        hybrid: BM25's share of the score, from 0 to 1; the similarity is the rest.
    """
    options = {**locals()}
    del options["json_file"]
    target = check_file(Path(json_file)) if json_file else None
    queries = queries or _lines_of_standard_input()
    hits = call("isotrope.encoding.search:search", {**options, "queries": queries})
    record = []
    for query, rows in zip(queries, hits, strict=True):
        print_table(_hits_table(query, rows, with_score=bool(hybrid)), console)
        record.append({"query": query, "hits": [asdict(hit) for hit in rows]})
    if target:
        with writing(target.parent, again="run the same command again"):
            # Kept columns may hold dates, which become text.
            write_text(target, json.dumps(record, indent=2, default=str) + "\n")
        console.print(f"written to {target}")


def _lines_of_standard_input() -> list[str]:
    """The queries of the standard input. Bytes that are not UTF-8 are refused later, with the
    query.
    """
    if sys.stdin.isatty():
        remedy = "write one after the index, or pipe lines into the command"
        raise UserError("there is no query", remedy, "no-query")
    lines = (line.decode("utf-8", "surrogateescape").strip() for line in sys.stdin.buffer)
    return [line for line in lines if line]


def _hits_table(query: str, hits: "Sequence[Hit]", with_score: bool) -> Table:
    """A row for each hit; the text is the last column."""
    columns = sorted(hits[0].fields if hits else (), key=lambda name: name == "text")
    scores = ["score", "similarity"] if with_score else ["similarity"]
    header = ["rank", *scores, "row", *columns]
    rows = []
    for rank, hit in enumerate(hits, start=1):
        numbers = [f"{getattr(hit, name):.3f}" for name in scores]
        fields = [_one_line(hit.fields[name]) for name in columns]
        rows.append([str(rank), *numbers, str(hit.row), *fields])
    return Table(query, header, rows, words=len(header))


def _one_line(value: object) -> str:
    """A value of a table on one line, and not too long."""
    line = "" if value is None else " ".join(str(value).split())
    return line if len(line) <= MAX_CHARACTERS else f"{line[: MAX_CHARACTERS - 1]}…"
