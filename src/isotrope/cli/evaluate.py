"""The command line's evaluation: `isotrope evaluate` and `isotrope case`."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from isotrope.cli.options import Word, command
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.errors import UserError
from isotrope.store.atomic import write_json
from isotrope.store.disk import check_file, writing

MODELS = Word("Folders, hub names, isotrope/small, MODEL@cls, MODEL+whitening:k=256, or a file of word vectors.")


@command(models=MODELS, json_file=Word("Write all results to this .json file.", "json"))
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
        suite: `sts`, transfer, transfer:fast, ranking, geometry, retrieval; several with commas. Default: sts; with
            --labels, those alone.
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
    from isotrope.report import scores, tables

    steps, prompts = shortenings(truncate, precision), Prompts(prompt, prompt_name, query_prompt, document_prompt)
    targets = [scores.check_table_file(path) for path in table]
    target = check_file(Path(json_file)) if json_file else None
    if compare and len(set(models)) + len(steps) < 2:
        raise UserError("--compare with one model", "name at least two, the one to compare with first")
    asked = asked_parts(suite, tasks, data, [read_labels(path, columns) for path in labels])
    count, errors = len(models) * (1 + len(steps)) * len(asked), plain_console(stderr=True)
    with watch("loading", errors) as bar:

        def comes(done: int, doing: str) -> None:
            bar.update(note=f"{doing}, result {done + 1} of {count}")

        begins = cache(lambda: errors.print(threads_line()))  # once
        results = evaluate_models(models, asked, pooling, prompts, comes, errors.print, begins, steps)
    if target:  # before anything is drawn: nothing that was computed is lost
        with writing(target.parent, again="run the same command again; results are remembered"):
            write_json(target, _without_cases(results))
    shown, console = scores.all_tables(results, compare, intervals), plain_console()
    for path in targets:
        scores.write_tables(shown, path)
    for one in shown:
        tables.print_table(one, console)
    for written in filter(None, (*targets, target)):
        console.print(f"written to {written}")


@command(models=MODELS, query=Word("A sentence of the task. With --candidate: any sentence.", required=True))
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

    The sentences are those that people compared with the query in the task. Or give your own with --candidate.

    Args:
        task: The task that has the query: STS12 to STS16, STSBenchmark or SICKRelatedness.
        candidate: A sentence to rank; again for more.
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
        query, candidate, gold = found.name, found.second, found.gold.tolist()
    prompts = Prompts(query=query_prompt, document=document_prompt)
    for name in models:
        check_name(name, prompts)
    rows = case_table({name: open_encoder(name, pooling, prompts) for name in models}, query, candidate, gold)
    people = [] if gold is None else ["people"]
    cells = [
        [row["sentence"], *(f"{row['gold']:g} ({row['gold_rank']})" for _ in people)]
        + [f"{of['cosine']:.3f} ({of['rank']})" for of in row["models"].values()]
        for row in rows
    ]
    print_table(Table(f"{query} (rank in brackets)", ["sentence", *people, *models], cells), plain_console())


def _without_cases(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Model -> suite -> task -> result, without the single cases, which would be a hundred times the rest."""

    def plain(result: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in result.items() if not key.startswith("per_")}

    return {
        model: {suite: {task: plain(result) for task, result in of.items()} for suite, of in suites.items()}
        for model, suites in results.items()
    }
