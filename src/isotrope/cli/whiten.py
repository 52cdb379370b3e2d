"""``isotrope whiten``: vectors that are spread more evenly."""

from isotrope.cli.call import call
from isotrope.cli.options import command, text_sources
from isotrope.cli.show import console, show_outcome
from isotrope.report.tables import Table


@command
def whiten(
    model: str,
    documents: list[str],
    *,
    output: str,
    k: int | None = None,
    exponent: float | None = None,
    max_texts: int = 20000,
    seed: int = 0,
    text_column: str | None = None,
    split: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    labels: list[str] | None = None,
    columns: str | None = None,
    data: str | None = None,
    compare: bool = True,
    restart: bool = False,
) -> None:
    """Whiten a model, and say whether it got better.

    Whitening spreads the vectors more evenly. It becomes the last layer of the model.

    Args:
        k: How many dimensions to keep; default: all.
        exponent: From 0 (centring alone) to 0.5 (full whitening); default: 0.25.
        max_texts: Fit on a random sample of so many texts.
        labels: What judges: stsb, sickr, or labels of your own, as in improve; again for more.
        compare: Compare also on tasks made from texts that are kept from the fit.
    """
    options = {**locals(), "documents": text_sources(documents)}
    outcome = call("isotrope.improvement.whiten:whiten", options)
    from isotrope.improvement.whiten import fitted_line
    from isotrope.report.comparison import before_after, of_run, with_average

    record = outcome.record
    console.print(fitted_line(record))
    tables: list[Table] = []
    if record["self_made"]:
        used = record["held_out"]["used"]
        title = f"{record['measure']} on tasks made from {used:,} texts that the fit has not seen"
        tables.append(before_after(title, with_average(record["self_made"])))
    if record["pairs"]:
        tables.append(of_run(record["pairs"]))
    show_outcome(outcome, tables, [f"verdict: {outcome.verdict}"])
