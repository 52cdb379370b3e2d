"""A table of numbers, as Markdown, LaTeX, HTML or on the terminal: the best of a column stands out, the second too."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rich.table import Table as Shown
from rich.text import Text

from isotrope.errors import UserError
from isotrope.store.disk import writing

Mark = Literal["best", "second"]
_TEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": "$<$", ">": "$>$", "−": "$-$", "±": r"$\pm$", "…": r"\ldots{}", "τ": r"$\tau$", "φ": r"$\varphi$"}
)


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column names, rows of text, and which cells (row, column) stand out."""

    title: str
    header: list[str]
    rows: list[list[str]]
    marks: Mapping[tuple[int, int], Mark] = field(default_factory=dict)


def ranked(columns: Sequence[Sequence[float]], lower: Sequence[bool], first: int = 1) -> dict[tuple[int, int], Mark]:
    """The best and the second of each column of numbers; equal ones share a mark, and one row alone has none.

    `lower` says of which columns the smallest is the best. NaN is never marked. `first` is the first column's place.
    """
    marks: dict[tuple[int, int], Mark] = {}
    for place, (column, ascending) in enumerate(zip(columns, lower, strict=True), start=first):
        values = sorted({value for value in column if value == value}, reverse=not ascending)
        if len(column) < 2 or not values:
            continue
        names: dict[float, Mark] = dict(zip(values, ("best", "second"), strict=False))
        marks |= {(row, place): names[value] for row, value in enumerate(column) if value in names}
    return marks


def markdown(tables: Sequence[Table]) -> str:
    """GitHub's Markdown; best bold, second in italics."""
    style = {"best": "**{}**", "second": "*{}*"}

    def lines(table: Table) -> list[str]:
        head = ["| " + " | ".join(table.header) + " |", "|" + "---|" + "---:|" * (len(table.header) - 1)]
        cells = _cells(table, style, lambda text: text.replace("|", "\\|"))
        return [f"**{table.title}**", "", *head, *("| " + " | ".join(row) + " |" for row in cells), ""]

    return "\n".join(line for table in tables for line in lines(table))


def latex(tables: Sequence[Table]) -> str:
    """LaTeX for the booktabs package; best bold, second underlined."""
    style = {"best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}

    def lines(table: Table) -> list[str]:
        header = " & ".join(cell.translate(_TEX) for cell in table.header)
        cells = _cells(table, style, lambda text: text.translate(_TEX))
        return [
            r"\begin{table}[t]", r"\centering", rf"\caption{{{table.title.translate(_TEX)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.header) - 1)}}}", r"\toprule", rf"{header} \\", r"\midrule",
            *(" & ".join(row) + r" \\" for row in cells),
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ]  # fmt: skip

    return "\n".join(line for table in tables for line in lines(table))


def page(tables: Sequence[Table], title: str) -> str:
    """One self-contained HTML page; best bold, second underlined."""
    style = {"best": "<b>{}</b>", "second": "<u>{}</u>"}

    def block(table: Table) -> str:
        head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
        rows = (
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in _cells(table, style, html.escape)
        )
        return f"<h2>{html.escape(table.title)}</h2>\n<table>\n<tr>{head}</tr>\n" + "\n".join(rows) + "\n</table>"

    css = (
        "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:72rem;padding:0 1rem;color:#1a1a1a}"
        "h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}tr+tr{border-top:1px solid #ddd}"
        "th,td{padding:.3rem .8rem;text-align:right;font-variant-numeric:tabular-nums}"
        "th:first-child,td:first-child{text-align:left}@media(max-width:40rem){table{display:block;overflow-x:auto}}"
    )
    name = html.escape(title)
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{name}</title>'
    body = "\n".join(map(block, tables))
    lines = (
        "<!doctype html>", '<html lang="en">', f"<head>{head}<style>{css}</style></head>",
        f"<body>\n<h1>{name}</h1>\n{body}\n</body>", "</html>\n",
    )  # fmt: skip
    return "\n".join(lines)


def terminal(table: Table) -> Shown:
    """For rich's console; best bold, second underlined."""
    styles = {"best": "bold", "second": "underline"}
    shown = Shown(title=table.title)
    for place, name in enumerate(table.header):
        shown.add_column(Text(name), justify="right" if place else "left", overflow="fold")
    for i, row in enumerate(table.rows):
        shown.add_row(*(Text(cell, styles.get(table.marks.get((i, j), ""), "")) for j, cell in enumerate(row)))
    return shown


FORMATS: Mapping[str, Callable[[Sequence[Table]], str]] = {
    ".md": markdown,
    ".tex": latex,
    ".html": lambda tables: page(tables, "isotrope evaluate"),
}


def check_target(path: str | Path) -> Path:
    """The file that tables shall be written to; UserError where its ending is unknown or its folder is not there."""
    target = Path(path)
    if target.suffix not in FORMATS:
        raise UserError(f"{target.name}: no format for tables", f"let it end with {', '.join(FORMATS)}")
    if target.is_dir():
        raise UserError(f"{target} is a folder", "name a file for the tables")
    if not target.parent.is_dir():
        raise UserError(f"{target.parent} does not exist, so {target.name} cannot be written", "make the folder")
    return target


def write(tables: Sequence[Table], target: Path) -> None:
    """Write tables in the format that the file's ending names."""
    with writing(target.parent):
        target.write_text(FORMATS[target.suffix](tables), encoding="utf-8")


def _cells(table: Table, style: Mapping[str, str], escape: Callable[[str], str]) -> list[list[str]]:
    return [
        [style.get(table.marks.get((i, j), ""), "{}").format(escape(cell)) for j, cell in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]
