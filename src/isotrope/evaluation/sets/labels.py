"""The user's labels, which judge models: `read_labels` is the one door.

    graded pairs                first, second, score
    triples                     a question, its answer, and a text that is no answer
    texts and their classes     text, label
    questions and their answers question, answer
    a folder                    corpus, queries, judgements (qrels), in the layout of TREC or BEIR

A table is a file (.tsv, .csv, .jsonl), a pandas DataFrame, a `datasets.Dataset`, a dictionary of
columns or a list of rows. docs/labels.md says what is read how. What was decided is said in one
line and kept in the labels (``read_as``).
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from isotrope.console.plain import plain_console
from isotrope.console.processes import process_number
from isotrope.errors import UserError
from isotrope.evaluation.sets.columns import (
    IN_WORDS,
    ColumnChoice,
    LabelTable,
    decide_columns,
    score_of,
)
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.judged_folder import from_dictionaries, read_judged_folder
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, from_judgements, same_class
from isotrope.evaluation.sets.tables import IN_MEMORY, LINE_REMEDY, TableLike, read_table

Labels: TypeAlias = GradedPairs | RetrievalSet
LabelsLike: TypeAlias = "Labels | TableLike"

FEWEST_PAIRS = 10  # with fewer, a rank correlation is noise
_SHOWN = 30  # characters of the first row's cells


def say_on_stderr(line: str) -> None:
    """Print a line for the user, once however many processes there are."""
    plain_console(stderr=True, quiet=process_number() > 0).print(line)


def read_labels(
    source: LabelsLike,
    columns: ColumnChoice | None = None,
    say: Callable[[str], None] = say_on_stderr,
) -> Labels:
    """Read labels of any kind from a file, a folder or a table in memory. Labels that are read
    already come back.

    They are named after the file or folder; a table in memory is called "labels".

    Args:
        source: what to read.
        columns: names of the two or three columns of a table, in their order: "question,answer", a
            list, or {"question": "Frage", "answer": "Antwort"}.
        say: is told in one line what the source was taken for.

    Raises:
        UserError: the source is missing, broken, or could be two things.
    """
    if isinstance(source, GradedPairs | RetrievalSet):
        return source

    labels = _read(source, columns)
    say(f"{labels.name}: {labels.read_as}")
    return labels


def _read(source: TableLike, columns: ColumnChoice | None) -> Labels:
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise UserError(
                f"{path} does not exist",
                "name a table of labels, or a folder with corpus, queries and qrels",
                code="missing-file",
            )
        if path.is_dir():
            return read_judged_folder(path)
    if isinstance(source, Mapping) and {"queries", "corpus"} <= source.keys():
        return from_dictionaries(IN_MEMORY, source)

    table = decide_columns(read_table(source), columns)
    if table.kind == "pairs":
        return _graded_pairs(table)
    if table.kind == "classes":
        return _classes(table)
    return _searches(table)


def read_pairs(source: LabelsLike, columns: ColumnChoice | None = None) -> GradedPairs:
    """`read_labels` for graded pairs; UserError for other labels."""
    labels = read_labels(source, columns)
    if not isinstance(labels, GradedPairs):
        raise UserError(
            f"{labels.name} holds {in_words(labels)}",
            "give graded pairs: first, second, score",
            code="no-graded-pairs",
        )
    return labels


def texts_of(labels: Labels) -> list[str]:
    """The texts that are searched, or the first of each pair."""
    return labels.first if isinstance(labels, GradedPairs) else labels.corpus


def in_words(labels: Labels) -> str:
    """What judges, for a reader: "1,379 graded pairs of mine"."""
    kind = "graded pairs" if isinstance(labels, GradedPairs) else "queries"
    return f"{labels.size:,} {kind} of {labels.name}"


def _graded_pairs(table: LabelTable) -> GradedPairs:
    gold = np.array([score_of(row, table.columns) for row in table.rows])
    if len(gold) < FEWEST_PAIRS or not np.ptp(gold):
        raise UserError(
            f"{table.source}: {len(gold)} pair(s) with {len(np.unique(gold))} score(s)",
            f"give at least {FEWEST_PAIRS} graded pairs, with scores that differ",
            code="too-few-pairs",
        )
    read_as = _read_as(table, IN_WORDS["pairs"])
    return GradedPairs(table.name, table.column(0), table.column(1), gold, read_as)


def _classes(table: LabelTable) -> RetrievalSet:
    labels = table.column(1)
    searches = same_class(table.name, table.column(0), labels)
    return searches.described_as(_read_as(table, f"texts of {len(set(labels)):,} classes"))


def _searches(table: LabelTable) -> RetrievalSet:
    """Questions that should find their answers among all answers and wrong answers.

    A question that is also a text of the corpus need not find itself.
    """
    queries = {query: query for query in table.column(0)}
    texts = table.column(1)
    if table.kind == "triples":
        texts += table.column(2)
    corpus = {text: text for text in texts}
    if len(corpus) < 2:
        raise UserError(
            f"{table.source}: {len(corpus)} answer(s)",
            "give at least two, or there is nothing to search",
            code="too-few-answers",
        )

    judged = {}
    for row in table.rows:
        query, answer = row.cells[:2]
        if query != answer:
            judged[query, answer] = 1
    if not judged:
        raise UserError(
            f"{table.source}: every question is its own answer", LINE_REMEDY, code="no-answers"
        )

    searches = from_judgements(table.name, queries, corpus, judged)
    counts = f"{len(queries):,} questions, {len(corpus):,} texts to search"
    return searches.described_as(_read_as(table, f"{IN_WORDS[table.kind]} ({counts})"))


def _read_as(table: LabelTable, description: str) -> str:
    """What a table was taken for: "200 graded pairs: text_a, text_b, score"."""
    line = f"{len(table.rows):,} {description}: {', '.join(table.columns)}"
    if table.columns[0] != "column 1":
        return line
    first = ", ".join(repr(_shortened(cell)) for cell in table.rows[0].cells)
    return f"{line}, without a header; the first row is {first}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
