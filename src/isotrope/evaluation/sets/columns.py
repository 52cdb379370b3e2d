"""What the columns of a table of labels are: decided by their names, or else by what is in them.

A name decides if it is in `PATTERNS`. Content decides if it can have one meaning only; a table
that could be two things is refused, with both readings and the option that chooses one.
"""

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from isotrope.errors import UserError
from isotrope.evaluation.sets.tables import LINE_REMEDY, ROWS_REMEDY, JudgedTable, Row

# columns="question,answer", a list of names, or {"question": "Frage", "answer": "Antwort"}, which
# as a string is "question=Frage,answer=Antwort"
ColumnChoice: TypeAlias = str | Sequence[str] | Mapping[str, str]
Kind = Literal["pairs", "triples", "classes", "answers"]

# Kind -> the names that each of its columns may have, in the columns' order.
PATTERNS: Mapping[Kind, tuple[Set[str], ...]] = {
    "pairs": (
        {"first", "sentence1", "sentence_1", "sentence_a", "text1", "text_1", "text_a",
         "question1", "query1"},
        {"second", "sentence2", "sentence_2", "sentence_b", "text2", "text_2", "text_b",
         "question2", "query2"},
        {"score", "label", "similarity", "similarity_score", "relatedness", "relatedness_score",
         "gold", "grade", "is_duplicate"},
    ),
    "triples": (
        {"anchor", "query", "question"},
        {"positive", "pos", "answer"},
        {"negative", "neg", "hard_negative"},
    ),
    "classes": (
        {"text", "sentence"},
        {"label", "labels", "class", "category", "intent", "topic"},
    ),
    "answers": (
        {"question", "query", "anchor"},
        {"answer", "positive", "pos", "passage", "document"},
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
_VERDICTS = {"score", "label", "relevance", "grade", "is_duplicate"}

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

    def column(self, place: int) -> list[str]:
        """The cells of a column."""
        return [row.cells[place] for row in self.rows]


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
    roles = _parse(choice)
    return _chosen_columns(table, roles) if roles else _known_columns(table)


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


def _chosen_columns(table: JudgedTable, roles: Mapping[str, str]) -> LabelTable:
    """The columns of the choice, in the order of the kind that has exactly their roles, if there is
    one.
    """
    columns = list(roles)
    kind, order = _kind_of_roles([role.lower() for role in roles.values()])
    missing = [column for column in columns if column.lower() not in table.names]
    if not missing:
        places = [table.names.index(column.lower()) for column in columns]
        rows = table.data
    elif kind and len(columns) == len(table.header):
        # The table has other names: those of the choice are its columns, from left to right.
        places = list(range(len(columns)))
        rows = table.rows
    else:
        raise UserError(
            f"{table.source} has no column {missing[0]!r}",
            f"choose from {', '.join(table.header)}",
            code="unknown-column",
        )
    places = [places[index] for index in order]
    return _cut(table, places, [columns[index] for index in order], kind, rows)


def _kind_of_roles(roles: Sequence[str]) -> tuple[Kind | None, Sequence[int]]:
    """The kind that has exactly these roles, and the order that it has them in."""
    for kind, pattern in PATTERNS.items():
        order = _places_of(kind, roles)
        if order and len(pattern) == len(roles):
            return kind, order
    return None, range(len(roles))


def _known_columns(table: JudgedTable) -> LabelTable:
    """The columns whose names say what they are, or all columns."""
    kind = _known_kind(table.source, table.names)
    if kind:
        places = _places_of(kind, table.names)
        return _cut(table, places, [table.header[place] for place in places], kind, table.data)

    columns = list(table.header)
    rows = table.data
    if table.columns is None:
        kind = _kind_of_last_name(table.names, rows)
        if kind is None:  # the first line is no header
            columns = [f"column {number}" for number in range(1, len(columns) + 1)]
            rows = table.rows
    return _cut(table, range(len(columns)), columns, kind, rows)


def _cut(
    table: JudgedTable,
    places: Sequence[int],
    columns: list[str],
    kind: Kind | None,
    rows: Sequence[Row],
) -> LabelTable:
    """The rows that hold data, cut to the columns that are read. Without a kind, content
    decides.
    """
    _check_widths(table, len(columns), rows)
    cut_rows = []
    for row in rows:
        cells = [row.cells[place].strip() for place in places]
        cut_rows.append(Row(row.place, cells))
    kind = kind or _kind_by_content(table.source, cut_rows)
    _check_filled(cut_rows, columns, kind)
    return LabelTable(table.name, table.source, kind, columns, cut_rows)


def _known_kind(source: str, names: Sequence[str]) -> Kind | None:
    """The kind that the names of columns say, or None if they say nothing."""
    kinds = [kind for kind in PATTERNS if _places_of(kind, names)]
    if "triples" in kinds:  # which have a question and its answer
        kinds.remove("answers")
    if kinds == ["answers"] and _VERDICTS.intersection(names):
        kinds.append("pairs")
    if len(kinds) > 1:
        _refuse_ambiguous(source, kinds[0], kinds[1], ", ".join(names))
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
        matches = [index for index, name in enumerate(names) if name in column_names]
        if not matches:
            return []
        places.append(matches[0])
    return places


def _check_widths(table: JudgedTable, count: int, rows: Sequence[Row]) -> None:
    """Refuse a selection of other than two or three columns, and rows of unequal length."""
    if count not in (2, 3):
        place = table.rows[0].place if table.rows else table.source
        raise UserError(
            f"{place}: {count} column(s) instead of 2 or 3", ROWS_REMEDY, code="wrong-columns"
        )
    width = len(table.header)
    for row in rows:
        if len(row.cells) != width:
            raise UserError(
                f"{row.place}: {len(row.cells)} column(s) instead of {width}",
                ROWS_REMEDY,
                code="wrong-columns",
            )
    if not rows:
        raise UserError(f"{table.source} has no rows", ROWS_REMEDY, code="no-rows")


def _check_filled(rows: Sequence[Row], columns: Sequence[str], kind: Kind) -> None:
    """Refuse an empty text or class; an empty score is refused as no number."""
    texts = columns[:2] if kind == "pairs" else columns
    for row in rows:
        for column, cell in zip(texts, row.cells, strict=False):
            if not cell:
                raise UserError(
                    f"{row.place}: the {column} cell is empty", LINE_REMEDY, code="empty-cell"
                )


def _kind_by_content(source: str, rows: Sequence[Row]) -> Kind:
    """What two or three columns without known names hold."""
    first = [row.cells[0] for row in rows]
    last = [row.cells[-1] for row in rows]
    if len(rows[0].cells) == 2:
        return _kind_of_two(source, first, last)
    numbers = sum(is_score(cell) for cell in last)
    return "pairs" if 2 * numbers > len(last) else "triples"


def _kind_of_two(source: str, first: Sequence[str], second: Sequence[str]) -> Kind:
    """Whether the second column holds classes or answers.

    Classes are short, and most occur several times. Answers are longer, or none occurs twice.
    """
    if _are_classes(second):
        return "classes"
    if _are_classes(first):
        _refuse_ambiguous(source, "classes", "answers", "the first column repeats short values")

    distinct = len(set(second))
    if distinct < len(second):
        if _are_short(second):
            _refuse_ambiguous(source, "answers", "classes", "the second column repeats few values")
        if len(second) >= _MANY_REPEATS * distinct:
            _refuse_ambiguous(source, "classes", "answers", "the second column repeats long values")
    elif all(is_score(value) for value in second):
        raise UserError(
            f"{source}: the second column holds numbers of which none occurs twice",
            ROWS_REMEDY,
            code="ambiguous-labels",
        )
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
