"""``isotrope encode``: text of any size into vectors."""

from pathlib import Path

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console


@command(
    model=Word("The model: a folder or a hub name, such as isotrope/small."),
    texts=Word("Files, folders or URLs of text; each row gives one vector."),
    output=Word("OUT.npy, OUT.parquet, or a folder or URL for Parquet files.", required=True),
    batch_size=Word("Texts at a time, at most; fewer where they are long.", low=1),
    workers=Word("Workers of processes or ray; default: one a core.", low=1),
)
def encode(
    model: str,
    texts: list[str],
    *,
    output: str,
    text: str | None = None,
    keep: str | None = None,
    batch_size: int = 64,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    engine: str = "one",
    workers: int | None = None,
    address: str | None = None,
    restart: bool = False,
) -> None:
    """Turn text of any size into vectors.

    The memory does not grow with the text. After a stop, the same command goes on.

    Args:
        keep: Columns to write beside the vectors, such as id,title.
        engine: `one` process, several processes, or ray (needs isotrope[ray]).
        address: Of a Ray cluster; default: Ray on this machine.
    """
    from isotrope.encoding.encode import encode as run
    from isotrope.encoding.output import beside

    written = run(
        model, texts, output, text=text, batch_size=batch_size, pooling=pooling, prompt=prompt, prompt_name=prompt_name,
        keep=keep or (), engine=engine, workers=workers, address=address, restart=restart,
        console=plain_console(stderr=True),
    )  # fmt: skip
    columns = f", the kept columns to {beside(Path(written))}" if keep and str(written).endswith(".npy") else ""
    plain_console().print(f"written to {written}{columns}")
