"""The floors of the design: who may import whom. Kept by import-linter's contracts in pyproject.toml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import isotrope

ROOT = Path(__file__).resolve().parent.parent


def test_the_floors_hold() -> None:
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([str(lint), "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_face_is_what_the_design_says() -> None:
    assert sorted(isotrope.__all__) == ["Objective", "component", "encode", "evaluate", "load", "train"]
    for name in isotrope.__all__:
        assert callable(getattr(isotrope, name))


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys, isotrope.cli.main; assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_path_from_text_to_loss_stays_short() -> None:
    """Issue: it reads in under 200 lines of code (docstrings, comments and blank lines apart)."""
    import ast

    lines = 0
    for name in ("objective/objective.py", "types.py", "terms/infonce.py", "views/mlp.py"):
        source = (ROOT / "src" / "isotrope" / name).read_text(encoding="utf-8")
        tree = ast.parse(source)
        documented = {
            line
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
            for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
        }
        for number, line in enumerate(source.splitlines(), 1):
            lines += bool(line.strip()) and not line.strip().startswith("#") and number not in documented
    assert lines < 200
