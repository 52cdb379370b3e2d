"""``isotrope data prepare``: the official files of STS and SICK in, SentEval's out, each verified.

Moses' English tokenizer without escaping, then lower case (SICK keeps its case), is what SentEval's script does to the
files of the organisers. Source: Koehn et al., ACL 2007, https://aclanthology.org/P07-2045; sacremoses does the work.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from isotrope.datasets.checking import fault
from isotrope.datasets.sources import DataSource, File, choose
from isotrope.errors import UserError, needs
from isotrope.store.atomic import new_file
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
    folder, target, names = Path(data).expanduser(), Path(output or data).expanduser(), list(names)
    if not folder.is_dir():
        raise UserError(f"the data folder {folder} does not exist", "run isotrope data fetch first, or check the path")
    chosen = [one for one in choose(names) if one.recipe and (names or (folder / one.folder).is_dir())]
    if not chosen:
        problem = f"{folder} holds no official files to prepare (sts-raw, stsb-raw, sick-raw)"
        raise UserError(problem, "run isotrope data fetch --only sts first; the other sets need no preparation")
    made = []
    for source in chosen:
        official = folder / source.folder
        for file in source.files:  # all of them before any is written: half a task is worse than none
            if (wrong := fault(official / file.name, file)) and not file.document:
                problem = f"{official / file.name}: {wrong[0]} ({wrong[1]})"
                raise UserError(problem, f"run isotrope data fetch --only {source.name}")
        destination = target / str(source.prepared_folder)
        with writing(destination, "run isotrope data prepare again"):
            for file in source.prepared:
                if not file.document or (official / file.name).exists():
                    _make(official, destination, source, file)
        say(f"{source.name}: {source.rows} in {destination}")
        made.append(destination)
    return made


def _make(folder: Path, destination: Path, source: DataSource, file: File) -> None:
    if fault(destination / file.name, file) is None:
        return
    official = next(listed for listed in source.files if listed.name == (file.at or file.name))
    content = (folder / official.name).read_bytes()
    if official.sha256 != file.sha256:  # scores and licences stay as they are
        content = _tokenised(content.decode("utf-8"), str(source.recipe)).encode("utf-8")
    with new_file(destination / file.name) as out:
        out.write(content)
        out.flush()
        if wrong := fault(Path(out.name), file):
            problem = f"{destination / file.name} came out {wrong[0]} ({wrong[1]})"
            raise UserError(problem, "install the version of sacremoses that constraints.txt names")


@cache
def _moses() -> Any:
    return needs("data", "sacremoses").MosesTokenizer("en")


def moses_tokens(sentence: str, lower: bool = True) -> str:
    """A sentence -> its tokens, joined by one space: `It's late.` -> `it 's late .`."""
    tokens: str = _moses().tokenize(sentence, escape=False, return_str=True)
    return tokens.lower() if lower else tokens


def _sts(line: str) -> str:
    return "\t".join(moses_tokens(cell) for cell in line.split("\t")[:2])  # STS16 gives sources and authors after them


def _stsb(line: str) -> str:
    cells = line.split("\t")[:7]  # some lines say where they come from after that
    return "\t".join([*cells[:5], *map(moses_tokens, cells[5:])])


def _sick(line: str) -> str:
    cells = line.rstrip("\r").split("\t")
    return "\t".join([cells[0], *(moses_tokens(cell, lower=False) for cell in cells[1:3]), *cells[3:]])


_LINES: dict[str, Callable[[str], str]] = {"sts": _sts, "stsb": _stsb, "sick": _sick}


def _tokenised(text: str, recipe: str) -> str:
    """The text of an official file -> SentEval's; `recipe` is sts, stsb or sick (its first line is a header)."""
    lines = text.removesuffix("\n").split("\n")
    head = [lines.pop(0).rstrip("\r")] if recipe == "sick" else []
    return "".join(f"{line}\n" for line in (*head, *map(_LINES[recipe], lines)))
