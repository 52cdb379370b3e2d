"""``isotrope data`` at the command line: every mistake is one line."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Shell
from isotrope.datasets.sources import DataSource
from isotrope.evaluation.sets.senteval import SUBSETS, load_sts
from web import HOME, Web

Spoil = Callable[[Path], object]


def rewrite(change: Callable[[bytes], bytes]) -> Spoil:
    return lambda path: path.write_bytes(change(path.read_bytes()))


SPOILT: dict[str, tuple[Spoil, str]] = {
    "missing": (Path.unlink, "missing (not there)"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "unreadable (Is a directory)"),
    "empty": (rewrite(lambda _: b""), "empty (0 rows)"),
    "cut": (rewrite(lambda text: text[:1000]), "corrupt (… lines, 5000 expected)"),
    "a word": (
        rewrite(lambda text: text.replace(b"the", b"der", 1)), "changed (5000 lines as expected, but other text)"
    ),
    "Windows": (
        rewrite(lambda text: text.replace(b"\n", b"\r\n")), "converted (the right text with Windows line ends)"
    ),
    "swapped": (
        lambda path: path.write_bytes(path.with_name("subj.subjective").read_bytes()),
        "swapped (it is senteval/downstream/SUBJ/subj.subjective)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "expected"), SPOILT.values(), ids=SPOILT.keys())
def test_check_names_what_is_wrong(data: Path, tmp_path: Path, spoil: Spoil, expected: str, shell: Shell) -> None:
    folder = tmp_path / "senteval" / "downstream" / "SUBJ"
    shutil.copytree(data / "senteval" / "downstream" / "SUBJ", folder, copy_function=shutil.copyfile)
    command = ["data", "check", tmp_path, "--only", "SUBJ"]
    assert shell(*command) == (0, "SUBJ: right (10000 sentences)\n", "")
    spoil(folder / "subj.objective")
    said = shell(*command)
    kind, detail = expected.rstrip(")").split(" (")
    remedy = f"isotrope data fetch {tmp_path} --only SUBJ"
    known_note = "" if kind == "missing" else "; a corrupt SUBJ circulates, on which accuracies of 99.6 come out"
    said.is_mistake(f"SUBJ/subj.objective in {tmp_path} is {kind} ({detail}){known_note}: {remedy}")
    table = " ".join(said.out.split())
    assert f"SUBJ: wrong (10000 sentences){known_note}" in table
    assert re.search(rf"subj.objective {kind} .*{re.escape(remedy)}", table), table


UNREACHABLE = "http://127.0.0.1:1"
BAD: dict[str, tuple[list[str], str]] = {
    "no folder": (["data", "fetch"], "no data folder given … ISOTROPE_DATA"),
    "unknown": (["data", "fetch", "d", "--only", "mr,foo"], "no data set 'foo' … choose from"),
    "no set": (["data", "fetch", "d", "--only", ""], "no data set '' … choose from"),
    "no network": (
        ["data", "fetch", "d", "--only", "MR", "--mirror", UNREACHABLE],
        "cannot be read … check the connection",
    ),
    "no URL": (["data", "fetch", "d", "--only", "MR", "--mirror", "copy"], "unknown scheme … choose one of"),
    "two places": (["data", "fetch", "d", "--mirror", UNREACHABLE, "--official"], "two places … one of them"),
    "check nothing": (["data", "check", "no/such"], "no/such does not exist … isotrope data fetch"),
    "prepare nothing": (["data", "prepare", "no/such"], "no/such does not exist … isotrope data fetch"),
    "list unknown": (["data", "list", "--only", "x"], "no data set 'x' … choose from"),
}


@pytest.mark.parametrize(("command", "expected"), BAD.values(), ids=BAD.keys())
def test_mistakes_end_with_one_line(
    command: list[str], expected: str, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    shell(*command).is_mistake(expected)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["[/x]", os.fsdecode(b"na\xefve"), "[bold]"])
def test_names_of_folders_are_no_markup(
    web: Web, source: DataSource, tmp_path: Path, name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 13, fault 1."""
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir(parents=True)
    shown = name.encode("utf-8", "backslashreplace").decode()
    assert shell("data", "fetch", name).code == 0
    Path(name, "one", "b.txt").write_text("spoilt")
    said = shell("data", "check", name)
    assert f"isotrope data fetch {shown} --only One" in said.out
    said.is_mistake(f"one/b.txt in {shown} is corrupt … isotrope data fetch {shown} --only One")


def test_list_fetch_and_check(
    web: Web, source: DataSource, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    listed = shell("data", "list", "--addresses").out
    assert re.search(r"One +transfer +a test +9002 lines +none +sha256 +0.2", listed)
    assert f"One: {web.base}/at/b.txt\n" in listed
    assert shell("data", "fetch").out.endswith(f"{HOME}\n")
    assert shell("data", "check") == (0, "One: right (9002 lines)\n", "")


def official_sts13(folder: Path) -> Path:
    """A whole STS13 of made-up pairs, where SentEval has it; returns its folder."""
    below = folder / "senteval" / "downstream" / "STS" / "STS13-en-test"
    below.mkdir(parents=True)
    for name, count in SUBSETS["STS13"].items():
        pairs = (f"one sentence {i}\tanother {i}\n" for i in range(count))
        (below / f"STS.input.{name}.txt").write_text("".join(pairs), encoding="utf-8")
        (below / f"STS.gs.{name}.txt").write_text("".join(f"{i % 6}\n" for i in range(count)), encoding="utf-8")
    return below


def swap(first: Path, second: Path) -> None:
    held = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(held)


ROWS: dict[str, tuple[str, Spoil, str]] = {
    "no score": ("gs.FNWN", rewrite(lambda t: t.replace(b"1\n", b"?\n", 1)), "STS.gs.FNWN.txt is damaged"),
    "UTF-16": ("input.OnWN", rewrite(lambda t: t.decode().encode("utf-16")), "STS.input.OnWN.txt is damaged ('utf-8'"),
    "subsets": ("gs.FNWN", lambda path: swap(path, path.with_name("STS.gs.OnWN.txt")), "STS.gs.FNWN.txt is damaged"),
}


@pytest.mark.parametrize(("name", "spoil", "expected"), ROWS.values(), ids=ROWS.keys())
def test_bad_rows_end_the_evaluation_with_one_line(
    tiny_model: Path, tmp_path: Path, name: str, spoil: Spoil, expected: str, shell: Shell
) -> None:
    folder = official_sts13(tmp_path)
    assert sum(map(len, load_sts(tmp_path, "STS13").values())) == 1500
    spoil(folder / f"STS.{name}.txt")
    shell("evaluate", tiny_model, "--tasks", "STS13", "--data", tmp_path).is_mistake(expected)
