"""``isotrope encode``: text of any size into vectors."""

from pathlib import Path

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console


@command(
    "isotrope.encoding.encode:encode",
    hidden=("shard", "normalize", "device", "progress"),
    model=Word("The model: a folder or a hub name, such as isotrope/small."),
    texts=Word("Files, folders or URLs of text; each row gives one vector.", many=True),
    output=Word("OUT.npy, OUT.parquet, or a folder or URL for Parquet files.", required=True),
    batch_size=Word("Texts at a time, at most; fewer where they are long.", low=1),
    keep=Word("Columns to write beside the vectors, such as id,title.", many=False),
    engine=Word("one process, several processes, or ray (needs isotrope[ray])."),
    workers=Word("Workers of processes or ray; default: one a core.", low=1),
    address=Word("Of a Ray cluster; default: Ray on this machine."),
)
def encode(written: Path | str) -> None:
    """Turn text of any size into vectors.

    The memory does not grow with the text. After a stop, the same command goes on.
    """
    from isotrope.encoding.output import beside

    kept = beside(Path(written))
    columns = f", the kept columns to {kept}" if str(written).endswith(".npy") and kept.exists() else ""
    plain_console().print(f"written to {written}{columns}")
