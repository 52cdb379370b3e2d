"""``isotrope study``: many runs, one table, and what it shows."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from isotrope.cli.call import load_function
from isotrope.cli.options import command, named_values
from isotrope.cli.show import console
from isotrope.errors import UserError, check_known

if TYPE_CHECKING:
    from isotrope.study.study import Study

VERIFY = "verify"
# what the command does -> the options that have no effect then
IDLE = {
    VERIFY: ("seeds", "rows", "search", "plan", "gpu"),
    "plan": ("cell", "seed", "search", "restart"),
    "search": ("cell", "seed", "gpu", "seeds", "labels"),
    "run": ("cell", "seed", "gpu"),
}
# what the command reads itself; everything else is for `isotrope.study.study`
OF_THE_COMMAND = ("file", "name", "search", "plan", "gpu", "cell", "seed")


@command
def study(
    file: str,
    name: str = "",
    *,
    output: str,
    documents: list[str] | None = None,
    data: str | None = None,
    model: str | None = None,
    vectors: str | None = None,
    row_documents: list[str] | None = None,
    sentences: int | None = None,
    seeds: int | None = None,
    dev: list[str] | None = None,
    labels: str | None = None,
    rows: list[str] | None = None,
    overrides: list[str] | None = None,
    tuned: str | None = None,
    workers: int = 1,
    restart: bool = False,
    keep_duplicates: bool = False,
    search: bool = False,
    plan: bool = False,
    gpu: str = "",
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
        output: Folder for the runs, the table and the figures.
        documents: File or folder of text, instead of the study's; again for more.
        model: Model to begin with, in every row.
        vectors: File of word vectors (GloVe, word2vec), for rows with vectors = true.
        row_documents: NAME=FILE: text for the rows with documents = NAME; again for more.
        sentences: Texts of each run; default: the study's.
        seeds: Seeds of each row: 0, 1, 2, …; default: the study's.
        labels: Labelled pairs that judge: sts, stsb, stsb-dev, dev-half, none.
        rows: Only this row; again for more.
        overrides: key=value: change a setting, in every row that has the key; again for more.
        tuned: A search.toml, made by --search: use its best settings, also for tuned teachers.
        workers: How many work at the same time; the result is the same.
        keep_duplicates: Train on every text, also on one that occurred before.
        plan: Run nothing: show cells, what is missing, hours, memory and disk, about.
        gpu: Of --plan: a GPU that was measured (h200); default: this machine is measured.
        search: Search for the best values of the keys in [search], on the dev pairs.
        cell: Of verify: which one, as the log calls it; default: one is drawn by the seed.
        seed: Of verify: the seed that draws the cell.
    """
    given = dict(locals())
    task = _task(file, name, search=search, plan=plan)
    for option in IDLE[task]:
        _refuse_idle(option, given[option])
    run_study = load_function("isotrope.study.study:study")
    study_file = name or file
    options = _options(given)
    if task == VERIFY:
        _verify(study_file, cell, seed, options)
    elif task == "plan":
        _plan(study_file, gpu, options)
    elif task == "search":
        _search(study_file, options)
    else:
        _show(run_study(study_file, **options))


def _task(file: str, name: str, *, search: bool, plan: bool) -> str:
    """What the command is to do: a key of `IDLE`."""
    if name:
        check_known("before the name of a study, the word", file, [VERIFY])
        return VERIFY
    if plan:
        return "plan"
    return "search" if search else "run"


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `isotrope.study.study`, from those of the command."""
    return {
        **{name: value for name, value in given.items() if name not in OF_THE_COMMAND},
        "row_documents": _files(given["row_documents"]),
        "rows": given["rows"] or (),
        "overrides": given["overrides"] or (),
        "console": console,
    }


def _search(file: str, options: Mapping[str, Any]) -> None:
    """Search for the best settings, and say where they are."""
    from isotrope.study.search import search_settings

    console.print(f"best settings of each row: {search_settings(file, **options)}")


def _verify(file: str, cell: str, seed: int, options: Mapping[str, Any]) -> None:
    """Run one recorded cell again, and end with exit code 1 if it gives another result."""
    from isotrope.study.verify import verify

    verification = verify(file, cell=cell, seed=seed, **options)
    console.print(str(verification))
    sys.exit(1 if verification.beyond else 0)


def _plan(file: str, gpu: str, options: Mapping[str, Any]) -> None:
    """Print about what a study needs."""
    from isotrope.report.tables import print_table
    from isotrope.study.cost import study_cost
    from isotrope.study.study import plan_study

    print_table(study_cost(plan_study(file, **options), gpu), console)


def _show(study: "Study") -> None:
    """Print the page of a study, and refuse one whose cells are not all finished."""
    if console.is_terminal:
        from rich.markdown import Markdown

        console.print(Markdown(study.pages[0].read_text(encoding="utf-8")))
    for page in study.pages:
        console.print(f"written to {page}")
    if study.failed:
        problem = f"{len(study.failed)} of {study.record.scale.cells} cells are not finished"
        remedy = f"see {study.pages[0]}; when that is fixed, the same command runs them"
        raise UserError(problem, remedy, code="unfinished-cells")


def _refuse_idle(option: str, value: object) -> None:
    """Refuse an option that has no effect here."""
    if value:
        remedy = "leave it out: see isotrope study --help"
        raise UserError(f"--{option} has no effect here", remedy, code="idle-option")


def _files(words: Sequence[str] | None) -> dict[str, str] | None:
    """``nli=nli.txt`` -> {nli: nli.txt}."""
    files: dict[str, str] = {}
    for name, file in named_values("--row-documents", words, "NAME=FILE", "nli=nli.txt"):
        if name in files:
            problem = f"--row-documents {name} is named twice"
            raise UserError(problem, "name one file or folder", code="named-twice")
        files[name] = file
    return files or None
