"""``isotrope study``: many runs, one table, and what it shows."""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from isotrope.cli.options import Word, command, named
from isotrope.console.plain import plain_console
from isotrope.errors import UserError, check_known

console = plain_console()


def _sweeps(given: list[str]) -> dict[str, list[Any]]:
    """``key=0.8,0.9`` -> {key: [0.8, 0.9]}; values that are not TOML are names."""
    found: dict[str, list[Any]] = {}
    for key, values in named(
        "--sweep", given, "key=value,value", "write, for example, train.epochs=1,2"
    ):
        try:
            found[key] = tomllib.loads(f"values = [{values}]")["values"]
        except tomllib.TOMLDecodeError:
            found[key] = [value.strip() for value in values.split(",")]
    return found


def _files(given: list[str]) -> dict[str, str]:
    """``nli=nli.txt`` -> {nli: nli.txt}."""
    found: dict[str, str] = {}
    for name, file in named(
        "--row-documents", given, "NAME=FILE", "write, for example, nli=nli.txt"
    ):
        if name in found:
            raise UserError(f"--row-documents {name} is named twice", "name one file or folder")
        found[name] = file
    return found


@command(
    overrides=Word(
        "key=value: change a setting, in every row that has the key; again for more.",
        "set",
        many=True,
    ),
    sentences=Word("Texts of each run; default: the study's.", low=2),
    output=Word("Folder for the runs, the table and the figures.", required=True),
    documents=Word("File or folder of text, instead of the study's; again for more."),
    model=Word("Model to begin with, in every row."),
    labels=Word("Labelled pairs that judge: sts, stsb, stsb-dev, dev-half, none."),
    seeds=Word("Seeds of each row: 0, 1, 2, …; default: the study's.", low=1),
    sweep=Word("key=value,value: every row with each value.", read=_sweeps),
    row_documents=Word(
        "NAME=FILE: text for the rows with documents = NAME; again for more.", read=_files
    ),
    threads=Word("Processor threads for each run.", low=1),
    seed=Word("Of verify: the seed that draws the cell.", low=0),
)
def study(
    file: str,
    name: str = "",
    *,
    output: str,
    documents: Sequence[str] = (),
    data: str | None = None,
    model: str | None = None,
    vectors: str | None = None,
    row_documents: Mapping[str, str] | None = None,
    sentences: int | None = None,
    seeds: int | None = None,
    dev: Sequence[str] = (),
    labels: str | None = None,
    rows: Sequence[str] = (),
    overrides: Sequence[str] = (),
    sweep: Mapping[str, Sequence[Any]] | None = None,
    tuned: str | None = None,
    workers: int = 1,
    threads: int | None = None,
    restart: bool = False,
    search: bool = False,
    cell: str = "",
    seed: int = 0,
) -> None:
    """Compare methods over several seeds.

    It runs what is left of the study. Then it writes the table, the tests, and the answers to the
    papers' claims. "isotrope study verify NAME" runs one recorded cell again: exit code 0 if it
    gives its record, else 1.

    Args:
        file: A .toml file, or the name of a study that comes with isotrope; or the word verify.
        name: After verify: the study.
        vectors: File of word vectors (GloVe, word2vec), for rows with vectors = true.
        rows: Only this row; several with commas, or again.
        tuned: A search.toml, made by --search: use its best settings, also for tuned teachers.
        search: Search for the best values of the keys in [search], on the dev pairs.
        cell: Of verify: which one, as the log calls it; default: one is drawn by the seed.
    """
    from isotrope.study.study import Options
    from isotrope.study.study import study as run

    if name:
        check_known("before the name of a study, the word", file, ["verify"])
        file = name
    options = Options(
        output=output,
        documents=documents,
        data=data,
        model=model,
        vectors=vectors,
        sentences=sentences,
        dev=dev,
        rows=_rows(file, rows, vectors=vectors, row_documents=row_documents),
        overrides=overrides,
        workers=workers,
        threads=threads,
        restart=restart,
        console=console,
        seeds=seeds,
        labels=labels,
        sweep=sweep,
        tuned=tuned,
        row_documents=row_documents,
    )
    idle: dict[str, Any] = (
        {"--seeds": seeds, "--labels": labels, "--sweep": sweep} if search else {}
    )
    idle |= (
        {"--seeds": seeds, "--rows": rows, "--search": search}
        if name
        else {"--cell": cell, "--seed": seed}
    )
    for option, value in idle.items():
        if value:
            raise UserError(
                f"{option} has no effect here", "leave it out: see isotrope study --help"
            )
    if name:
        from isotrope.study.verify import verify

        found = verify(file, cell=cell, seed=seed, **options)
        console.print(str(found))
        sys.exit(1 if found.beyond else 0)
    if search:
        from isotrope.study.study import search_settings

        console.print(f"best settings of each row: {search_settings(file, **options)}")
        return
    done = run(file, **options)
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(done.pages[0].read_text(encoding="utf-8")))
    for page in done.pages:
        console.print(f"written to {page}")
    if done.failed:
        problem = f"{len(done.failed)} of {done.record['scale']['cells']} cells are not finished"
        raise UserError(
            problem, f"see {done.pages[0]}; when that is fixed, the same command runs them"
        )


def _rows(file: str, given: Sequence[str], **files: Any) -> list[str]:
    """The names given, whole where the study has such a row, else separated by commas."""
    from isotrope.study.rows import expand_rows
    from isotrope.study.spec import read_study

    if not given:
        return []
    spec = read_study(file, files)
    known = {
        name for entry in expand_rows(spec).values() for name in (entry.label, entry.base)
    } | spec.reference.keys()
    return [
        name.strip() for text in given for name in ([text] if text in known else text.split(","))
    ]
