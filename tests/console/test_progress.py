"""How far a work is: a bar in a terminal, now and then a line elsewhere."""

import io

import pytest
from rich.console import Console

from isotrope.console import progress as module
from isotrope.console.plain import plain_console
from isotrope.console.progress import duration, progress, tell, watch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


def test_a_line_after_five_seconds_and_then_every_thirty(clock: list[float]) -> None:
    out = io.StringIO()
    with progress("encoded", 50_000, plain_console(file=out)) as bar:
        for _ in range(12):
            bar.advance(1_000)
            clock[0] += 5
    lines = out.getvalue().splitlines()
    assert lines == [
        "encoded 2,000 of 50,000 rows, 4 min left",
        "encoded 8,000 of 50,000 rows, 4 min left",
    ]


def test_what_was_done_before_does_not_count_for_the_time_left(clock: list[float]) -> None:
    """900 of 1,000 were there; 10 more took a minute, so the last 90 take nine."""
    out = io.StringIO()
    with progress("encoded", None, plain_console(file=out), unit="texts") as bar:
        bar.update(900, total=1_000)
        clock[0] += 60
        bar.update(910, note="loss [/x] 0.5")
    assert out.getvalue() == "encoded 910 of 1,000 texts, 9 min left, loss [/x] 0.5\n"


def test_a_watching_bar_shows_one_work_after_the_other(clock: list[float]) -> None:
    """The time left is that of the present work alone."""
    out = io.StringIO()
    with watch("loading", plain_console(file=out), "tiny: sts"):
        clock[0] += 6
        tell("loading tiny")
        tell("encoded", 0, 3_000)
        clock[0] += 31
        tell("encoded", 1_000, 3_000)
        tell("ranked for", 0, 50, "queries")
        clock[0] += 31
        tell("ranked for", 25, 50, "queries")
    tell("nobody listens")
    assert out.getvalue().splitlines() == [
        "loading tiny, tiny: sts",
        "encoded 1,000 of 3,000 texts, 1 min left, tiny: sts",
        "ranked for 25 of 50 queries, 31 s left, tiny: sts",
    ]


def test_a_bar_with_a_count_shows_what_it_hears_as_a_note(clock: list[float]) -> None:
    out = io.StringIO()
    with progress("trained", 9, plain_console(file=out), "steps") as bar:
        bar.update(3)
        clock[0] += 6
        tell("encoded", 1, 5)
        tell("encoded", 5, 5)
        assert bar.inner_work == ""
    assert out.getvalue() == "trained 3 of 9 steps, encoded 1 of 5 texts\n"


def test_a_quiet_bar_is_told_to_the_one_around_it(clock: list[float]) -> None:
    """A training inside another work."""
    out = io.StringIO()
    with (
        watch("training", plain_console(file=out), "crops"),
        progress("trained", 9, plain_console(quiet=True)) as bar,
    ):
        clock[0] += 6
        bar.update(3)
    assert out.getvalue() == "trained 3 of 9 rows, crops\n"


def test_a_bar_with_a_note_fits_into_eighty_columns() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=80, color_system=None)
    with watch("encoded", console, "isotrope/tiny: sts, result 1 of 5") as bar:
        tell("encoded", 1_024, 30_000)
        bar.update(note="a long name of a model " * 3)
        bar.drawn.refresh()
    assert " 3% 0:00:00 " in out.getvalue()
    assert "0:00:00 encoded 1,024/30,000 texts, " in out.getvalue()
    assert "…" in out.getvalue()  # the end of the words


@pytest.mark.parametrize(
    ("done", "total", "shown"), [(12_345_678, None, "12.3 MB"), (1_200, 2_600, "1.2 kB of 2.6 kB")]
)
def test_bytes_have_a_fitting_unit_and_an_unknown_total_is_left_out(
    clock: list[float], done: int, total: int | None, shown: str
) -> None:
    out = io.StringIO()
    with progress("downloaded", total, plain_console(file=out), unit="bytes") as bar:
        clock[0] += 31
        bar.advance(done)
    assert out.getvalue() == f"downloaded {shown}\n"


def test_a_bar_in_a_terminal_shows_percent_count_and_note_and_leaves_it_as_it_was() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    with progress("encoded", 200, console) as bar:
        bar.update(50, note="loss [/x] 0.5")
        bar.drawn.refresh()
    with pytest.raises(KeyboardInterrupt), progress("encoded", 2, console):
        raise KeyboardInterrupt
    for part in ("encoded", "25%", "50/200 rows", "loss [/x] 0.5"):
        assert part in out.getvalue()
    # the cursor is back
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")


def test_durations() -> None:
    found = [duration(seconds) for seconds in (0.4, 59.4, 59.9, 3_599, 7_500)]
    assert found == ["0 s", "59 s", "1 min", "1 h 00 min", "2 h 05 min"]
