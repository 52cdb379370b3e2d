"""One table in every format: marks, escapes, files."""

from __future__ import annotations

import io

from isotrope.console.plain import plain_console
from isotrope.report.page import Page
from isotrope.report.tables import Table, best_marks, latex, markdown, print_table


def test_marks() -> None:
    nan = float("nan")
    assert best_marks([[1, 3, 2], [1, 1, nan]], [False, True]) == {
        (1, 1): "best", (2, 1): "second", (0, 2): "best", (1, 2): "best"
    }  # fmt: skip
    assert best_marks([[1.0]], [False]) == {}


TABLE = Table("a & b", ["model", "x_1"], [["m|<1>", "1.00"], ["n", "2.00"]], {(1, 1): "best", (0, 1): "second"})


def test_formats_escape_and_mark() -> None:
    assert markdown([TABLE]).split("\n")[-3:] == ["| m\\|<1> | *1.00* |", "| n | **2.00** |", ""]
    tex = latex([TABLE])
    assert r"\caption{a \& b}" in tex
    assert r"model & x\_1 \\" in tex
    assert r"n & \textbf{2.00} \\" in tex
    shown = Page("t", tables=[TABLE]).html()
    assert "<h3>a &amp; b</h3>" in shown
    assert '<td>m|&lt;1&gt;</td><td class="number second">1.00</td>' in shown


def test_words_notes_and_a_missing_header_in_every_format() -> None:
    table = Table("settings", ["", "", ""], [["a", "b\nc", "1"]], words=2, notes=["of one\nrun"])
    assert markdown([table]) == "**settings**\n\n|  |  |  |\n|---|---|---:|\n| a | b c | 1 |\n\nof one\nrun\n"
    assert r"\begin{tabular}{llr}" in latex([table])
    assert "\n% of one run\n" in latex([table])
    html = Page("t", tables=[table]).html()
    assert "<thead>" not in html
    assert '<td>b\nc</td><td class="number">1</td>' in html
    assert '<p class="note">of one\nrun</p>' in html


def test_the_terminal_shows_text_as_it_is_and_breaks_no_cell_where_there_is_none() -> None:
    console = plain_console(file=io.StringIO(), width=30)
    name = "[/x] [bold]" + 40 * "long "
    print_table(Table("[red]t[/y]", ["model", "n"], [[name, "1"]], {(0, 1): "best"}), console)
    shown = console.file.getvalue()
    assert name.strip() in shown
    assert "[red]t[/y]" in shown


def test_control_characters_and_bytes_that_are_no_text_are_escaped() -> None:
    table = Table("t", ["a"], [["\x1b[31m \udcff"]])
    for text in (markdown([table]), latex([table]), Page("t", tables=[table]).html()):
        assert "\x1b" not in text
        assert "x1b" in text
        assert "udcff" in text
        text.encode("utf-8")


def test_the_seven_sts_tasks_fit_into_80_columns() -> None:
    console = plain_console(file=io.StringIO(), width=80)
    console._force_terminal = True
    header = ["model", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
    print_table(Table("sts", header, [["isotrope/tiny@cls", *["99.99"] * 8]]), console)
    assert "isotrope/tiny@cls" in console.file.getvalue()


def test_long_names_and_paths_break_behind_a_sign_in_a_narrow_terminal() -> None:
    out = io.StringIO()
    console = plain_console(file=out, width=80)
    console._force_terminal = True
    names = ["sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2", "/home/user/projects/search/run/model"]
    header = ["model", "STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg."]
    print_table(Table("sts", header, [[name, *["51.23"] * 8] for name in names]), console)
    lines = [line.split("51.23")[0].strip() for line in out.getvalue().splitlines()]
    assert max(map(len, out.getvalue().splitlines())) <= 80
    for name in names:
        first = next(place for place, line in enumerate(lines) if line and name.startswith(line))
        shown = [lines[first]]
        while "".join(shown) != name:
            assert shown[-1][-1] in "-/"
            shown.append(lines[first + len(shown)])
