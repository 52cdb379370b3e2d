"""``isotrope evaluate`` and ``isotrope case``: how models compare."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotrope.cli.call import load_function
from isotrope.cli.options import command
from isotrope.cli.show import console
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.errors import UserError
from isotrope.report.tables import Table, print_table
from isotrope.store.files import check_file, write_json, writing

if TYPE_CHECKING:
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.models import PlannedEvaluation


@command
def evaluate(
    models: list[str],
    *,
    suite: str | None = None,
    tasks: str | None = None,
    data: str | None = None,
    labels: list[str] | None = None,
    columns: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
    compare: bool = False,
    intervals: bool = False,
    json_file: str | None = None,
    table: str | None = None,
) -> None:
    """Score models on the papers' tasks or on your own data.

    The tables show correlations, accuracies and nDCG times 100.

    Args:
        suite: sts, transfer, transfer:fast, ranking, geometry, retrieval; several with commas.
            Default: sts; with --labels, those alone.
        tasks: Only these tasks of the suites, such as STS12,MR; several with commas.
        labels: Labels of your own: a file of graded pairs, questions, triples or texts with
            classes, or a folder with queries and qrels; again for more.
        compare: A verdict on each model against the first.
        intervals: Show 95 % intervals of the STS scores.
        table: Write the tables to this Markdown file (.md).
    """
    load_function("isotrope.evaluation.models:evaluate_models")
    from isotrope.encoder.prompts import Prompts
    from isotrope.evaluation.models import plan_evaluations
    from isotrope.evaluation.sets.labels import read_labels
    from isotrope.report.scores import all_tables, check_table_file, write_tables

    if compare and len(set(models)) < 2:
        remedy = "name at least two, the one to compare with first"
        raise UserError("--compare with one model", remedy, code="too-few-models")
    table_file = check_table_file(table) if table else None
    target = check_file(Path(json_file)) if json_file else None
    own_labels = [read_labels(path, columns) for path in labels or ()]
    evaluations = plan_evaluations(suite, tasks, data, own_labels)
    prompts = Prompts(prompt, prompt_name, query_prompt, document_prompt)
    results = _evaluate_models(models, evaluations, pooling, prompts)
    # The file comes before the tables, so that nothing is lost if a table cannot be drawn.
    if target:
        with writing(target.parent, again="run the same command again; results are remembered"):
            write_json(target, _without_cases(results))
    tables = all_tables(results, compare, intervals)
    if table_file:
        write_tables(tables, table_file)
    for each_table in tables:
        print_table(each_table, console)
    for written in (table_file, target):
        if written:
            console.print(f"written to {written}")


def _evaluate_models(
    models: Sequence[str],
    evaluations: "Sequence[PlannedEvaluation]",
    pooling: str | None,
    prompts: "Prompts",
) -> dict[str, Any]:
    """Model -> suite -> task -> result, with a line of progress."""
    from isotrope.evaluation.models import evaluate_models

    count = len(models) * len(evaluations)
    errors = plain_console(stderr=True)
    show_threads_once = cache(lambda: errors.print(threads_line()))
    with watch("loading", errors) as bar:

        def show_progress(done: int, doing: str) -> None:
            bar.update(note=f"{doing}, result {done + 1} of {count}")

        return evaluate_models(
            models,
            evaluations,
            pooling,
            prompts,
            show_progress,
            errors.print,
            show_threads_once,
        )


def _without_cases(results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Model -> suite -> task -> result, without the single cases, which are a hundred times the
    rest.
    """
    plain: dict[str, Any] = {}
    for model, suites in results.items():
        plain[model] = {}
        for suite, tasks in suites.items():
            plain[model][suite] = {name: _summary(result) for name, result in tasks.items()}
    return plain


def _summary(result: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if not key.startswith("per_")}


@command
def case(
    models: list[str],
    *,
    query: str,
    task: str = "SICKRelatedness",
    candidate: list[str] | None = None,
    data: str | None = None,
    pooling: str | None = None,
    query_prompt: str | None = None,
    document_prompt: str | None = None,
) -> None:
    """Show how models rank the sentences of one query.

    The sentences are those that people compared with the query in the task. Or give your own with
    --candidate.

    Args:
        query: A sentence of the task. With --candidate: any sentence.
        task: The task that has the query: STS12 to STS16, STSBenchmark, SICKRelatedness.
        candidate: A sentence to rank; again for more.
    """
    case_table = load_function("isotrope.evaluation.ranking:case_table")
    from isotrope.encoder.prompts import Prompts
    from isotrope.post.names import check_name, open_encoder

    sentences, gold = candidate, None
    if not sentences:
        query, sentences, gold = _list_of_task(query, task, data)
    prompts = Prompts(query=query_prompt, document=document_prompt)
    for name in models:
        check_name(name, prompts)
    encoders = {name: open_encoder(name, pooling, prompts) for name in models}
    header = ["sentence", *models] if gold is None else ["sentence", "people", *models]
    rows = []
    for row in case_table(encoders, query, sentences, gold):
        people = [] if gold is None else [f"{row['gold']:g} ({row['gold_rank']})"]
        ranks = [f"{rank['cosine']:.3f} ({rank['rank']})" for rank in row["models"].values()]
        rows.append([row["sentence"], *people, *ranks])
    print_table(Table(f"{query} (rank in brackets)", header, rows), console)


def _list_of_task(query: str, task: str, data: str | None) -> tuple[str, list[str], list[float]]:
    """The query as the task writes it, the sentences compared with it, and people's scores."""
    from isotrope.evaluation.ranking import find_list, ranking_lists
    from isotrope.evaluation.sets.senteval import load_sts
    from isotrope.evaluation.suite import checked_tasks

    (name,) = checked_tasks("ranking", task)
    pairs = load_sts(data, name, ("train", "dev", "test"))
    ranked = find_list(ranking_lists(pairs.values()), query)
    return ranked.name, ranked.second, ranked.gold.tolist()
