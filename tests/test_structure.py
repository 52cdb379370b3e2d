"""The structure of the house, checked by the project's own tools: import-linter, grimp, and
Python's parser.
"""

import ast
import importlib
import inspect
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import grimp
import pytest

import isotrope

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "isotrope"
TREES = {
    path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in SOURCE.rglob("*.py")
}

# A public name of two modules -> why it may be one.
ONE_NAME_FOR_TWO = {
    "alignment": "the measure and the loss: both names are fixed by the design",
    "uniformity": "the measure and the loss: both names are fixed by the design",
}
# A module outside of the store that writes files -> why it may.
WRITERS: dict[str, str] = {
    "encoding/rows.py": "a draft of the store's, which pyarrow fills",
}


def test_imports_go_down_only_and_every_room_is_listed() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "exhaustive = true" in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = grimp.build_graph("isotrope", cache_dir=None)
    imports = {
        module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules
    }
    while loose := {
        module
        for module, others in imports.items()
        if not others & imports.keys() or not any(module in found for found in imports.values())
    }:
        imports = {module: others for module, others in imports.items() if module not in loose}
    wrong = [
        f"{module} imports {sorted(others & imports.keys())}"
        for module, others in sorted(imports.items())
    ]
    assert not wrong, _listed(wrong)


def test_the_root_holds_four_files() -> None:
    assert sorted(path.name for path in SOURCE.glob("*.py")) == [
        "__init__.py",
        "__main__.py",
        "errors.py",
        "types.py",
    ]


def test_no_public_name_means_two_things() -> None:
    """Commands may be called as the functions that they run."""
    found = defaultdict(list)
    for name, tree in TREES.items():
        if not name.startswith("cli/"):
            for public in _public_names(tree):
                found[public].append(name)
    twice = {name: places for name, places in found.items() if len(places) > 1}
    wrong = {name: places for name, places in twice.items() if name not in ONE_NAME_FOR_TWO}
    assert not wrong, _listed(
        f"{name}: {', '.join(sorted(places))}" for name, places in sorted(wrong.items())
    )
    superfluous = sorted(ONE_NAME_FOR_TWO.keys() - twice.keys())
    assert not superfluous, f"allowed, and not needed any more: {superfluous}"


def test_one_place_renames() -> None:
    found = {name: list(filter(None, map(_renames, _calls(tree)))) for name, tree in TREES.items()}
    assert found.pop("store/files.py")
    wrong = [f"{name}: {call}" for name, calls in found.items() for call in calls]
    assert not wrong, _listed(wrong)


def test_the_store_alone_writes_and_deletes() -> None:
    found = {
        name: list(filter(None, map(_writes, _calls(tree))))
        for name, tree in TREES.items()
        if not name.startswith("store/")
    }
    writers = {name: calls for name, calls in found.items() if calls}
    wrong = {name: calls for name, calls in writers.items() if name not in WRITERS}
    assert not wrong, _listed(
        f"{name}: {call}" for name, calls in sorted(wrong.items()) for call in calls
    )
    superfluous = sorted(WRITERS.keys() - writers.keys())
    assert not superfluous, f"allowed, and not needed any more: {superfluous}"


def test_the_face_is_what_the_readme_uses() -> None:
    named = "Objective ObjectiveState SuiteEvaluator component compress encode evaluate export improve load"
    named += " preset_names read_preset search train whiten"
    assert {*isotrope.__all__} == {*named.split(), "__version__"}
    assert {*isotrope.__all__} <= set(dir(isotrope))
    assert all(callable(getattr(isotrope, name)) for name in named.split())
    assert isotrope.__version__ == version("isotrope")


def test_a_room_gives_its_components_by_their_classes() -> None:
    from isotrope.terms import InfoNCE, infonce

    assert infonce.InfoNCE is InfoNCE
    for room in ("tokens", "peers", "views", "scores", "terms", "teachers", "post", "released"):
        module = importlib.import_module(f"isotrope.{room}")
        assert dir(module)
        assert all(inspect.isclass(getattr(module, name)) for name in dir(module))
    with pytest.raises(AttributeError):
        module.Nothing  # noqa: B018


@pytest.mark.parametrize(
    "room",
    ["tokens", "peers", "views", "scores", "terms", "teachers", "post", "released", "text.pairs"],
)
def test_a_room_lists_every_class_that_declares_a_stage(room: str) -> None:
    """In its table, which is read at run time, and in its imports, which editors read."""
    module = importlib.import_module(f"isotrope.{room}")
    folder = Path(str(module.__file__)).parent
    staged = {
        (node.name, file.stem)
        for file in folder.glob("[!_]*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and "stage = " in ast.unparse(node)
    }
    assert staged <= set(module.COMPONENTS.items())
    imports = {
        (alias.name, node.module.rpartition(".")[2])
        for node in ast.walk(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module.startswith(f"isotrope.{room}.")
        for alias in node.names
    }
    assert imports == set(module.COMPONENTS.items())


def test_neither_help_nor_the_names_of_presets_and_components_wait_for_torch() -> None:
    asked = "import isotrope.cli.main, isotrope.terms, isotrope.preset.tables as t; t.preset_descriptions()"
    code = f"import sys; {asked}; dir(isotrope.terms); assert not {{'torch', 'transformers'}} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def _listed(lines: Iterable[str]) -> str:
    return "\n  ".join(["", *lines])


def _public_names(tree: ast.Module) -> Iterator[str]:
    """The functions and classes of a module, names with an underscore apart."""
    for node in tree.body:
        if isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ) and not node.name.startswith("_"):
            yield node.name


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _shown(call: ast.Call) -> str:
    return f"line {call.lineno}: {ast.unparse(call):.80}"


def _renames(call: ast.Call) -> str:
    """``path.replace(other)`` has one argument, ``text.replace(old, new)`` two; frozen records have
    keywords.
    """
    name = _called(call)
    one = (
        name == "replace"
        and isinstance(call.func, ast.Attribute)
        and len(call.args) == 1
        and not call.keywords
    )
    library = ast.unparse(call.func) in ("os.replace", "os.rename", "os.renames", "shutil.move")
    return _shown(call) if one or library or name in ("rename", "renames") else ""


def _writes(call: ast.Call) -> str:
    name = _called(call)
    if name in ("rmtree", "write_text", "write_bytes"):
        # the store's write_text
        return "" if isinstance(call.func, ast.Name) and name != "rmtree" else _shown(call)
    if name not in ("open", "fdopen"):
        return ""
    mode = call.args[0 if isinstance(call.func, ast.Attribute) and name == "open" else 1 :][:1]
    modes = [*mode, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    words = [
        node.value for part in modes for node in ast.walk(part) if isinstance(node, ast.Constant)
    ]
    return (
        _shown(call)
        if any(isinstance(word, str) and set(word) & set("wax+") for word in words)
        else ""
    )
