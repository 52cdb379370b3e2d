"""``isotrope data`` at the command line: every mistake is one line."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.commands import Shell
from helpers.web import HOME, Web
from isotrope.benchmark_data.sources import DataSource

Spoil = Callable[[Path], object]


def rewrite(change: Callable[[bytes], bytes]) -> Spoil:
    return lambda path: path.write_bytes(change(path.read_bytes()))


SPOILT: dict[str, tuple[Spoil, str]] = {
    "missing": (Path.unlink, "missing (not there)"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "unreadable (Is a directory)"),
    "cut": (rewrite(lambda text: text[:1000]), "corrupt (… lines, 5000 expected)"),
    "a word": (
        rewrite(lambda text: text.replace(b"the", b"der", 1)), "changed (5000 lines as expected, but other text)"
    ),
    "swapped": (
        lambda path: path.write_bytes(path.with_name("subj.subjective").read_bytes()),
        "swapped (it is senteval/downstream/SUBJ/subj.subjective)",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "expected"), SPOILT.values(), ids=SPOILT.keys())
def test_check_names_what_is_wrong(
    data: Path, tmp_path: Path, spoil: Spoil, expected: str, shell: Shell
) -> None:
    folder = tmp_path / "senteval" / "downstream" / "SUBJ"
    shutil.copytree(
        data / "senteval" / "downstream" / "SUBJ", folder, copy_function=shutil.copyfile
    )
    command = ["data", "check", tmp_path, "--only", "SUBJ"]
    assert shell(*command) == (0, "SUBJ: right (10000 sentences)\n", "")
    spoil(folder / "subj.objective")
    said = shell(*command)
    kind, detail = expected.rstrip(")").split(" (")
    remedy = f"isotrope data fetch {tmp_path} --only SUBJ"
    known_note = (
        ""
        if kind == "missing"
        else "; a corrupt SUBJ circulates, on which accuracies of 99.6 come out"
    )
    said.is_mistake(f"SUBJ/subj.objective in {tmp_path} is {kind} ({detail}): {remedy}")
    table = " ".join(said.out.split())
    assert f"SUBJ: wrong (10000 sentences){known_note}" in table
    assert re.search(rf"subj.objective {kind} .*{re.escape(remedy)}", table), table


UNREACHABLE = "http://127.0.0.1:1"
BAD: dict[str, tuple[list[str], str]] = {
    "no folder": (["data", "fetch"], "Missing argument 'folder' … --help"),
    "a folder without a name": (["data", "fetch", ""], "no data folder given … ISOTROPE_DATA"),
    "unknown": (["data", "fetch", "d", "--only", "mr,foo"], "no data set 'foo' … choose from"),
    "no network": (
        ["data", "fetch", "d", "--only", "MR", "--mirror", UNREACHABLE],
        "127.0.0.1:1/senteval … cannot be fetched … the network",
    ),
    "mirror on disk": (
        ["data", "fetch", "d", "--mirror", "file:///d"],
        "neither http nor https … address",
    ),
    "two places": (
        ["data", "fetch", "d", "--mirror", UNREACHABLE, "--official"],
        "two places … one of them",
    ),
    "check nothing": (["data", "check", "no/such"], "no/such does not exist … isotrope data fetch"),
    "prepare nothing": (
        ["data", "prepare", "no/such"],
        "no/such does not exist … isotrope data fetch",
    ),
}


@pytest.mark.parametrize(("command", "expected"), BAD.values(), ids=BAD.keys())
def test_mistakes_end_with_one_line(
    command: list[str], expected: str, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("isotrope.benchmark_data.fetch.RETRIES", 0)  # each waits for seconds
    shell(*command).is_mistake(expected)
    assert not list(tmp_path.iterdir())


def test_list_fetch_and_check(
    web: Web, source: DataSource, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    listed = shell("data", "list", "--addresses").out
    assert re.search(r"One +transfer +a test +9002 lines +none +sha256 +0.2", listed)
    assert f"One: {web.base}/at/b.txt\n" in listed
    assert shell("data", "fetch").out.endswith(f"{HOME}\n")
    assert shell("data", "check") == (0, "One: right (9002 lines)\n", "")
