"""The commands that compare vectors: ``isotrope evaluate``, ``case`` and ``search``."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotrope.cli.options import Word, command
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.errors import UserError
from isotrope.report.tables import Table, print_table
from isotrope.store.files import check_file, write_json, write_text, writing

if TYPE_CHECKING:
    from isotrope.encoding.search import Hit

SHOWN = 200  # characters of a text that was found
JSON = Word("Write all results to this .json file.", "json")
MODELS = Word(
    "Folders, hub names, isotrope/small, MODEL@cls, MODEL+whitening:k=256, or a file of word vectors."
)


@command(models=MODELS, json_file=JSON)
def evaluate(
    models: list[str],
    *,
    suite: str | None = None,
    tasks: str | None = None,
    data: str | None = None,
    labels: Sequence[str] = (),
    columns: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    truncate: str | None = None,
    precision: str | None = None,
    compare: bool = False,
    intervals: bool = False,
    json_file: str | None = None,
    table: Sequence[str] = (),
) -> None:
    """Score models on the papers' tasks or on your own data.

    The tables show correlations, accuracies and nDCG times 100.

    Args:
        suite: `sts`, transfer, transfer:fast, ranking, geometry, retrieval; several with commas.
            Default: sts; with --labels, those alone.
        tasks: Only these tasks of the suites, such as STS12,MR; several with commas.
        truncate: Also score the first dimensions of the vectors: 64,128.
        precision: Also score vectors of 8-bit numbers or of bits: int8,binary.
        compare: A verdict on each model against the first.
        intervals: Show 95 % intervals of the STS scores.
        table: Write the tables to this file: .md, .tex or .html; again for more.
    """
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.models import asked_parts, evaluate_models
    from isotrope.evaluation.sets.labels import read_labels
    from isotrope.post.shortened import shortenings
    from isotrope.report import scores

    steps, prompts = (
        shortenings(truncate, precision),
        Prompts(prompt, prompt_name, query_prompt, document_prompt),
    )
    targets = [scores.check_table_file(path) for path in table]
    target = check_file(Path(json_file)) if json_file else None
    if compare and len(set(models)) + len(steps) < 2:
        raise UserError(
            "--compare with one model", "name at least two, the one to compare with first"
        )
    asked = asked_parts(suite, tasks, data, [read_labels(path, columns) for path in labels])
    count, errors = len(models) * (1 + len(steps)) * len(asked), plain_console(stderr=True)
    with watch("loading", errors) as bar:

        def comes(done: int, doing: str) -> None:
            bar.update(note=f"{doing}, result {done + 1} of {count}")

        begins = cache(lambda: errors.print(threads_line()))  # once
        results = evaluate_models(
            models, asked, pooling, prompts, comes, errors.print, begins, steps
        )
    if target:  # before anything is drawn: nothing that was computed is lost
        with writing(target.parent, again="run the same command again; results are remembered"):
            write_json(target, _without_cases(results))
    shown, console = scores.all_tables(results, compare, intervals), plain_console()
    for path in targets:
        scores.write_tables(shown, path)
    for one in shown:
        print_table(one, console)
    for written in filter(None, (*targets, target)):
        console.print(f"written to {written}")


@command(
    models=MODELS,
    query=Word("A sentence of the task. With --candidate: any sentence.", required=True),
)
def case(
    models: list[str],
    *,
    query: str,
    task: str = "SICKRelatedness",
    candidate: Sequence[str] = (),
    data: str | None = None,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
) -> None:
    """Show how models rank the sentences of one query.

    The sentences are those that people compared with the query in the task. Or give your own with
    --candidate.

    Args:
        task: The task that has the query: STS12 to STS16, STSBenchmark or SICKRelatedness.
        candidate: A sentence to rank; again for more.
    """
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.ranking import case_table, find_list, ranking_lists
    from isotrope.evaluation.sets.senteval import load_sts
    from isotrope.evaluation.suite import checked_tasks
    from isotrope.post.names import check_name, open_encoder

    gold = None
    if not candidate:
        (name,) = checked_tasks("ranking", task)
        found = find_list(
            ranking_lists(load_sts(data, name, ("train", "dev", "test")).values()), query
        )
        query, candidate, gold = found.name, found.second, found.gold.tolist()
    prompts = Prompts(query=query_prompt, document=document_prompt)
    for name in models:
        check_name(name, prompts)
    rows = case_table(
        {name: open_encoder(name, pooling, prompts) for name in models}, query, candidate, gold
    )
    people = [] if gold is None else ["people"]
    cells = [
        [row["sentence"], *(f"{row['gold']:g} ({row['gold_rank']})" for _ in people)]
        + [f"{of['cosine']:.3f} ({of['rank']})" for of in row["models"].values()]
        for row in rows
    ]
    print_table(
        Table(f"{query} (rank in brackets)", ["sentence", *people, *models], cells), plain_console()
    )


def _without_cases(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Model -> suite -> task -> result, without the single cases, which would be a hundred times
    the rest.
    """

    def plain(result: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in result.items() if not key.startswith("per_")}

    return {
        model: {
            suite: {task: plain(result) for task, result in of.items()}
            for suite, of in suites.items()
        }
        for model, suites in results.items()
    }


@command(
    model=Word("The model that encoded the texts; default: the one that the index names."),
    top=Word("Rows for each query.", low=1),
    hybrid=Word("BM25's share of the score, from 0 to 1; the cosine is the rest.", low=0, high=1),
    json_file=JSON,
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

    target, console = check_file(Path(json_file)) if json_file else None, plain_console()
    queries = queries or _lines()
    hits = run(
        index,
        queries,
        model=model,
        top=top,
        engine=engine,
        hybrid=hybrid,
        texts=list(texts) or None,
        text=text,
        query_prompt=query_prompt,
        console=plain_console(stderr=True),
    )
    found = list(zip(queries, hits, strict=True))
    for query, rows in found:
        print_table(_table(query, rows, bool(hybrid)), console)
    if target:
        record = [{"query": query, "hits": list(map(asdict, rows))} for query, rows in found]
        with writing(target.parent, again="run the same command again"):
            # dates of kept columns as words
            write_text(target, json.dumps(record, indent=2, default=str) + "\n")
        console.print(f"written to {target}")


def _lines() -> list[str]:
    """The queries of the standard input. Bytes that are not UTF-8 are refused later, with the
    query.
    """
    if sys.stdin.isatty():
        raise UserError(
            "there is no query", "write one behind the index, or pipe lines into the command"
        )
    lines = (line.decode("utf-8", "surrogateescape").strip() for line in sys.stdin.buffer)
    return list(filter(None, lines))


def _table(query: str, hits: "Sequence[Hit]", scored: bool) -> Table:
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
