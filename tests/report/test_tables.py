"""Tables in every format, as files, and those that papers print of several models."""

import io
from dataclasses import asdict
from pathlib import Path

import numpy as np

from helpers.refusals import refused
from helpers.wordbag import Bag, own_pairs, results_of
from isotrope.console.plain import plain_console
from isotrope.evaluation.significance import compare
from isotrope.evaluation.suite import main_scores, run
from isotrope.report import scores
from isotrope.report.comparison import of_run
from isotrope.report.page import Page
from isotrope.report.tables import Table, best_marks, markdown, print_table


def test_marks() -> None:
    nan = float("nan")
    assert best_marks([[1, 3, 2], [1, 1, nan]], [False, True]) == {
        (1, 1): "best",
        (2, 1): "second",
        (0, 2): "best",
        (1, 2): "best",
    }
    assert best_marks([[1.0]], [False]) == {}


TABLE = Table(
    "a & b",
    ["model", "x_1"],
    [["m|<1>", "1.00"], ["n", "2.00"]],
    {(1, 1): "best", (0, 1): "second"},
)


def test_formats_escape_and_mark() -> None:
    assert markdown([TABLE]).split("\n")[-3:] == ["| m\\|<1> | *1.00* |", "| n | **2.00** |", ""]
    shown = Page("t", tables=[TABLE]).html()
    assert "<h3>a &amp; b</h3>" in shown
    assert '<td>m|&lt;1&gt;</td><td class="number second" data-name="x_1">1.00</td>' in shown


def test_words_notes_and_a_missing_header_in_every_format() -> None:
    table = Table("settings", ["", "", ""], [["a", "b\nc", "1"]], words=2, notes=["of one\nrun"])
    assert (
        markdown([table])
        == "**settings**\n\n|  |  |  |\n|---|---|---:|\n| a | b c | 1 |\n\nof one\nrun\n"
    )
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
    for text in (markdown([table]), Page("t", tables=[table]).html()):
        assert "\x1b" not in text
        assert "x1b" in text.encode("utf-8").decode()


def test_a_row_a_task_and_the_average_of_several() -> None:
    generator = np.random.default_rng(0)
    old = {name: generator.random(50) for name in ("STSBenchmark", "mine")}
    found = asdict(compare(old, {name: values - 0.1 for name, values in old.items()}))
    table = of_run(found)
    assert [row[0] for row in table.rows] == ["STS-B", "mine", "average"]
    score = 100 * old["STSBenchmark"].mean()
    told = [
        "STS-B",
        f"{score:.2f}",
        f"{score - 10:.2f}",
        "−10.00",
        "−10.00 … −10.00",
        "< 0.001",
        "worse",
    ]
    assert table.rows[0] == told
    assert len(table.header) == len(told)
    found["per_task"].pop("mine")
    assert [row[0] for row in of_run(found).rows] == ["STS-B"]


def test_tables_are_written_as_markdown(tmp_path: Path) -> None:
    scores.write_tables([TABLE], scores.check_table_file(tmp_path / "x.md"))
    assert "**2.00**" in (tmp_path / "x.md").read_text()
    with refused("unknown-format"):
        scores.check_table_file(tmp_path / "x.tex")


def test_intervals_hold_the_score_and_shrink_with_pairs() -> None:
    def width(count: int) -> float:
        result = results_of(Bag(), "sts", own_pairs(count))
        (row,) = scores.interval_table("sts", {"bag": result}).rows
        low, high = map(float, row[1].split(" … "))
        assert low < 100 * main_scores("sts", result)["mine"] < high
        return high - low

    assert width(2000) < width(100) / 2


def test_the_average_is_the_papers(data: Path, cached: Path) -> None:
    result = run(Bag(), "sts", data)
    (table,) = scores.suite_tables("sts", {"bag": result}, "sts")
    assert table.header[-1] == "Avg."
    assert table.rows[0][-1] == f"{100 * np.mean(list(main_scores('sts', result).values())):.2f}"


def test_a_measure_that_no_task_has_gets_no_table_and_one_that_some_have_gets_theirs() -> None:
    judged = {"ndcg@10": 0.5, "mrr@10": 0.4, "recall@10": 0.3, "recall@100": 0.2}
    two = {"m": {"a": judged, "b": judged}}
    assert [table.title for table in scores.suite_tables("retrieval", two, "retrieval")] == [
        f"retrieval: {name}" for name in ("nDCG@10", "MRR@10", "recall@10", "recall@100")
    ]
    one_has_it = {"m": {"a": judged, "b": judged | {"v_measure": 0.6}}}
    *_, last = scores.suite_tables("retrieval", one_has_it, "retrieval")
    assert (last.title, last.header, last.rows) == (
        "retrieval: V-measure",
        ["model", "b"],
        [["m", "60.00"]],
    )
