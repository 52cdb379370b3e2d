"""``isotrope improve``: a better model for your documents."""

from isotrope.cli.call import call
from isotrope.cli.options import command, text_sources
from isotrope.cli.show import show_outcome


@command
def improve(
    model: str,
    documents: list[str],
    *,
    output: str,
    minutes: float | None = None,
    labels: str | None = None,
    columns: str | None = None,
    data: str | None = None,
    seed: int = 0,
    pooling: str | None = None,
    title_column: str | None = None,
    text_column: str | None = None,
    other_models: list[str] | None = None,
    teachers: list[str] | None = None,
    plan: str | None = None,
    restart: bool = False,
) -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them choose among poolings, post steps and
    trainings on the others, and other held-out documents judge the choice.

    Args:
        minutes: Time for the whole command; default: 20.
        other_models: Another model to begin with; again for more. The best for the documents is
            improved.
        teachers: A larger model that may teach rankings; again for more.
        plan: Folder of an earlier improvement: do the same work, whatever time it takes.
    """
    options = {**locals(), "documents": text_sources(documents)}
    outcome = call("isotrope.improvement.improve:improve", options)
    from isotrope.improvement.page import (
        advice_lines,
        candidates_table,
        general_lines,
        teacher_lines,
    )
    from isotrope.improvement.result import RaceResult

    result = RaceResult.model_validate(outcome.record)
    notes = [*general_lines(result), *teacher_lines(result), *advice_lines(result)]
    show_outcome(outcome, [candidates_table(result)], [f"verdict: {outcome.verdict}", *notes])
