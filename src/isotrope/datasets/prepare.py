"""``isotrope data prepare``: the official files of STS and SICK in, SentEval's out, each verified."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from isotrope.datasets.sources import DataSource, File, choose
from isotrope.datasets.tokenise import tokenise_file
from isotrope.datasets.verify import WrongFile, fault, new_verified
from isotrope.errors import UserError
from isotrope.store.disk import writing


def prepare_data(
    data: str | Path,
    output: str | Path | None = None,
    names: Iterable[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Make ``senteval/downstream/STS`` and ``SICK`` below ``output`` from the official files below ``data``.

    The default of ``output`` is ``data``. Without ``names`` every source whose official files are there is prepared.
    What is there already and right is left.

    Returns:
        The folders prepared.

    Raises:
        UserError: nothing to prepare, an official file that is missing or not the official one, a full disk.
    """
    folder, target = Path(data).expanduser(), Path(output or data).expanduser()
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} does not exist", "run isotrope data fetch first, or check the path")
    names = list(names)
    chosen = [s for s in choose(names) if s.recipe and (names or (folder / s.folder).is_dir())]
    if not chosen:
        raise UserError(
            f"{folder} holds no official files to prepare (sts-raw, stsb-raw, sick-raw)",
            "run isotrope data fetch --only sts first; the other sets need no preparation",
        )
    made = []
    for source in chosen:
        _verify(folder / source.folder, source)
        destination = target / str(source.prepared_folder)
        with writing(destination, "run isotrope data prepare again"):
            for file in source.prepared:
                if file.document and not (folder / source.folder / file.name).exists():
                    continue
                _make(folder / source.folder, destination, source, file)
        say(f"{source.name}: {source.rows} in {destination}")
        made.append(destination)
    return made


def _verify(folder: Path, source: DataSource) -> None:
    """All of them before any is written: half a task is worse than none."""
    for file in source.files:
        wrong = fault(folder / file.name, file)
        if wrong and not file.document:
            raise UserError(
                f"{folder / file.name}: {wrong.kind} ({wrong.detail})", f"run isotrope data fetch --only {source.name}"
            )


def _make(folder: Path, destination: Path, source: DataSource, file: File) -> None:
    if fault(destination / file.name, file) is None:
        return
    official = next(listed for listed in source.files if listed.name == (file.at or file.name))
    content = (folder / official.name).read_bytes()
    if official.sha256 != file.sha256:  # scores and licences stay as they are
        content = tokenise_file(content.decode("utf-8"), str(source.recipe)).encode("utf-8")
    try:
        with new_verified(destination / file.name, file) as out:
            out.write(content)
    except WrongFile as wrong:
        raise UserError(
            f"{destination / file.name} came out {wrong.fault.kind} ({wrong.fault.detail})",
            "install the version of sacremoses that constraints.txt names",
        ) from None
