"""A command's options, made from its signature and its docstring.

A parameter that may be given by position becomes an argument, a keyword-only one an option. Its
help is in the docstring of the command, below ``Args:``, or in `WORDS` if several commands have it.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotrope.errors import UserError

if TYPE_CHECKING:
    from isotrope.text import TextPath

WORDS = {
    "model": "Folder, hub name, isotrope/small or isotrope/tiny.",
    "models": "Folders, hub names, isotrope/small, MODEL@cls, MODEL+whitening:k=256, or a file of "
    "word vectors.",
    "documents": "Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.",
    "output": "Folder for the result and the work.",
    "preset": "Method: a name from `isotrope presets list`, or a .toml file.",
    "overrides": "key=value: change a setting of the preset; again for more.",
    "dev": "What chooses the checkpoint: a .tsv or .csv file of pairs, stsb, sickr, transfer-dev "
    "(slow), none; default: the preset's if the data folder is known, else none; again for more.",
    "data": "The data folder; it holds senteval/.",
    "folder": "The data folder.",
    "seed": "Seed of all random numbers.",
    "labels": "Labels of your own, which judge: a file of graded pairs (first, second, score), "
    "questions (question, answer), triples (anchor, positive, negative) or texts (text, label), or "
    "a folder with queries and qrels; also sts, stsb or none where a model is trained, and stsb or "
    "sickr in whiten.",
    "columns": "Of the labels' table: its columns, in this order: question,answer.",
    "sentences": "Use a random sample of so many texts; default: all.",
    "text": "In tables: the column of the texts; default: the only one, or text.",
    "max_texts": "Use a random sample of so many texts; default: all.",
    "text_column": "In tables: the column of the texts; default: the only one, or text.",
    "title_column": "In tables: the column of the titles; default: title, if any.",
    "split": "sentences: each sentence of a text by itself; sentences:de for German.",
    "pooling": "How token vectors become one: cls, mean, first_last, …; default: the model's.",
    "prompt": "Words before every text, such as 'query: '; default: the model's prompt.",
    "prompt_name": "One of the model's own prompts, by its name.",
    "query_prompt": "Words before queries; default: the model's prompt for them.",
    "document_prompt": "Words before documents; default: the model's prompt for them.",
    "restart": "Forget what is there, and begin anew. Without it, the same command goes on.",
    "json_file": "Write all results to this .json file.",
    "only": "Data sets or groups (sts, transfer, …), several with commas.",
    "name": "A name from `isotrope presets list`, or a .toml file.",
}
# The name of an option, if it is not that of its parameter.
OPTION_NAMES = {
    "overrides": "set",
    "other_models": "other-model",
    "teachers": "teacher",
    "negatives": "negative",
    "json_file": "json",
}
LIMITS: dict[str, dict[str, float]] = {
    "seed": {"min": 0, "max": 2**31 - 1},
    "minutes": {"min": 0.1},
    "hybrid": {"min": 0, "max": 1},
    "held_out": {"min": 0},
    "sentences": {"min": 2},
    "max_texts": {"min": 2},
}
LIMITS |= {name: {"min": 1} for name in ("k", "workers", "threads", "seeds", "top", "batch_size")}
VARIABLES = {"data": "ISOTROPE_DATA", "folder": "ISOTROPE_DATA"}


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a function of plain types the signature that typer needs, and one line for a file that
    ends too early.
    """
    summary, described = _docstring(function)
    parameters = [
        _typer_parameter(parameter, described.get(parameter.name) or WORDS[parameter.name])
        for parameter in inspect.signature(function).parameters.values()
    ]

    def run(**options: Any) -> None:
        try:
            function(**options)
        except EOFError as error:  # typer would take it for Ctrl-D
            why = " ".join(str(error).split()) or "the file ends too early"
            problem = f"a file is empty or cut short ({why})"
            raise UserError(problem, "make or fetch it again", code="damaged-file") from error

    run.__name__ = function.__name__
    run.__doc__ = summary
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _docstring(function: Callable[..., None]) -> tuple[str, dict[str, str]]:
    """A docstring before its ``Args:``, and what it says of each parameter."""
    summary, _, arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", arguments, re.MULTILINE)
    return summary.strip(), {name: " ".join(text.split()) for name, text in entries}


def _typer_parameter(parameter: inspect.Parameter, text: str) -> inspect.Parameter:
    """A parameter as typer takes it."""
    name = parameter.name
    settings: dict[str, Any] = {"help": text, "envvar": VARIABLES.get(name), **LIMITS.get(name, {})}
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        flag = f"--{OPTION_NAMES.get(name, name).replace('_', '-')}"
        # Without a flag, typer adds --no-… for what is on by default.
        flags = [] if parameter.default is True else [flag]
        declared = typer.Option(*flags, **settings)
    else:
        declared = typer.Argument(**settings)
    kind: Any = parameter.annotation
    annotation: Any = Annotated[kind, declared]
    return parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)


def text_sources(words: list[str]) -> "list[TextPath]":
    """Files, folders and URLs that were given as documents: none of the words is a text."""
    from isotrope.text import TextPath

    return [TextPath(word) for word in words]


def named_values(
    option: str, words: Iterable[str] | None, form: str, example: str
) -> Iterator[tuple[str, str]]:
    """The names and values of an option that is given as NAME=VALUE, several times.

    Raises:
        UserError: a word is not of this form.
    """
    for word in words or ():
        name, sign, value = word.partition("=")
        if not (name.strip() and sign and value.strip()):
            problem = f"{option} {word}: not of the form {form}"
            raise UserError(
                problem, f"write, for example, {option} {example}", code="not-name-value"
            )
        yield name.strip(), value
