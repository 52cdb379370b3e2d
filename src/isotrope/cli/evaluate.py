"""The command line's evaluation: `isotrope evaluate` and `isotrope case`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.errors import UserError
from isotrope.store.atomic import write_json
from isotrope.store.disk import writing

Models = Annotated[
    list[str],
    typer.Argument(
        help="Folders, hub names, isotrope/small, MODEL@cls, MODEL+whitening:k=256, or a file of word vectors."
    ),
]
Prompt = Annotated[
    str | None, typer.Option(help="Words before every text, such as 'query: '; default: the model's prompt.")
]
PromptName = Annotated[str | None, typer.Option(help="One of the model's own prompts, by its name.")]
QueryPrompt = Annotated[str | None, typer.Option(help="Words before queries; default: the model's prompt for them.")]
DocumentPrompt = Annotated[
    str | None, typer.Option(help="Words before documents; default: the model's prompt for them.")
]
Data = Annotated[
    str | None, typer.Option(help="The data folder; it holds senteval/ and domain/.", envvar="ISOTROPE_DATA")
]


def evaluate(
    models: Models,
    suite: Annotated[
        str | None,
        typer.Option(
            help="sts, transfer, transfer:fast, ranking, geometry, retrieval; several with commas. "
            "Default: sts; with --labels, those alone."
        ),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Only these tasks of the suites, such as STS12,MR; several with commas.")
    ] = None,
    data: Data = None,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            help="Your own labels: a .tsv, .csv or .jsonl file of graded pairs (first, second, score), questions "
            "(question, answer) or texts (text, label), or a folder with queries and qrels; again for more."
        ),
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
    prompt: Prompt = None,
    prompt_name: PromptName = None,
    query_prompt: QueryPrompt = None,
    document_prompt: DocumentPrompt = None,
    truncate: Annotated[
        str | None, typer.Option(help="Also score the first dimensions of the vectors: 64,128.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(help="Also score vectors of 8-bit numbers or of bits: int8,binary.")
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="A verdict on each model against the first.")] = False,
    intervals: Annotated[bool, typer.Option("--intervals", help="Show 95 % intervals of the STS scores.")] = False,
    json_file: Annotated[str | None, typer.Option("--json", help="Write all results to this .json file.")] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Write the tables to this file: .md, .tex or .html; again for more.")
    ] = None,
) -> None:
    """Score models on the papers' tasks or on your own data.

    The tables show correlations, accuracies and nDCG times 100.
    """
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.models import EvaluationRequest, check_widths, evaluate_models
    from isotrope.evaluation.sets.labels import read_labels
    from isotrope.post.shortened import shortenings
    from isotrope.report import scores, table_files, tables

    steps, prompts = shortenings(truncate, precision), Prompts(prompt, prompt_name, query_prompt, document_prompt)
    check_widths(models, steps, pooling, prompts)
    asked = EvaluationRequest.read(suite, tasks, data, [read_labels(path) for path in labels or []])
    targets = [table_files.check_table_file(path) for path in table or []]
    results_file = table_files.check_file(Path(json_file)) if json_file else None
    if compare and len(set(models)) + len(steps) < 2:
        raise UserError("--compare with one model", "name at least two, the one to compare with first")
    count, errors = len(models) * (1 + len(steps)) * asked.parts, plain_console(stderr=True)
    with watch("loading", errors) as bar:

        def comes(done: int, doing: str) -> None:
            bar.update(note=f"{doing}, result {done + 1} of {count}")

        begins = cache(lambda: errors.print(threads_line()))  # once
        results = evaluate_models(models, asked, pooling, prompts, comes, errors.print, begins, steps)
    if results_file:  # before anything is drawn: nothing that was computed is lost
        _write_json(results, results_file)
    shown = scores.all_tables(results, compare, intervals)
    for target in targets:
        table_files.write_tables(shown, target)
    console = plain_console()
    for one in shown:
        tables.print_table(one, console)
    for written in [*targets, *([results_file] if results_file else [])]:
        console.print(f"written to {written}")


def case(
    models: Models,
    query: Annotated[str, typer.Option(help="A sentence of the task. With --candidate: any sentence.")],
    task: Annotated[
        str, typer.Option(help="The task that has the query: STS12 to STS16, STSBenchmark or SICKRelatedness.")
    ] = "SICKRelatedness",
    candidate: Annotated[list[str] | None, typer.Option(help="A sentence to rank; again for more.")] = None,
    data: Data = None,
    pooling: Annotated[
        str | None, typer.Option(help="How token vectors become one: cls, mean, first_last, …; default: the model's.")
    ] = None,
    query_prompt: QueryPrompt = None,
    document_prompt: DocumentPrompt = None,
) -> None:
    """Show how models rank the sentences of one query.

    The sentences are those that people compared with the query in the task. Or give your own with --candidate.
    """
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.ranking import case_table, find_list, ranking_lists
    from isotrope.evaluation.sets.senteval import load_sts
    from isotrope.evaluation.suite import checked_tasks
    from isotrope.post.names import check_name, open_encoder
    from isotrope.report.tables import Table, print_table

    gold = None
    if not candidate:
        (name,) = checked_tasks("ranking", task)
        found = find_list(ranking_lists(load_sts(data, name, ("train", "dev", "test")).values()), query)
        query, candidate, gold = found.query, found.candidates, found.gold.tolist()
    prompts = Prompts(query=query_prompt, document=document_prompt)
    for name in models:
        check_name(name, prompts)
    rows = case_table({name: open_encoder(name, pooling, prompts) for name in models}, query, candidate, gold)
    cells = [
        [
            row["sentence"],
            *([] if gold is None else [f"{row['gold']:g} ({row['gold_rank']})"]),
            *(f"{of['cosine']:.3f} ({of['rank']})" for of in row["models"].values()),
        ]
        for row in rows
    ]
    header = ["sentence", *([] if gold is None else ["people"]), *models]
    print_table(Table(f"{query} (rank in brackets)", header, cells), plain_console())


def _write_json(results: Mapping[str, Mapping[str, Any]], target: Path) -> None:
    """All but the single cases, which would be a hundred times the rest."""
    plain = {
        model: {
            suite: {
                task: {key: value for key, value in result.items() if not key.startswith("per_")}
                for task, result in of_suite.items()
            }
            for suite, of_suite in suites.items()
        }
        for model, suites in results.items()
    }
    with writing(target.parent, again="run the same command again; results are remembered"):
        write_json(target, plain)
