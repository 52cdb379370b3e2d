"""The words of all commands: what an option of this name means, wherever it occurs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isotrope.errors import UserError
from isotrope.store.remote import is_url


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


def sources(given: list[str]) -> list[str | Path] | str:
    """Files, folders and URLs, none of which is a text."""
    return given[0] if len(given) == 1 else [one if is_url(one) or not one else Path(one) for one in given]


def named(option: str, given: Iterable[str], form: str, remedy: str) -> Iterator[tuple[str, str]]:
    """The names and values of an option that is given as NAME=VALUE."""
    for text in given:
        name, sign, value = text.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise UserError(f"{option} {text}: not of the form {form}", remedy)
        yield name.strip(), value


VOCABULARY = {
    "model": Word("Folder, hub name, isotrope/small or isotrope/tiny."),
    "documents": Word(
        "Files, folders or URLs of .txt, .md, .html, .jsonl, .csv, .tsv, .parquet.", many=True, read=sources
    ),
    "output": Word("Folder for the result and the work.", required=True),
    "preset": Word("Method: a name from `isotrope presets list`, or a .toml file."),
    "overrides": Word("key=value: change a setting of the preset; again for more.", "set", many=True),
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
    "columns": Word("Of the labels' table: its columns, in this order: question,answer.", many=False),
    "sentences": Word("Use a random sample of so many texts; default: all.", low=2),
    "text": Word("In tables: the column of the texts; default: the only one, or text."),
    "title": Word("In tables: the column of the titles; default: title, if any."),
    "split": Word("sentences: each sentence of a text by itself; sentences:de for German."),
    "pooling": Word("How token vectors become one: cls, mean, first_last, …; default: the model's."),
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
OLD = {  # words of earlier versions and of other tools -> those of here
    "--backbone": "--model", "--base": "--model", "--model-name": "--model", "--corpus": "the documents as arguments",
    "--documents": "the documents as arguments", "--domain": "--labels", "--test": "--labels", "--pairs": "--labels",
    "--texts": "--labels", "--resume": "unnecessary, since the same command goes on (--restart begins anew)",
    "--jobs": "--workers", "--num-workers": "--workers", "--processes": "torchrun (see Training)", "--column": "--text",
    "--lr": "--set train.learning_rate=RATE", "--learning-rate": "--set train.learning_rate=RATE",
    "--epochs": "--set train.epochs=NUMBER", "--batch-size": "--set train.batch_size=NUMBER",
    "--temperature": "--set terms.infonce.temperature=NUMBER", "--max-length": "--set train.max_length=NUMBER",
    "--out": "--output", "--output-dir": "--output", "--output_dir": "--output",
}  # fmt: skip
