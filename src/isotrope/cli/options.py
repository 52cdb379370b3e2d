"""A command's options, made from the signature and the docstring of the function that it runs.

The function's file is parsed, not imported, so that ``--help`` does not wait for torch. A
positional parameter becomes an argument, any other an option. What `VOCABULARY` does not say of a
word, the function's docstring does.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from isotrope.console.plain import plain_console
from isotrope.console.processes import process_number
from isotrope.console.progress import watch
from isotrope.console.threads import limit_threads
from isotrope.errors import UserError

PACKAGE = Path(__file__).resolve().parent.parent
TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float}
MANY = re.compile(r"\b(Sequence|Iterable|Mapping|list)\[")
NOTHING = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Word:
    """A parameter as the command line shows it.

    Attributes:
        help: one sentence or two; "": the function's docstring says it.
        option: its name, if it is not the parameter's own.
        many: it may be given several times; None: if the parameter takes several.
        required: it must be given, although the function can do without.
        variable: of the environment.
        read: makes the value of what was given.
    """

    help: str = ""
    option: str = ""
    many: bool | None = None
    required: bool = False
    low: float | None = None
    high: float | None = None
    variable: str | None = None
    read: Callable[[Any], Any] | None = None


def sources(given: list[str]) -> Any:
    """Files, folders and URLs, none of which is a text."""
    from isotrope.text import TextPath

    return [TextPath(name) for name in given]


def named(option: str, given: Iterable[str], form: str, remedy: str) -> Iterator[tuple[str, str]]:
    """The names and values of an option that is given as NAME=VALUE."""
    for text in given:
        name, sign, value = text.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise UserError(f"{option} {text}: not of the form {form}", remedy)
        yield name.strip(), value


VOCABULARY = {  # of all commands
    "model": Word("Folder, hub name, isotrope/small or isotrope/tiny."),
    "documents": Word(
        "Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.",
        many=True,
        read=sources,
    ),
    "output": Word("Folder for the result and the work.", required=True),
    "preset": Word("Method: a name from `isotrope presets list`, or a .toml file."),
    "overrides": Word(
        "key=value: change a setting of the preset; again for more.", "set", many=True
    ),
    "dev": Word(
        "What chooses the checkpoint: a .tsv or .csv file of pairs, stsb, sickr, transfer-dev (slow), none; default: "
        "the preset's if the data folder is known, else none; again for more.",
        many=True,
    ),
    "data": Word("The data folder; it holds senteval/.", variable="ISOTROPE_DATA"),
    "seed": Word("Seed of all random numbers.", low=0, high=2**31 - 1),
    "labels": Word(
        "Labels of your own, which judge: a file of graded pairs (first, second, score), questions (question, answer), "
        "triples (anchor, positive, negative) or texts (text, label), or a folder with queries and qrels; "
        "also sts, stsb or none where a model is trained, and stsb or sickr in whiten."
    ),
    "columns": Word(
        "Of the labels' table: its columns, in this order: question,answer.", many=False
    ),
    "sentences": Word("Use a random sample of so many texts; default: all.", low=2),
    "max_texts": Word("Use a random sample of so many texts; default: all.", low=2),
    "text_column": Word("In tables: the column of the texts; default: the only one, or text."),
    "title_column": Word("In tables: the column of the titles; default: title, if any."),
    "text": Word("In tables: the column of the texts; default: the only one, or text."),
    "title": Word("In tables: the column of the titles; default: title, if any."),
    "split": Word("sentences: each sentence of a text by itself; sentences:de for German."),
    "pooling": Word(
        "How token vectors become one: cls, mean, first_last, …; default: the model's."
    ),
    "prompt": Word("Words before every text, such as 'query: '; default: the model's prompt."),
    "prompt_name": Word("One of the model's own prompts, by its name."),
    "query_prompt": Word("Words before queries; default: the model's prompt for them."),
    "document_prompt": Word("Words before documents; default: the model's prompt for them."),
    "workers": Word("How many work at the same time; the result is the same.", low=1),
    "restart": Word("Forget what is there, and begin anew. Without it, the same command goes on."),
    "exponent": Word("From 0 (centring alone) to 0.5 (full whitening); default: 0.25."),
    "k": Word("How many dimensions to keep; default: all.", low=1),
    "minutes": Word("Time for the whole command.", low=0.1),
}


def command(
    target: str = "",
    *,
    hidden: tuple[str, ...] = (),
    light: bool = False,
    several: bool = False,
    **words: Word,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate what shows the result of a function, or a function that does all itself.

    Args:
        target: the function, ``module:name``; "": the decorated one. Its console, if it takes one,
            is standard error.
        hidden: parameters that are no options.
        light: it needs neither torch nor threads.
        several: it may run in several processes, and knows which of them speaks.
        words: parameters that mean something else here than in all commands.
    """

    def wrap(show: Callable[..., None]) -> Callable[..., None]:
        source = target or f"{show.__module__}:{show.__name__}"
        head, described = docstring(source)
        meant, given_by = {**VOCABULARY, **words}, {one[0]: one for one in signature(source)}
        shown = [
            _option(*one, meant.get(name, Word()), described.get(name))
            for name, one in given_by.items()
            if name not in (*hidden, "console")
        ]
        told = "console" in given_by and not several
        readers = {name: word.read for name, word in meant.items() if word.read}

        def run(**given: Any) -> None:
            function = show if light else _loaded(target, show, several)
            given = {
                name: value for name, value in given.items() if value is not None and value != []
            }
            given |= {name: read(given[name]) for name, read in readers.items() if name in given}
            try:
                found = function(
                    **given, **({"console": plain_console(stderr=True)} if told else {})
                )
                if target:
                    show(found)
            except EOFError as error:  # typer would take it for Ctrl-D
                why = " ".join(str(error).split()) or "the file ends too early"
                raise UserError(
                    f"a file is empty or cut short ({why})", "make or fetch it again"
                ) from error

        run.__name__, run.__doc__ = (
            show.__name__,
            (inspect.getdoc(show) if target else None) or head,
        )
        run.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        return run

    return wrap


def _loaded(target: str, show: Callable[..., None], several: bool) -> Callable[..., Any]:
    """The function of a command that computes: with its libraries, which take seconds, and a limit
    on the threads.
    """
    with watch(
        "loading the libraries",
        plain_console(stderr=True, quiet=process_number() > 0),
    ):
        module, _, name = (target or "sentence_transformers").partition(":")
        function = getattr(import_module(module), name, show)
        limit_threads()
    if not several:
        import_module("isotrope.training.processes").refuse_several(show.__name__)
    return function


def signature(target: str) -> list[tuple[str, str, Any, bool]]:
    """Of each parameter of a function, ``module:name``: name, annotation, default, whether it is
    positional.
    """
    arguments = _definition(target).args  # type: ignore[union-attr]
    first = [*arguments.posonlyargs, *arguments.args]
    defaults = [
        *[None] * (len(first) - len(arguments.defaults)),
        *arguments.defaults,
        *arguments.kw_defaults,
    ]
    return [
        (
            one.arg,
            ast.unparse(one.annotation or ast.Constant("")),
            _value(value),
            one in first and one.arg != "output",
        )
        for one, value in zip([*first, *arguments.kwonlyargs], defaults, strict=True)
    ]


@cache
def docstring(target: str) -> tuple[str, dict[str, str]]:
    """The docstring of a function or class before its sections, and what it says of each parameter."""
    text = ast.get_docstring(_definition(target)) or ""
    section = re.search(r"^(?:Args|Attributes):\n(.*?)(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
    found: dict[str, str] = {}
    for names, said in re.findall(
        r"^    ([\w, ]+): (.*?)(?=^    \w|\Z)", section[1] if section else "", re.M | re.S
    ):
        words = " ".join(said.split())
        found |= dict.fromkeys(names.split(", "), (words[0].upper() + words[1:]).replace("`", ""))
    return re.split(r"^(?:Args|Attributes|Raises|Returns):", text, flags=re.MULTILINE)[
        0
    ].strip(), found


def _option(
    name: str, annotation: str, default: Any, first: bool, word: Word, said: str | None
) -> inspect.Parameter:
    """A parameter as typer takes it."""
    many = bool(MANY.search(annotation)) if word.many is None else word.many
    kind: Any = list[str] if many else TYPES.get(annotation.removesuffix(" | None"), str)
    about: dict[str, Any] = {"help": word.help or said, "envvar": word.variable}
    if kind in (int, float):
        about |= {"min": word.low, "max": word.high}
    default = None if default == () else default
    default = NOTHING if word.required and default is None else default
    # typer has a --no- for True
    flags = () if default is True else (f"--{(word.option or name).replace('_', '-')}",)
    given = typer.Argument(**about) if first else typer.Option(*flags, **about)
    wanted: Any = Annotated[Optional[kind] if default is None else kind, given]  # noqa: UP045
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=wanted
    )


@cache
def _definition(target: str) -> ast.FunctionDef | ast.ClassDef:
    module, _, name = target.partition(":")
    file = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    named = [
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
    ]
    return named[-1]  # behind its overloads


def _value(node: ast.expr | None) -> Any:
    """A default, if it is written there; None if it is a name, whose value the docstring says."""
    try:
        return NOTHING if node is None else ast.literal_eval(node)
    except ValueError:
        return None
