"""``isotrope data prepare``: the official files of STS and SICK in, SentEval's out, each verified.

Moses' English tokenizer without escaping, then lower case (SICK keeps its case), is what SentEval's
script does to the files of the organisers. Source: Koehn et al., ACL 2007,
https://aclanthology.org/P07-2045; sacremoses does the work.
"""

from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from isotrope.benchmark_data.sources import File, choose, existing_folder, fault
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

    Without ``names`` every source whose official files are there is prepared. What is there already
    and right is left. The folders prepared are returned.

    Raises:
        UserError: nothing to prepare, an official file that is missing or not the official one, a
            full disk.
    """
    folder, target, names = existing_folder(data), Path(output or data).expanduser(), list(names)
    chosen = [
        one for one in choose(names) if one.recipe and (names or (folder / one.folder).is_dir())
    ]
    if not chosen:
        problem = f"{folder} holds no official files to prepare (sts-raw, stsb-raw, sick-raw)"
        raise UserError(
            problem, "run isotrope data fetch --only sts first; the other sets need no preparation"
        )
    made = []
    for source in chosen:
        official, destination = folder / source.folder, target / str(source.prepared_folder)
        # all of them before any is written: half a task is worse than none
        for file in source.files:
            if (wrong := fault(official / file.name, file)) and not file.document:
                problem = f"{official / file.name}: {wrong[0]} ({wrong[1]})"
                raise UserError(problem, f"run isotrope data fetch --only {source.name}")
        with writing(destination, "run isotrope data prepare again"):
            for file in source.prepared:
                origin = next(one for one in source.files if one.name == (file.at or file.name))
                if (official / origin.name).exists() and fault(destination / file.name, file):
                    # scores stay as they are
                    recipe = None if origin.sha256 == file.sha256 else source.recipe
                    _make(official / origin.name, destination / file.name, file, recipe)
        say(f"{source.name}: {source.rows} in {destination}")
        made.append(destination)
    return made


def _make(official: Path, prepared: Path, file: File, recipe: str | None) -> None:
    content = official.read_bytes()
    with new_file(prepared) as out:
        out.write(
            _tokenised(content.decode("utf-8"), recipe).encode("utf-8") if recipe else content
        )
        out.flush()
        if wrong := fault(Path(out.name), file):
            problem = f"{prepared} came out {wrong[0]} ({wrong[1]})"
            raise UserError(problem, "install the version of sacremoses that constraints.txt names")


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
    made = []
    for number, line in enumerate(text.removesuffix("\n").split("\n")):
        cells = (line.rstrip("\r") if recipe == "sick" else line).split("\t")
        if recipe == "sts":  # STS16 gives sources and authors after the two sentences
            cells = [moses_tokens(cell).lower() for cell in cells[:2]]
        elif recipe == "stsb":  # some lines say where they come from after the two sentences
            cells = [*cells[:5], *(moses_tokens(cell).lower() for cell in cells[5:7])]
        elif number > 0:
            cells[1:3] = map(moses_tokens, cells[1:3])
        made.append("\t".join(cells) + "\n")
    return "".join(made)
