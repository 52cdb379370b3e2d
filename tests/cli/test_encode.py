"""``isotrope encode`` at the command line: names are data, whatever they hold."""

import os
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import Shell
from helpers.forks import code, command

NAMES = ["[/x]", "[bold]a[/bold]", ":smile:", os.fsdecode(b"na\xefve"), "a\x1b[2J"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_no_markup(
    tiny_model: Path, tmp_path: Path, name: str, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 13, fault 1."""
    monkeypatch.chdir(tmp_path)
    Path(f"{name}.txt").parent.mkdir(parents=True, exist_ok=True)
    Path(f"{name}.txt").write_text("one [/x] two\n[bold]three\n", encoding="utf-8")
    command = ["encode", tiny_model, f"{name}.txt", "--output"]
    if "\udcef" in name:
        shell(*command, f"{name}.npy").is_mistake(
            "na\\udcefve.npy.parts is not a path in UTF-8 … another folder"
        )
        name = "v"
    assert shell(*command, f"{name}.npy")[:2] == (
        0,
        "written to {}.npy\n".format(name.replace("\x1b", "\\x1b")),
    )
    assert len(np.load(f"{name}.npy")) == 2
    shell("encode", tiny_model, f"{name}.csv", "--output", "v.npy").is_mistake(
        "does not exist … check the path"
    )


def test_an_ascii_terminal(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ü河.txt").write_text("one\n", encoding="utf-8")
    words = ["encode", str(tiny_model), "ü河.txt", "--output", "ü河.npy"]
    ended = code(command(words, tmp_path, encoding="ascii"))
    assert (ended, Path("out").read_text()) == (0, "written to ??.npy\n"), Path("err").read_text()


def test_the_user_hears_where_the_kept_columns_are(
    tiny_model: Path, tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("id,text\n7,one\n8,two\n")
    for output, more in (("v.npy", ", the kept columns to v.kept.parquet"), ("v.parquet", "")):
        said = shell("encode", tiny_model, "rows.csv", "--output", output, "--keep", "id")
        assert said[:2] == (0, f"written to {output}{more}\n")
