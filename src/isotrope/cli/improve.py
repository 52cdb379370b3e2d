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
    title: str | None = None,
    text: str | None = None,
    others: list[str] | None = None,
    teachers: list[str] | None = None,
    query_model: str | None = None,
    plan: str | None = None,
    restart: bool = False,
) -> None:
    """Make a model better for your documents, without labels, or find that it is best to keep it.

    Some documents are held out. Tasks made from them judge poolings, post steps and trainings on
    the others.

    Args:
        minutes: Time for the whole command; default: 20.
        others: Another model to begin with; again for more. The best for the documents is improved.
        teachers: A larger model or cross-encoder that may teach rankings; again for more.
        query_model: A language model that writes questions for the documents.
        plan: Folder of an earlier improvement: do the same work, whatever time it takes.
    """
    options = {**locals(), "documents": text_sources(documents)}
    outcome = call("isotrope.improvement.improve:improve", options)
    from isotrope.improvement.page import advised, candidates_table, general_lines, teachers_line

    record = outcome.record
    tables = [candidates_table(record)] if record["table"] else []
    notes = [*general_lines(record), *teachers_line(record), *advised(record)]
    show_outcome(outcome, tables, [f"verdict: {outcome.verdict}", *notes])
