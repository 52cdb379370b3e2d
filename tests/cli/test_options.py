"""Options are made from signatures; what goes wrong between the shell and a command is one line, or
nothing.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from isotrope.cli.study import _rows
from isotrope.errors import UserError, needs

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "isotrope"]


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = command.replace("isotrope", " ".join(COMMAND))
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_whoever_reads_the_output_may_leave(tmp_path: Path) -> None:
    for command in ("isotrope presets list", "isotrope --help"):
        done = shell(f"{command} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stream_leads_nowhere(tmp_path: Path) -> None:
    assert shell("isotrope presets list >&-", tmp_path).returncode == 0
    assert shell("isotrope presets nothing >&- 2>&-", tmp_path).returncode == 2


def test_a_deleted_folder_is_one_line(tmp_path: Path) -> None:
    done = shell(
        f"cd {tmp_path} && mkdir gone && cd gone && rmdir {tmp_path}/gone && isotrope presets list",
        tmp_path,
    )
    assert done.returncode == 2
    assert (
        done.stderr == "isotrope: the folder that you are in was deleted: change to another one\n"
    )


@pytest.mark.parametrize(("extra", "module"), [("report", "matplotlib"), ("text", "selectolax")])
def test_what_an_extra_brings_is_named_where_it_is_missing(
    extra: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        UserError, match=rf"{module}, which is not installed: pip install 'isotrope\[{extra}\]'"
    ):
        needs(extra, module)


@pytest.mark.slow
def test_no_extra_is_imported_at_once() -> None:
    optional = ("matplotlib", "selectolax", "sentencex", "sacremoses", "zstandard")
    code = f"import sys, isotrope\nfor name in {optional}: sys.modules[name] = None\n"
    code += "for name in isotrope.__all__: getattr(isotrope, name)\n"
    code += "import isotrope.study.study, isotrope.training.page, isotrope.cli.main"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_rows_are_named_with_commas_and_in_full(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(
        'title = "t"\n[rows.A]\nsweep = {"train.epochs" = [1, 2]}\n[rows."B, small"]\n[rows.C]'
    )
    assert _rows(str(file), ["A, C", "B, small", "A, epochs = 2"]) == [
        "A",
        "C",
        "B, small",
        "A, epochs = 2",
    ]
