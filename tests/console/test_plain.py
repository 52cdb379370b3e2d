"""What others wrote is shown as it is: no markup, no control of the terminal, no error for its
letters.
"""

import ast
import io
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

import isotrope
from isotrope.console.plain import escaped, plain_console


def shown(thing: object, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    plain_console(file=file, width=60).print(thing)
    file.flush()
    return raw.getvalue().decode(encoding)


def test_text_is_no_markup() -> None:
    for text in ("[/x]", "[bold]a[/bold]", "[link=x", ":smile:", "\\[a]", "12 'a' None"):
        assert shown(text) == shown(Path(text)) == text + "\n"


def test_control_characters_and_lone_surrogates_are_escaped() -> None:
    for text, expected in (
        ("\x1b]0;title\x07 a\rb", "\\x1b]0;title\\x07 a\\x0db"),
        ("\x9b2J na\udcefve \u202etxt", "\\x9b2J na\\udcefve \\u202etxt"),
        ("two\nlines, naïve 河 👩‍🚀", "two\nlines, naïve 河 👩‍🚀"),
    ):
        assert escaped(text) == expected
        assert shown(text) == expected + "\n"


def test_styled_texts_and_cells_of_a_table_are_escaped_too() -> None:
    assert shown(Text("a\x1b[2J\udcff")) == "a\\x1b[2J\\udcff\n"
    table = Table("file", box=None)
    table.add_row("[/x] \x1b[2J")
    assert "[/x] \\x1b[2J" in shown(table)


def test_what_the_stream_cannot_hold_becomes_a_question_mark() -> None:
    assert shown("a 河 \udcff", "latin-1") == "a ? \\udcff\n"


def test_a_long_line_is_not_broken_and_a_quiet_console_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert shown("word " * 50).count("\n") == 1
    plain_console(quiet=True).print("a")
    assert capsys.readouterr().out == ""


def test_every_line_goes_through_such_a_console() -> None:
    """No other module builds a console or a bar of its own."""
    package = Path(isotrope.__file__).parent
    found = [
        f"{path.relative_to(package)}:{node.lineno}: {node.func.id}"
        for path in package.rglob("*.py")
        if path.parent.name != "console"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("Console", "Progress", "print", "tqdm")
    ]
    assert not found
