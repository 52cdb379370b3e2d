"""The user's labels, which judge models: `read_labels` is the one door, and it looks at what it is
given.

    three columns, the last a number    graded pairs: first, second, score
    three columns else                  triples: a question, its answer, and a text that is no answer
    two columns, few values in the last texts and their classes: text, label
    two columns else                    questions and their answers
    a folder                            corpus, queries and judgements (qrels), in the layout of TREC or of BEIR

A table is a file (.tsv, .csv, .jsonl), a pandas DataFrame, a `datasets.Dataset` or a list of rows.
A first line of a file may name the columns. Where the caller names columns, or where the line holds
names of `NAMED`, these columns are read and all others are passed over.
"""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, from_judgements, same_class

Labels: TypeAlias = GradedPairs | RetrievalSet
Row = tuple[str, Sequence[str]]  # its place, its cells

FEWEST_PAIRS = 10  # below this many pairs a rank correlation is noise
NAMED = (
    ("first", "second", "score"), ("sentence1", "sentence2", "score"), ("anchor", "positive", "negative"),
    ("text", "label"), ("question", "answer"), ("query", "answer"), ("anchor", "positive"),
)  # fmt: skip

_TABLE = (
    "give a line for each pair (first, second, score), text (text, label), question (question, answer) or triple "
    "(anchor, positive, negative), or name the columns (columns)"
)
_FOLDER = (
    "give corpus.tsv and queries.tsv (id, tab, text) or .jsonl (_id, text, perhaps title), and qrels.txt "
    "(query, 0, text, grade) or qrels/test.tsv (query, text, grade)"
)
_FILL = "correct or delete the line"


def read_labels(source: Any, columns: str | Sequence[str] | None = None) -> Labels:
    """Read labels of any kind from a file, a folder or a table in memory. Labels that are read
    already come back.

    They are named after the file or folder; a table in memory is called "labels".

    ``columns`` are names of the two or three columns of a table, in their order; a string names
    them with commas.
    """
    if isinstance(source, GradedPairs | RetrievalSet):
        return source
    named = [
        name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns or ())
    ]
    if not isinstance(source, str | Path):
        return _of_table("labels", [*_rows_of(source)], named)
    path = Path(source)
    if not path.exists():
        raise UserError(
            f"{path} does not exist",
            "name a table of labels, or a folder with corpus, queries and qrels",
        )
    return read_judged(path) if path.is_dir() else _of_table(str(path), _table(path), named)


def read_pairs(source: Any) -> GradedPairs:
    """`read_labels`, where only graded pairs will do; UserError for other labels."""
    labels = read_labels(source)
    if not isinstance(labels, GradedPairs):
        raise UserError(
            f"{source} holds {in_words(labels)}", "give graded pairs: first, second, score"
        )
    return labels


def texts_of(labels: Labels) -> list[str]:
    """The texts that are searched, or the first of each pair."""
    return labels.first if isinstance(labels, GradedPairs) else labels.corpus


def in_words(labels: Labels) -> str:
    """What judges, for a reader: "1,379 graded pairs of mine"."""
    count = (
        f"{len(labels):,} graded pairs"
        if isinstance(labels, GradedPairs)
        else f"{len(labels.queries):,} queries"
    )
    return f"{count} of {labels.name}"


def read_judged(folder: Path) -> RetrievalSet:
    """A corpus, queries, and what is relevant to what, in the layout of TREC or of BEIR; named
    after the folder.

    A grade of 0 or below says "not relevant"; what nobody judged is not relevant either. Queries
    without a relevant text stay in the domain and out of the means. A first line of judgements
    whose grade is a word is a header.
    """
    corpus, queries = _texts(folder, "corpus"), _texts(folder, "queries")
    path = _first_of(folder, ("qrels.txt", "qrels.tsv", "qrels/test.tsv"))
    judged: dict[tuple[str, str], int] = {}
    for number, (place, cells) in enumerate(_rows(path, None)):
        _check_columns(place, cells, (3, 4), _FOLDER)
        query, text, grade = cells[0], cells[-2], cells[-1]
        if number == 0 and grade.isalpha():
            continue  # query-id, corpus-id, score
        if not grade.lstrip("+-").isdecimal():
            raise UserError(f"{place}: the grade {grade[:40]!r} is not a whole number", _FOLDER)
        for kind, key, known in (("query", query, queries), ("text", text, corpus)):
            if key not in known:
                raise UserError(f"{place}: the {kind} {key!r} is not in {folder.name}", _FILL)
        judged[query, text] = max(0, int(grade))
    if not any(judged.values()):
        raise UserError(f"{path} marks no text as relevant", _FOLDER)
    return from_judgements(folder.name, queries, corpus, judged)


def _texts(folder: Path, stem: str) -> dict[str, str]:
    """Id -> text of corpus or queries."""
    path = _first_of(folder, (f"{stem}.tsv", f"{stem}.jsonl"))
    if path.suffix == ".jsonl":
        named = (
            (place, [_cell(row.get(name)) for name in ("_id", "title", "text")])
            for place, row in _objects(path)
        )
        rows: list[Row] = [(place, [key, f"{title} {text}"]) for place, (key, title, text) in named]
    else:
        rows = _rows(path, "\t")
    texts: dict[str, str] = {}
    for place, cells in rows:
        _check_columns(place, cells, (2,), _FOLDER)
        key, text = (cell.strip() for cell in cells)
        if not key or not text or key in texts:
            raise UserError(
                f"{place}: the id or the text is empty, or the id {key!r} occurs twice", _FILL
            )
        texts[key] = text
    return texts


def _first_of(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds none of {', '.join(names)}", _FOLDER)


def _of_table(source: str, rows: Sequence[Row], asked: Sequence[str]) -> Labels:
    """What the rows are, by their columns."""
    name, (top, first) = Path(source).stem, rows[0] if rows else (source, ())
    head = [cell.strip().lower() for cell in first]
    if missing := [column for column in asked if column.lower() not in head]:
        raise UserError(f"{top} has no column {missing[0]!r}", f"choose from {', '.join(first)}")
    known = next((each for each in NAMED if {*each} <= {*head}), ())
    names = [column.lower() for column in asked] or list(known)
    chosen = [head.index(column) for column in names] if names else range(len(head))
    _check_columns(top, chosen, (2, 3), _TABLE)
    cut: list[Row] = []
    # A score may be a name, "score", but neither "nan" (a bad score) nor "4,5" (a typing error).
    headed = bool(names) or (len(head) == 3 and head[2][:1].isalpha() and not _is_number(head[2]))
    for place, cells in rows[headed:]:
        _check_columns(place, cells, (len(head),), _TABLE)
        cut.append((place, [cells[column].strip() for column in chosen]))
        for column, cell in zip(names or ("first", "second"), cut[-1][1], strict=False):
            if not cell and column != "score":
                raise UserError(f"{place}: the {column} cell is empty", _FILL)
    if len(chosen) == 3:
        graded = bool(cut) and _is_number(cut[0][1][2])
        if not names or not (names[2] == "negative" or (asked and not graded)):
            return _graded(source, cut)
    texts, others, wrong = (
        [cells[place] for _, cells in cut if place < len(cells)] for place in range(3)
    )
    classes = names[1] == "label" if names else 2 * len({*others}) <= len(others)
    if classes and not wrong:
        return same_class(name, texts, others)
    # each question finds its answers among all
    searched = {text: text for text in [*others, *wrong]}
    if len(searched) < 2:
        raise UserError(
            f"{source}: {len(searched)} answer(s)",
            "give at least two, or there is nothing to search",
        )
    grades = dict.fromkeys(zip(texts, others, strict=True), 1)
    return from_judgements(name, {text: text for text in texts}, searched, grades)


def _check_columns(place: str, cells: Sequence[object], wanted: Sequence[int], remedy: str) -> None:
    if len(cells) not in wanted:
        raise UserError(
            f"{place}: {len(cells)} column(s) instead of {' or '.join(map(str, wanted))}", remedy
        )


def _graded(source: str, rows: list[Row]) -> GradedPairs:
    for place, cells in rows:
        if not (_is_number(cells[2]) and math.isfinite(float(cells[2]))):
            raise UserError(f"{place}: the score {cells[2][:40]!r} is not a finite number", _FILL)
    first, second, scores = ([cells[column] for _, cells in rows] for column in range(3))
    gold = np.array(scores, dtype=np.float64)
    if len(rows) < FEWEST_PAIRS or not np.ptp(gold):
        remedy = f"give at least {FEWEST_PAIRS} graded pairs, with scores that differ"
        raise UserError(f"{source}: {len(rows)} pair(s) with {len({*scores})} score(s)", remedy)
    return GradedPairs(Path(source).stem, first, second, gold)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _rows_of(table: Any) -> Iterator[Row]:
    """The names of a table's columns if it has them, and its rows, as text."""
    columns = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if columns:
        yield "the columns", [str(column) for column in columns]
    for number, row in enumerate(
        zip(*(table[c] for c in columns), strict=True) if columns else table, start=1
    ):
        yield f"row {number}", [_cell(cell) for cell in row]


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _table(path: Path) -> list[Row]:
    """The same of a file."""
    if path.suffix.lower() != ".jsonl":
        return _rows(path, "\t")
    objects = list(_objects(path))
    # a row may lack some of them
    names = list(dict.fromkeys(name for _, row in objects for name in row))
    rows = [(place, [_cell(row.get(name)) for name in names]) for place, row in objects]
    return [*[(place, names) for place, _ in rows[:1]], *rows]


def _rows(path: Path, separator: str | None) -> list[Row]:
    """The cells of each line that is not blank. Quotes mean something in a .csv only."""
    raw = path.read_bytes().replace(b"\0", b"\xff")  # no text has zeros
    try:
        # Not str.splitlines, which would also cut a sentence at U+2028 or U+0085.
        lines = raw.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        problem = f"{path}, line {raw[: error.start].count(10) + 1}: not UTF-8 text"
        raise UserError(problem, "save the file as UTF-8") from None
    if path.suffix.lower() != ".csv":
        numbered = enumerate((line.rstrip("\r") for line in lines), start=1)
        return [
            (f"{path}, line {number}", line.split(separator))
            for number, line in numbered
            if line.strip()
        ]
    reader = csv.reader((f"{line}\n" for line in lines), strict=True)
    try:
        return [
            (f"{path}, line {reader.line_num}", cells) for cells in reader if "".join(cells).strip()
        ]
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}", _TABLE) from None


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON object of each line, and its place."""
    for place, (line,) in _rows(path, "\0"):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{place}: not a JSON object", "write an object on each line")
        yield place, row
