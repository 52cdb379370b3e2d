"""What the columns of a table of labels are: decided by their names, or else by what is in them.

A name decides if it is in `PATTERNS`. Content decides if it can have one meaning only; a table
that could be two things is refused, with both readings and the option that chooses one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from isotrope.errors import UserError
from isotrope.evaluation.sets.tables import LINE_REMEDY, ROWS_REMEDY, JudgedTable, Row

# columns="question,answer", a list of names, or {"question": "Frage", "answer": "Antwort"}, which
# as a string is "question=Frage,answer=Antwort"
ColumnChoice: TypeAlias = str | Sequence[str] | Mapping[str, str]
Kind = Literal["pairs", "triples", "classes", "answers"]

# Kind -> the names that each of its columns may have, in the columns' order.
PATTERNS: Mapping[Kind, tuple[frozenset[str], ...]] = {
    "pairs": (
        frozenset({"first", "sentence1", "sentence_1", "sentence_a", "text1", "text_1", "text_a",
                   "question1", "query1"}),
        frozenset({"second", "sentence2", "sentence_2", "sentence_b", "text2", "text_2", "text_b",
                   "question2", "query2"}),
        frozenset({"score", "label", "similarity", "similarity_score", "relatedness",
                   "relatedness_score", "gold", "grade", "is_duplicate"}),
    ),
    "triples": (
        frozenset({"anchor", "query", "question"}),
        frozenset({"positive", "pos", "answer"}),
        frozenset({"negative", "neg", "hard_negative"}),
    ),
    "classes": (
        frozenset({"text", "sentence"}),
        frozenset({"label", "labels", "class", "category", "intent", "topic"}),
    ),
    "answers": (
        frozenset({"question", "query", "anchor"}),
        frozenset({"answer", "positive", "pos", "passage", "document"}),
    ),
}  # fmt: skip
EXAMPLES: Mapping[Kind, str] = {
    "pairs": "first,second,score",
    "triples": "anchor,positive,negative",
    "classes": "text,label",
    "answers": "question,answer",
}
IN_WORDS: Mapping[Kind, str] = {
    "pairs": "graded pairs",
    "triples": "questions with a right and a wrong answer",
    "classes": "texts and their classes",
    "answers": "questions and their answers",
}
# Beside questions and answers, a column of this name may say which answers are wrong.
_VERDICTS = frozenset({"score", "label", "relevance", "grade", "is_duplicate"})

_LABEL_WORDS = 3  # of a class's name, at most
_MANY_REPEATS = 10  # texts a class: a longer text that occurs so often is not clearly an answer
_TRUTH = {"true": "1", "false": "0"}


@dataclass(frozen=True, slots=True)
class LabelTable:
    """The rows of a table, cut to the columns that are read, with what they are."""

    name: str
    source: str
    kind: Kind
    columns: list[str]  # in words, for the line that says what was read
    rows: list[Row]


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which columns are read, what they are called, and which rows hold data."""

    places: list[int]
    columns: list[str]
    kind: Kind | None  # None: content decides
    rows: list[Row]


def decide_columns(table: JudgedTable, choice: ColumnChoice | None = None) -> LabelTable:
    """Decide what a table is, and cut it to the columns that say so.

    Args:
        table: names of columns that come from memory, or from a .jsonl, are never data. The first
            line of another file is a header if its names are in `PATTERNS`, or if ``choice`` names
            them.
        choice: the columns to read, in their order. Names of `PATTERNS` that the table lacks name
            its columns from left to right.

    Raises:
        UserError: an unknown column, a row of another length, an empty cell, or a table that could
            be two things.
    """
    selection = _select(table, _parse(choice))
    _check_widths(table, selection)
    rows = [_cut(row, selection.places) for row in selection.rows]
    kind = selection.kind or _kind_by_content(table.source, rows)
    for row in rows:
        _check_filled(row, selection.columns, kind)
    return LabelTable(table.name, table.source, kind, selection.columns, rows)


def _parse(choice: ColumnChoice | None) -> dict[str, str]:
    """Name of a column -> its role, from {role: name} or from "role=name, …". A name alone is its
    own role.
    """
    if choice is None:
        return {}
    if isinstance(choice, Mapping):
        return {name: role for role, name in choice.items()}
    items = choice.split(",") if isinstance(choice, str) else choice
    roles = {}
    for item in items:
        role, _, name = item.partition("=")
        roles[(name or role).strip()] = role.strip()
    return roles


def _select(table: JudgedTable, roles: Mapping[str, str]) -> _Selection:
    """Which columns are read: those of the choice, those with known names, or all."""
    header = table.columns
    is_line = header is None
    if header is None:
        header = list(table.rows[0].cells) if table.rows else []
    names = [name.strip().lower() for name in header]
    data = table.rows[1:] if is_line else table.rows

    if roles and all(name.lower() in names for name in roles):
        places = [names.index(name.lower()) for name in roles]
        return _in_order(_Selection(places, list(roles), None, data), list(roles.values()))
    if roles:
        return _name_columns(table, roles, header)

    kind = _known_kind(table, names)
    if kind is None and is_line:
        kind = _kind_of_last_name(names, data)
        if kind:
            return _all_columns(header, kind, data)
    if kind:
        places = _places_of(kind, names)
        return _Selection(places, [header[index] for index in places], kind, data)

    if is_line:
        columns = [f"column {number}" for number in range(1, len(header) + 1)]
        return _all_columns(columns, None, table.rows)
    return _all_columns(header, None, data)


def _all_columns(columns: Sequence[str], kind: Kind | None, rows: list[Row]) -> _Selection:
    return _Selection(list(range(len(columns))), list(columns), kind, rows)


def _name_columns(
    table: JudgedTable, roles: Mapping[str, str], header: Sequence[str]
) -> _Selection:
    """All columns of a table without these names, which become its names from left to right."""
    if len(roles) == len(header):
        all_columns = _all_columns(list(roles), None, table.rows)
        selection = _in_order(all_columns, list(roles.values()))
        if selection.kind:
            return selection
    header_names = [name.strip().lower() for name in header]
    missing = next(name for name in roles if name.lower() not in header_names)
    raise UserError(
        f"{table.source} has no column {missing!r}",
        f"choose from {', '.join(header)}",
        code="unknown-column",
    )


def _in_order(selection: _Selection, roles: Sequence[str]) -> _Selection:
    """The selection with its columns in the order of the kind that has exactly these roles; as it is
    if no kind has them.
    """
    lowered = [role.lower() for role in roles]
    for kind, pattern in PATTERNS.items():
        order = _places_of(kind, lowered)
        if order and len(pattern) == len(lowered):
            return _Selection(
                places=[selection.places[index] for index in order],
                columns=[selection.columns[index] for index in order],
                kind=kind,
                rows=selection.rows,
            )
    return selection


def _known_kind(table: JudgedTable, names: Sequence[str]) -> Kind | None:
    """The kind that the names of columns say, or None if they say nothing."""
    kinds = [kind for kind in PATTERNS if _places_of(kind, names)]
    if "triples" in kinds and "answers" in kinds:
        kinds.remove("answers")
    if len(kinds) > 1:
        _refuse_ambiguous(table.source, kinds[0], kinds[1], ", ".join(names))
    if kinds == ["answers"] and _VERDICTS.intersection(names):
        _refuse_ambiguous(table.source, "answers", "pairs", ", ".join(names))
    return kinds[0] if kinds else None


def _kind_of_last_name(names: Sequence[str], data: Sequence[Row]) -> Kind | None:
    """What a first line with other names for its texts is, if its last cell is the name of a score
    or a class, and is in no other row: "Satz, label".
    """
    kinds: dict[int, Kind] = {2: "classes", 3: "pairs"}
    kind = kinds.get(len(names))
    if kind is None or names[-1] not in PATTERNS[kind][-1]:
        return None
    is_repeated = any(row.cells[-1:] == [names[-1]] for row in data)
    return None if is_repeated else kind


def _places_of(kind: Kind, names: Sequence[str]) -> list[int]:
    """Where the columns of a kind are among the names; [] if one is missing."""
    places = []
    for column_names in PATTERNS[kind]:
        index = next((index for index, name in enumerate(names) if name in column_names), None)
        if index is None:
            return []
        places.append(index)
    return places


def _check_widths(table: JudgedTable, selection: _Selection) -> None:
    """Refuse rows of unequal length, and a selection of other than two or three columns."""
    width = len(table.columns) if table.columns is not None else 0
    if table.columns is None and table.rows:
        width = len(table.rows[0].cells)
    count = len(selection.places)
    if count not in (2, 3):
        place = table.rows[0].place if table.rows else table.source
        raise UserError(
            f"{place}: {count} column(s) instead of 2 or 3", ROWS_REMEDY, code="wrong-columns"
        )
    for row in selection.rows:
        if len(row.cells) != width:
            raise UserError(
                f"{row.place}: {len(row.cells)} column(s) instead of {width}",
                ROWS_REMEDY,
                code="wrong-columns",
            )
    if not selection.rows:
        raise UserError(f"{table.source} has no rows", ROWS_REMEDY, code="no-rows")


def _cut(row: Row, places: Sequence[int]) -> Row:
    return Row(row.place, [row.cells[place].strip() for place in places])


def _check_filled(row: Row, columns: Sequence[str], kind: Kind) -> None:
    """Refuse an empty text or class; an empty score is refused as no number."""
    texts = row.cells[:2] if kind == "pairs" else row.cells
    for column, cell in zip(columns, texts, strict=False):
        if not cell:
            raise UserError(
                f"{row.place}: the {column} cell is empty", LINE_REMEDY, code="empty-cell"
            )


def _kind_by_content(source: str, rows: Sequence[Row]) -> Kind:
    """What two or three columns without known names hold."""
    last = [row.cells[-1] for row in rows]
    if len(rows[0].cells) == 3:
        numbers = sum(is_score(cell) for cell in last)
        return "pairs" if 2 * numbers > len(last) else "triples"
    return _kind_of_two(source, [row.cells[0] for row in rows], last)


def _kind_of_two(source: str, first: Sequence[str], second: Sequence[str]) -> Kind:
    """Whether the second column holds classes or answers.

    Classes are short, and most occur several times. Answers are longer, or none occurs twice.
    """
    if _are_classes(first) and not _are_classes(second):
        _refuse_ambiguous(source, "classes", "answers", "the first column repeats short values")
    if _are_classes(second):
        return "classes"

    has_repeats = len(set(second)) < len(second)
    if not has_repeats and all(is_score(value) for value in second):
        raise UserError(
            f"{source}: the second column holds numbers of which none occurs twice",
            ROWS_REMEDY,
            code="ambiguous-labels",
        )
    if has_repeats and _are_short(second):
        _refuse_ambiguous(source, "answers", "classes", "the second column repeats few values")
    if len(second) >= _MANY_REPEATS * len(set(second)) > 0 and has_repeats:
        _refuse_ambiguous(source, "classes", "answers", "the second column repeats long values")
    return "answers"


def _are_classes(values: Sequence[str]) -> bool:
    return _are_short(values) and 2 * len(set(values)) <= len(values)


def _are_short(values: Sequence[str]) -> bool:
    return all(len(value.split()) <= _LABEL_WORDS for value in values)


def _refuse_ambiguous(source: str, one: Kind, other: Kind, why: str) -> NoReturn:
    raise UserError(
        f"{source} may be {IN_WORDS[one]} or {IN_WORDS[other]} ({why})",
        f"say which by columns={EXAMPLES[one]!r} or columns={EXAMPLES[other]!r}; for other names, "
        f"{EXAMPLES[one].split(',')[0]}=NAME",
        code="ambiguous-labels",
    )


def is_score(cell: str) -> bool:
    """Whether a cell is a number, NaN and infinity included, or a truth value."""
    try:
        float(_TRUTH.get(cell.lower(), cell))
    except ValueError:
        return False
    return True


def score_of(row: Row, source_columns: Sequence[str]) -> float:
    """The score of a graded pair; True is 1, and False is 0.

    Raises UserError for what is not a finite number.
    """
    cell = row.cells[2]
    score = float(_TRUTH.get(cell.lower(), cell)) if is_score(cell) else math.nan
    if math.isfinite(score):
        return score
    remedy = LINE_REMEDY
    if source_columns[0] == "column 1":
        remedy += f"; if the line is a header, name its columns: columns={','.join(row.cells)!r}"
    raise UserError(
        f"{row.place}: the score {cell[:40]!r} is not a finite number", remedy, code="bad-score"
    )
