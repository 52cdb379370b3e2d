"""``isotrope report``: a run on one page."""

from __future__ import annotations

from typing import Annotated

import typer

from isotrope.console.plain import plain_console


def report(
    run: Annotated[str, typer.Argument(help="A run's folder, finished or not.")],
    output: Annotated[str | None, typer.Option(help="The page, .html; default: report.html in the run.")] = None,
) -> None:
    """Show a run on one page.

    It has the verdict, the curves, and the vectors before and after. The figures are also written as .svg and .png.
    """
    from isotrope.compression.page import write_student_report

    plain_console().print(f"written to {write_student_report(run, output)}")
