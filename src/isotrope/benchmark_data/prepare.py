"""``isotrope data prepare``: the official files of STS and SICK in, SentEval's out, each verified.

Moses' English tokenizer without escaping, then lower case (SICK keeps its case), is what SentEval's
script does to the files of the organisers. Source: Koehn et al., ACL 2007,
https://aclanthology.org/P07-2045; sacremoses does the work.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from isotrope.benchmark_data.sources import DataSource, File, choose, existing_folder, fault
from isotrope.errors import UserError, needs
from isotrope.store.files import new_file, writing


def prepare_data(
    data: str | Path,
    output: str | Path | None = None,
    names: Iterable[str] = (),
    say: Callable[[str], None] = lambda line: None,
) -> list[Path]:
    """Make ``senteval/downstream/STS`` and ``SICK`` below ``output`` (default: ``data``) from the
    official files.

    Without ``names``, every source whose official files are there is prepared. Files that are
    there already, and right, are left. Returns the prepared folders.

    Raises:
        UserError: nothing to prepare, an official file that is missing or not the official one, a
            full disk.
    """
    folder = existing_folder(data)
    target = Path(output or data).expanduser()
    names = list(names)
    sources = [source for source in choose(names) if source.recipe]
    if not names:
        sources = [source for source in sources if (folder / source.folder).is_dir()]
    if not sources:
        raise UserError(
            f"{folder} holds no official files to prepare (sts-raw, stsb-raw, sick-raw)",
            "run isotrope data fetch --only sts first; the other sets need no preparation",
            code="nothing-to-prepare",
        )

    prepared_folders = []
    for source in sources:
        official = folder / source.folder
        destination = target / str(source.prepared_folder)
        _check_official(official, source)
        with writing(destination, "run isotrope data prepare again"):
            for file in source.prepared:
                _prepare_file(official, destination, file, source)
        say(f"{source.name}: {source.rows} in {destination}")
        prepared_folders.append(destination)
    return prepared_folders


def _check_official(official: Path, source: DataSource) -> None:
    """Check all files of a source before any is written: half a task is worse than none."""
    for file in source.files:
        wrong = fault(official / file.name, file)
        if wrong and not file.document:
            raise UserError(
                f"{official / file.name}: {wrong.kind} ({wrong.detail})",
                f"run isotrope data fetch --only {source.name}",
                code="not-official",
            )


def _prepare_file(official: Path, destination: Path, file: File, source: DataSource) -> None:
    """Write one prepared file, if its official file is there and it is not right already."""
    official_file = official / (file.at or file.name)
    target = destination / file.name
    if not official_file.exists() or not fault(target, file):
        return

    content = official_file.read_bytes()
    if hashlib.sha256(content).hexdigest() != file.sha256:  # scores stay as they are
        content = _tokenised(content.decode(), str(source.recipe)).encode()
    with new_file(target) as out:
        out.write(content)
        out.flush()
        wrong = fault(Path(out.name), file)
        if wrong:
            raise UserError(
                f"{destination / file.name} came out {wrong.kind} ({wrong.detail})",
                "install the version of sacremoses that constraints.txt names",
                code="other-tokens",
            )


@cache
def _moses() -> Any:
    return needs("data", "sacremoses").MosesTokenizer("en")


def moses_tokens(sentence: str) -> str:
    """A sentence -> its tokens, joined by one space: `It's late.` -> `It 's late .`."""
    return str(_moses().tokenize(sentence, escape=False, return_str=True))


def _tokenised(text: str, recipe: str) -> str:
    """The text of an official file -> SentEval's; `recipe` is sts, stsb or sick (its first line is
    a header).
    """
    lines = []
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        if recipe == "sick":
            line = line.rstrip("\r")
        cells = line.split("\t")
        if recipe == "sts":  # STS16 gives sources and authors after the two sentences
            cells = [moses_tokens(cell).lower() for cell in cells[:2]]
        elif recipe == "stsb":  # some lines say where they come from after the two sentences
            cells[5:] = [moses_tokens(cell).lower() for cell in cells[5:7]]
        elif number > 0:
            cells[1:3] = map(moses_tokens, cells[1:3])
        lines.append("\t".join(cells) + "\n")
    return "".join(lines)
