"""The user's labels, which judge models: `read_labels` is the one door, and it looks at what it is given.

    three columns, the last a number    graded pairs: first, second, score
    three columns else                  triples: a question, its answer, and a text that is no answer
    two columns, few values in the last texts and their classes: text, label
    two columns else                    questions and their answers
    a folder                            corpus, queries and judgements (qrels), in the layout of TREC or of BEIR

A table is a file (.tsv, .csv, .jsonl), a pandas DataFrame, a `datasets.Dataset` or a list of rows. A first line of a
file may name the columns. Where the caller names columns, or where the line holds names of `NAMED`, these columns are
read and all others are passed over.
"""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.sets.domain import Domain, relevant, same_class
from isotrope.evaluation.sets.pairs import Pairs

Labels: TypeAlias = Pairs | Domain
Row = tuple[str, Sequence[str]]  # its place, its cells

FEWEST_PAIRS = 10  # below this many pairs a rank correlation is noise
NAMED = (
    ("first", "second", "score"), ("sentence1", "sentence2", "score"), ("anchor", "positive", "negative"),
    ("text", "label"), ("question", "answer"), ("query", "answer"), ("anchor", "positive"),
)  # fmt: skip

_TABLE = (
    "give a line for each pair (first, second, score), text (text, label), question (question, answer) or triple "
    "(anchor, positive, negative)"
)
_FOLDER = (
    "give corpus.tsv and queries.tsv (id, tab, text) or .jsonl (_id, text, perhaps title), and qrels.txt "
    "(query, 0, text, grade) or qrels/test.tsv (query, text, grade)"
)
_FILL = "correct or delete the line"


def read_labels(source: Any, columns: str | Sequence[str] | None = None) -> Labels:
    """Read labels of any kind from a file, a folder or a table in memory. Labels that are read already come back.

    They are named after the file or folder; a table in memory is called "labels".

    ``columns`` are names of the two or three columns of a table, in their order; a string names them with commas.
    """
    if isinstance(source, Pairs | Domain):
        return source
    named = [name.strip() for name in (columns.split(",") if isinstance(columns, str) else columns or ())]
    if not isinstance(source, str | Path):
        return _of_table("labels", "the labels", [*_rows_of(source)], named)
    path = Path(source)
    if not path.exists():
        raise UserError(f"{path} does not exist", "name a table of labels, or a folder with corpus, queries and qrels")
    return read_judged(path) if path.is_dir() else _of_table(path.stem, str(path), [*_lines_of(path)], named)


def read_pairs(source: Any) -> Pairs:
    """`read_labels`, where only graded pairs will do; UserError for other labels."""
    labels = read_labels(source)
    if not isinstance(labels, Pairs):
        raise UserError(f"{source} holds {in_words(labels)}", "give graded pairs: first, second, score")
    return labels


def texts_of(labels: Labels) -> list[str]:
    """The texts that are searched, or the first of each pair."""
    return labels.first if isinstance(labels, Pairs) else labels.corpus


def in_words(labels: Labels) -> str:
    """What judges, for a reader: "1,379 graded pairs of mine"."""
    count = f"{len(labels):,} graded pairs" if isinstance(labels, Pairs) else f"{len(labels.queries):,} queries"
    return f"{count} of {labels.name}"


def read_judged(folder: Path) -> Domain:
    """A corpus, queries, and what is relevant to what, in the layout of TREC or of BEIR; named after the folder.

    A grade of 0 or below says "not relevant"; what nobody judged is not relevant either. Queries without a relevant
    text stay in the domain and out of the means. A first line of judgements whose grade is a word is a header.
    """
    corpus, queries = _texts(folder, "corpus"), _texts(folder, "queries")
    path = _first_of(folder, ("qrels.txt", "qrels.tsv", "qrels/test.tsv"))
    judged: dict[tuple[str, str], int] = {}
    for number, (place, cells) in enumerate(_split_rows(path, None, _FOLDER)):
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
    return relevant(folder.name, queries, corpus, judged)


def _texts(folder: Path, stem: str) -> dict[str, str]:
    """Id -> text of corpus or queries."""
    path = _first_of(folder, (f"{stem}.tsv", f"{stem}.jsonl"))
    rows = _split_rows(path, "\t", _FOLDER)
    if path.suffix == ".jsonl":
        named = ((place, [_cell(row.get(name)) for name in ("_id", "title", "text")]) for place, row in _objects(path))
        rows = ((place, [key, f"{title} {text}"]) for place, (key, title, text) in named)
    texts: dict[str, str] = {}
    for place, cells in rows:
        _check_columns(place, cells, (2,), _FOLDER)
        key, text = (cell.strip() for cell in cells)
        if not key or not text:
            raise UserError(f"{place}: the {'text' if key else 'id'} is empty", _FILL)
        if key in texts:
            raise UserError(f"{place}: the id {key!r} occurs twice", "delete one")
        texts[key] = text
    return texts


def _first_of(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds none of {', '.join(names)}", _FOLDER)


def _of_table(name: str, where: str, rows: list[Row], asked: Sequence[str]) -> Labels:
    """What the rows are, by their columns."""
    top, first = rows[0] if rows else (where, ())
    head = [cell.strip().lower() for cell in first]
    if missing := [column for column in asked if column.lower() not in head]:
        raise UserError(f"{top} has no column {missing[0]!r}", f"choose from {', '.join(first)}")
    known = next((names for names in NAMED if {*names} <= {*head}), ())
    names = [column.lower() for column in asked] or list(known)
    chosen = [head.index(column) for column in names] if names else range(len(head))
    _check_columns(top, chosen, (2, 3), f"{_TABLE}, or name them (columns)")
    if names or (len(head) == 3 and _is_word(head[2])):
        rows = rows[1:]
    cut: list[Row] = []
    for place, cells in rows:
        _check_columns(place, cells, (len(head),), _TABLE)
        cut.append((place, [cells[column].strip() for column in chosen]))
        for column, cell in zip(names or ("first", "second"), cut[-1][1], strict=False):
            if not cell and column != "score":
                raise UserError(f"{place}: the {column} cell is empty", _FILL)
    if len(chosen) == 3:
        graded = bool(cut) and _is_number(cut[0][1][2])
        if not names or not (names[2] == "negative" or (asked and not graded)):
            return _graded(name, where, cut)
    texts, others, wrong = ([cells[place] for _, cells in cut if place < len(cells)] for place in range(3))
    classes = names[1] == "label" if names else 2 * len({*others}) <= len(others)
    return same_class(name, texts, others) if classes and not wrong else _answered(name, texts, others, wrong)


def _check_columns(place: str, cells: Sequence[object], wanted: Sequence[int], remedy: str) -> None:
    if len(cells) not in wanted:
        raise UserError(f"{place}: {len(cells)} column(s) instead of {' or '.join(map(str, wanted))}", remedy)


def _graded(name: str, where: str, rows: list[Row]) -> Pairs:
    for place, cells in rows:
        if not (_is_number(cells[2]) and math.isfinite(float(cells[2]))):
            raise UserError(f"{place}: the score {cells[2][:40]!r} is not a finite number", _FILL)
    scores = [float(cells[2]) for _, cells in rows]
    if len(scores) < FEWEST_PAIRS:
        raise UserError(f"{where}: {len(scores)} pair(s)", f"give at least {FEWEST_PAIRS} graded pairs")
    if min(scores) == max(scores):
        raise UserError(f"{where}: every score is {scores[0]:g}", "give scores that differ, or there is no order")
    return Pairs(name, [cells[0] for _, cells in rows], [cells[1] for _, cells in rows], np.array(scores))


def _answered(name: str, questions: list[str], answers: list[str], wrong: list[str]) -> Domain:
    """Each question finds its answers among all answers and all that is wrong."""
    texts = dict.fromkeys([*answers, *wrong])
    if len(texts) < 2:
        raise UserError(f"{name}: {len(texts)} answer(s)", "give at least two, or there is nothing to search")
    grades = dict.fromkeys(zip(questions, answers, strict=True), 1)
    return relevant(name, {question: question for question in questions}, {text: text for text in texts}, grades)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_word(cell: str) -> bool:
    """Whether a score cell is a column's name: "score", but neither "nan" (a bad score) nor "4,5" (a typing error)."""
    return cell[:1].isalpha() and cell not in {"nan", "inf", "infinity"}


def _rows_of(table: Any) -> Iterator[Row]:
    """The names of a table's columns if it has them, and its rows, as text."""
    columns = list(getattr(table, "column_names", getattr(table, "columns", ())))
    if columns:
        yield "the columns", [str(column) for column in columns]
    for number, row in enumerate(zip(*(table[c] for c in columns), strict=True) if columns else table, start=1):
        yield f"row {number}", [_cell(cell) for cell in row]


def _lines_of(path: Path) -> Iterator[Row]:
    """The same of a file."""
    kind = path.suffix.lower()
    if kind == ".csv":
        yield from _comma_rows(path)
    elif kind != ".jsonl":
        yield from _split_rows(path, "\t", _TABLE)
    else:
        objects = list(_objects(path))
        names = list(dict.fromkeys(name for _, row in objects for name in row))  # a row may lack some of them
        if objects:
            yield objects[0][0], names
        yield from ((place, [_cell(row.get(name)) for name in names]) for place, row in objects)


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _split_rows(path: Path, separator: str | None, remedy: str) -> Iterator[Row]:
    # Split at "\n" alone: str.splitlines would also cut a sentence at U+2028 or U+0085. Quotes are plain characters.
    for number, line in enumerate(_text_of(path, remedy).split("\n"), start=1):
        if line.strip():
            yield f"{path}, line {number}", line.rstrip("\r").split(separator)


def _comma_rows(path: Path) -> Iterator[Row]:
    reader = csv.reader(_text_of(path, _TABLE).splitlines(keepends=True), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield f"{path}, line {reader.line_num}", cells
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}", _TABLE) from None


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON object of each line, and its place."""
    for place, (line,) in _split_rows(path, "\0", _TABLE):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{place}: not a JSON object", "write an object on each line")
        yield place, row


def _text_of(path: Path, remedy: str) -> str:
    """The file's text as UTF-8 without a byte-order mark and with line ends as they are."""
    try:
        raw = path.read_bytes()
        text = raw.decode("utf-8-sig")
        wrong = raw.find(b"\0")  # no text has it
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", remedy) from None
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        line = raw.count(b"\n", 0, wrong) + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text", f"save the file as UTF-8, or {remedy}")
    return text
