"""The page of all refusals is made from the source, and says what a refusal says."""

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

from helpers.paths import ROOT


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``tools/messages.py``."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return importlib.import_module("messages")


def test_a_sentence_is_shown_with_what_is_filled_in(messages: ModuleType, tmp_path: Path) -> None:
    source = """
def check(path, count):
    remedy = "choose another" + " file"
    raise UserError(f"{path.name} has {len(rows)} rows", remedy, code="too-few-rows")
"""
    (tmp_path / "room.py").write_text(source)
    (message,) = messages.messages(tmp_path)
    assert message.code == "too-few-rows"
    assert message.problem == "{name} has {rows} rows"
    assert message.remedy == "choose another file"


def test_sentences_of_one_code_stand_together(messages: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('raise UserError("no file", "give one", "missing")')
    (tmp_path / "b.py").write_text('raise UserError("no folder", "make it", "missing")')
    page = messages.page(tmp_path)
    assert page.count("## missing") == 1
    assert "| no file | give one | `a.py` |\n| no folder | make it | `b.py` |" in page


def test_every_refusal_is_given_a_code() -> None:
    without_code = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
                has_code = len(node.args) == 3 or any(each.arg == "code" for each in node.keywords)
                if not has_code:
                    without_code.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not without_code


def test_the_page_of_refusals_is_current(messages: ModuleType) -> None:
    stale = "run python tools/messages.py"
    assert messages.PAGE.read_text(encoding="utf-8") == messages.page(), stale
