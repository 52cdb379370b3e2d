"""Every snippet of the README and of the site is run, or a comment before it says why it is not.

There are small stand-ins for the names that the pages use: texts, pairs, models. After a comment
"not run by the tests: …", a block is not run, but the options of its commands are still checked.
"""

import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer.main

from helpers.paths import ROOT
from helpers.words import sentences
from isotrope.cli.main import app
from isotrope.encoder import load
from isotrope.encoder.locate import SHIPPED, ShippedModel

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "results" not in page.parts and page.name != "log.md"]
BLOCK = re.compile(r'^```(\w*)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
REASON = re.compile(r"<!-- not run by the tests: \w+")
MODELS = ["MODEL", "OTHER-MODEL", "OLD-MODEL", "YOUR-MODEL", "bert-base-uncased"]
PROMPTED = "Qwen/Qwen3-Embedding-0.6B"
SHELL = ("", "bash", "sh")
TEXTS = ["notes.txt", "text.txt", "corpus.txt", "YOUR-TEXT.txt"]


@dataclass(frozen=True)
class Snippet:
    language: str
    title: str
    text: str
    excused: bool


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found = []
    for block in BLOCK.finditer(text):
        before = text[: block.start()].rstrip().rpartition("\n\n")[2]  # the paragraph before it
        excused = bool(REASON.search(before))
        found.append(Snippet(block[1], block[2] or "", block[3], excused))
    return found


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell block, without comments."""
    for line in text.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


@pytest.fixture(scope="module")
def stand_ins(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, pairs_file: Path) -> Path:
    """A folder with what the pages speak of."""
    place = tmp_path_factory.mktemp("snippets")
    model = load(tiny_model, "mean")
    for name in (*MODELS, "run/model", "small"):
        model.save_pretrained(str(place / name))
    model.prompts = {"query": "Query:", "document": "Passage:"}
    model.save_pretrained(str(place / PROMPTED))
    texts = sentences(200)
    for name in TEXTS:
        (place / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    for name in ("pairs.tsv", "my_pairs.tsv", "YOUR-PAIRS.tsv"):
        shutil.copy(pairs_file, place / name)
    rows = [f"{text},{i % 3}" for i, text in enumerate(texts)]
    (place / "my_labelled_texts.csv").write_text(
        "\n".join(["text,label", *rows]) + "\n", encoding="utf-8"
    )
    return place


@pytest.fixture
def workplace(tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it to work in; the shipped models are small ones."""
    place = tmp_path / "place"
    shutil.copytree(stand_ins, place)
    for name in SHIPPED:
        monkeypatch.setitem(SHIPPED, name, ShippedModel("isotrope", str(stand_ins / "small")))
    # two processes for each student; test_measures has one
    monkeypatch.setattr("isotrope.compression.cost.peak_memory", lambda *_: 10**6)
    # test_journeys waits for one
    monkeypatch.setattr("isotrope.cli.show.draw_report", lambda folder: None)
    monkeypatch.chdir(place)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    return place


def expanded(words: list[str], place: Path) -> list[str]:
    return [
        found
        for word in words
        for found in (sorted(map(str, place.glob(word))) if "*" in word else [word])
    ]


def run(words: list[str], place: Path) -> None:
    if words[0] == "export":
        return
    assert words[0] == "isotrope", (
        f"{words} is no command of isotrope: say why it is not run by the tests"
    )
    app(expanded(words[1:], place), prog_name="isotrope", standalone_mode=False)


def check_options(words: list[str]) -> None:
    """A command that is not run: its options exist."""
    words = words[words.index("isotrope") :] if "isotrope" in words else []
    if not words:
        return
    command = typer.main.get_command(app)
    name, *rest = words[1:]
    while hasattr(command, "commands"):
        command = command.commands[name]
        if hasattr(command, "commands"):
            name, *rest = rest
    command.make_context(name, list(rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, request: pytest.FixtureRequest) -> None:
    found = [one for one in snippets(page) if one.language not in ("math", "text")]
    if not found:
        return
    assert {one.language for one in found} <= {"python", "toml", *SHELL}
    place: Path = request.getfixturevalue("workplace")
    if any(
        "--output run" in " ".join(words)
        for one in found
        if one.language in SHELL
        for words in commands(one.text)
    ):
        shutil.rmtree(place / "run")  # the page makes it
    for one in found:
        if one.title:  # a file, which a later snippet uses
            (place / one.title).write_text(one.text, encoding="utf-8")
        elif one.language == "python" and not one.excused:
            exec(compile(one.text, str(page), "exec"), {"__name__": "snippet"})
        elif one.language == "toml":
            tomllib.loads(one.text)
        elif one.language in SHELL:
            for words in commands(one.text):
                check_options(words) if one.excused else run(words, place)


def test_a_block_without_a_reason_would_be_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- not run by the tests: it takes days -->\n\n```\na b \\\n  c  # d\n```\n\n```\ne\n```\n",
        encoding="utf-8",
    )
    first, second = snippets(page)
    assert (first.excused, second.excused) == (True, False)
    assert list(commands(first.text)) == [["a", "b", "c"]]
