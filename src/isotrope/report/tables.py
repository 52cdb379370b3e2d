"""The table of the package: on the terminal, as Markdown or HTML. Cells are text, never
markup.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text

from isotrope.console.plain import escaped

Mark = Literal["best", "second"]
Marks = dict[tuple[int, int], Mark]  # (row, column) -> how the cell stands out
WIDE = 10_000  # characters: no table is wider


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a title. Texts of several lines keep them in HTML and on the terminal."""

    title: str
    header: Sequence[str]  # one name a column; all empty: the table is shown without a header
    rows: Sequence[Sequence[str]]
    marks: Marks = field(default_factory=dict)
    # so many columns, from the left, hold words; the others hold numbers and are aligned right
    words: int = 1
    notes: Sequence[str] = ()  # sentences below the table

    @property
    def numbers(self) -> int:
        """How many columns hold numbers."""
        return len(self.header) - self.words


def best_marks(columns: Sequence[Sequence[float]], lower: Sequence[bool], first: int = 1) -> Marks:
    """Marks for the best and the second best number of each column; ``lower`` says where the
    smallest is the best.

    Equal numbers share a mark, NaN and a table of one row have none. ``first`` is the place of the
    first column.
    """
    marks: Marks = {}
    for column_number, (column, ascending) in enumerate(
        zip(columns, lower, strict=True), start=first
    ):
        if len(column) < 2:
            continue
        numbers = {value for value in column if not math.isnan(value)}
        best_first = sorted(numbers, reverse=not ascending)
        mark_of: dict[float, Mark] = dict(zip(best_first, ("best", "second"), strict=False))
        for row, value in enumerate(column):
            if value in mark_of:
                marks[row, column_number] = mark_of[value]
    return marks


def markdown(tables: Sequence[Table]) -> str:
    """GitHub's Markdown; best bold, second best in italics."""
    lines = []
    for table in tables:
        rows = [[_in_markdown(cell) for cell in row] for row in (table.header, *table.rows)]
        for (row, column), mark in table.marks.items():
            sign = "**" if mark == "best" else "*"
            rows[row + 1][column] = f"{sign}{rows[row + 1][column]}{sign}"
        head, *body = ["| " + " | ".join(row) + " |" for row in rows]
        rule = "|" + "---|" * table.words + "---:|" * table.numbers
        lines += [f"**{_in_markdown(table.title)}**", "", head, rule, *body, ""]
        for note in table.notes:
            lines += [_plain(note), ""]
    return escaped("\n".join(lines))


def print_table(table: Table, console: Console) -> None:
    """Show a table; best bold, second best underlined. Without a terminal, no cell is broken over
    lines.
    """
    styles = {"best": "bold", "second": "underline"}
    terminal_table = TerminalTable(
        title=_text(table.title),
        box=SIMPLE,
        show_header=any(table.header),
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption=_text("\n".join(table.notes)) if table.notes else None,
        caption_justify="left",
    )
    for place, name in enumerate(table.header):
        justify: Literal["left", "right"] = "left" if place < table.words else "right"
        terminal_table.add_column(_text(name), justify=justify, overflow="fold")
    for row, cells in enumerate(table.rows):
        texts = []
        for column, cell in enumerate(cells):
            mark = table.marks.get((row, column), "")
            texts.append(_text(cell, styles.get(mark, "")))
        terminal_table.add_row(*texts)

    width = console.width
    if not console.is_terminal:
        console.width = WIDE
    console.print(terminal_table, soft_wrap=False)
    console.width = width


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


def _in_markdown(text: str) -> str:
    return _plain(_one_line(text)).replace("|", "\\|")


def _plain(text: str) -> str:
    """Text in which Markdown sees no HTML. A sign that begins neither a tag nor an entity stays as
    it is.
    """
    without_entities = re.sub(r"&(?=#?\w+;)", "&amp;", text)
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", without_entities)


def _text(text: str, style: str = "") -> Text:
    """Escape the text before rich measures it."""
    return Text(escaped(text), style)
