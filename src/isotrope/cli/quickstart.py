"""``isotrope quickstart``: the first five minutes."""

from textwrap import fill

from isotrope.cli.call import call
from isotrope.cli.options import command
from isotrope.cli.show import console, show_outcome


@command
def quickstart(
    *,
    output: str = "isotrope-quickstart",
    seed: int = 0,
    restart: bool = False,
) -> None:
    """Make a raw model better for 3,600 pages about commands, without labels, and judge it by
    questions.

    The pages ship with isotrope. Nothing is downloaded.

    Args:
        output: Folder for the documents, the new model and the report.
    """
    outcome = call("isotrope.quickstart.run:quickstart", locals())
    from isotrope.quickstart.page import advice, scores_table

    verdict = fill(f"verdict: {outcome.verdict.word}: {outcome.verdict.evidence}", 100)
    minutes, seconds = divmod(round(outcome.record["seconds"]), 60)
    duration = f"took {minutes} min {seconds} s"
    lines = [verdict, fill(advice(outcome.record), 100), duration]
    show_outcome(outcome, [scores_table(outcome.record)], lines)
    console.print("your own model and your own documents:")
    console.print("  isotrope improve YOUR-MODEL YOUR-DOCUMENTS --output better")
    console.print("  isotrope encode better/model YOUR-DOCUMENTS --output index")
