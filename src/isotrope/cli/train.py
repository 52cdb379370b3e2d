"""``isotrope train`` and ``isotrope report``: a run, and its page."""

from isotrope.cli.call import call
from isotrope.cli.options import command, named_values, text_sources
from isotrope.cli.show import console, show_outcome


@command
def train(
    documents: list[str],
    *,
    output: str,
    preset: str | None = None,
    model: str | None = None,
    labels: str | None = None,
    columns: str | None = None,
    dev: list[str] | None = None,
    data: str | None = None,
    seed: int = 0,
    max_texts: int | None = None,
    overrides: list[str] | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    positive_prompt: str | None = None,
    teachers: list[str] | None = None,
    train_teachers: bool = False,
    text_column: str | None = None,
    title_column: str | None = None,
    held_out: int = 0,
    positive: str | None = None,
    negatives: list[str] | None = None,
    split: str | None = None,
    keep_duplicates: bool = False,
    log_to: list[str] | None = None,
    restart: bool = False,
) -> None:
    """Train a model on text without labels, and judge it.

    Args:
        model: Model to begin with: folder, hub name, isotrope/small; default: the preset's.
        positive_prompt: Words before positives and hard negatives; default: as before all texts.
        teachers: NAME=MODEL: the model of the preset's teacher NAME; again for more.
        train_teachers: Train the presets among the teachers first, on the same text. Their folders
            are in OUTPUT.teachers.
        held_out: Random documents to leave out of training.
        positive: In tables: the column of the positives.
        negatives: In tables: a column of hard negatives; again for more.
        keep_duplicates: Train on every text, also on one that occurred before.
        log_to: A tracker that transformers knows: tensorboard, wandb, …; again for more.
    """
    options = {**locals(), "documents": text_sources(documents), "teachers": _teachers(teachers)}
    run = call("isotrope.training.train:train", options, several_processes=True)
    if not run.record:  # the first of several processes speaks
        return
    from isotrope.report.comparison import of_run

    tables = [of_run(run.record["comparison"])] if "comparison" in run.record else []
    show_outcome(run, tables, [f"verdict: {run.verdict}"])


def _teachers(words: list[str] | None) -> dict[str, list[str]] | None:
    """Name of a teacher -> its models."""
    teachers: dict[str, list[str]] = {}
    for name, model in named_values("--teacher", words, "NAME=MODEL", "guide=RUN/model"):
        teachers.setdefault(name, []).append(model)
    return teachers or None


@command
def report(
    run: str,
    *,
    output: str | None = None,
) -> None:
    """Show a run on one page.

    It has the verdict, the curves, and the cosines before and after.

    Args:
        run: A run's folder, finished or not.
        output: The page, .html; default: report.html in the run.
    """
    page = call("isotrope.compression.page:write_student_report", locals())
    console.print(f"written to {page}")
