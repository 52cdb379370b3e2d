"""``isotrope compress``: a small model that follows a large one."""

from isotrope.cli.call import call
from isotrope.cli.options import command, text_sources
from isotrope.cli.show import show_outcome


@command
def compress(
    model: str,
    documents: list[str],
    *,
    output: str,
    student: str = "layers:3",
    side: str | None = None,
    seed: int = 0,
    preset: str | None = None,
    max_texts: int | None = None,
    dev: list[str] | None = None,
    labels: str | None = None,
    columns: str | None = None,
    data: str | None = None,
    overrides: list[str] | None = None,
    text_column: str | None = None,
    title_column: str | None = None,
    split: str | None = None,
    restart: bool = False,
) -> None:
    """Make a small fast model that follows a large one, on your own text, without labels.

    The student is compared with its teacher and with itself before training: points kept, speed,
    size.

    Args:
        model: The large model: folder, hub name, or isotrope/minilm.
        student: tiny (isotrope/tiny), layers:3 (some of the teacher's), static (one vector a
            token), or a model.
        side: query: the student reads queries only, and documents keep the teacher's vectors;
            default: both.
        preset: Method: a preset with a teacher, or a .toml file; default: distil.
    """
    options = {**locals(), "documents": text_sources(documents)}
    outcome = call("isotrope.compression.compress:compress", options)
    show_outcome(outcome, outcome.tables(), [f"verdict: {outcome.verdict}"])
