"""Options are made from signatures; what goes wrong between the shell and a command is one line, or
nothing.
"""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from helpers.commands import Shell
from helpers.refusals import refused
from isotrope.cli import main as cli
from isotrope.cli.old_options import OLD_COMMANDS, OLD_OPTIONS
from isotrope.cli.options import command
from isotrope.errors import needs

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "isotrope"]


def in_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    line = command.replace("isotrope", " ".join(COMMAND))
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


def test_whoever_reads_the_output_may_leave(tmp_path: Path) -> None:
    for line in ("isotrope presets list", "isotrope --help"):
        done = in_shell(f"{line} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_closed_stream_leads_nowhere(tmp_path: Path) -> None:
    assert in_shell("isotrope presets list >&-", tmp_path).returncode == 0
    assert in_shell("isotrope presets nothing >&- 2>&-", tmp_path).returncode == 2


def test_a_deleted_folder_is_one_line(tmp_path: Path) -> None:
    done = in_shell(
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
    with refused("package-missing", module, f"isotrope[{extra}]"):
        needs(extra, module)


@pytest.mark.slow
def test_no_extra_is_imported_at_once() -> None:
    optional = ("matplotlib", "selectolax", "sentencex", "sacremoses", "zstandard")
    code = f"import sys, isotrope\nfor name in {optional}: sys.modules[name] = None\n"
    code += "for name in isotrope.__all__: getattr(isotrope, name)\n"
    code += "import isotrope.study.study, isotrope.training.page, isotrope.cli.main"
    subprocess.run([sys.executable, "-c", code], check=True)


FUNCTIONS = {
    cli.quickstart: "isotrope.quickstart.run:quickstart",
    cli.improve: "isotrope.improvement.improve:improve",
    cli.compress: "isotrope.compression.compress:compress",
    cli.train: "isotrope.training.train:train",
    cli.report: "isotrope.compression.page:write_student_report",
    cli.encode: "isotrope.encoding.encode:encode",
    cli.search: "isotrope.encoding.search:search",
    cli.whiten: "isotrope.improvement.whiten:whiten",
    cli.export: "isotrope.training.onnx:export_onnx",
}
ONLY_ON_THE_COMMAND_LINE = {"json_file"}
# Of Python only: objects, and what tests and experiments change.
ONLY_IN_PYTHON = {
    "quickstart": {"model", "plan", "collection"},
    "encode": {"shard", "normalize", "device", "progress"},
    "search": {"device"},
}


@pytest.mark.parametrize("run", FUNCTIONS, ids=lambda run: run.__name__)
def test_a_command_has_the_options_of_its_function(run: Any) -> None:
    module, _, name = FUNCTIONS[run].partition(":")
    function = getattr(importlib.import_module(module), name)
    expected = inspect.signature(function).parameters.keys() - {"console"}
    options = inspect.signature(run).parameters.keys() - ONLY_ON_THE_COMMAND_LINE
    assert options == expected - ONLY_IN_PYTHON.get(run.__name__, set())


def test_a_parameter_becomes_an_argument_or_an_option_with_its_help() -> None:
    @command
    def show(model: str, *, top: int = 3, whole: bool = False) -> None:
        """Show a model.

        Args:
            top: Rows.
            whole: All of it,
                in full.
        """

    app = typer.Typer()
    app.command()(show)
    shown: Any = typer.main.get_command(app)
    model, top, whole = shown.params[:3]
    assert (model.param_type_name, model.required) == ("argument", True)
    assert (top.opts, top.default, top.required) == (["--top"], 3, False)
    assert (whole.opts, whole.secondary_opts) == (["--whole"], [])
    assert whole.help == "All of it, in full."
    assert shown.help == "Show a model."


@pytest.mark.parametrize("option", OLD_OPTIONS)
def test_an_old_option_is_answered_with_the_new_one(option: str, shell: Shell) -> None:
    said = shell("export", "a", option, "c")
    assert said.code == 2
    assert said.err == f"isotrope: {option} is no option any more: {OLD_OPTIONS[option]}\n"


def test_what_an_old_option_is_answered_with_exists() -> None:
    app: Any = typer.main.get_command(cli.app)
    options = {name for run in app.commands.values() for param in run.params for name in param.opts}
    answers = [answer for answer in OLD_OPTIONS.values() if answer.startswith("write --")]
    assert {answer.split()[1].rstrip(",") for answer in answers} <= options


@pytest.mark.parametrize("name", OLD_COMMANDS)
def test_an_old_command_is_answered_with_what_to_use(name: str, shell: Shell) -> None:
    said = shell(name, "somewhere")
    assert said.code == 2
    assert said.err == f"isotrope: isotrope {name} is gone: {OLD_COMMANDS[name]}\n"


@pytest.mark.parametrize("words", ["--help", "improve --help", "study --help"])
def test_help_does_not_wait_for_torch(words: str) -> None:
    code = f"""
import sys
sys.argv = ["isotrope", *{words.split()}]
from isotrope.cli.main import main
try:
    main()
finally:
    assert not {{"torch", "transformers", "pyarrow"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)
