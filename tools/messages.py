"""Writes docs/messages.md: every refusal of isotrope, by its code; --check fails if it is stale.

python tools/messages.py [--check]

The sentences are read from the source: every `UserError(problem, remedy, code)`. What is filled in
at run time is shown as {…}. So anybody can improve the English of all refusals on one page.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "isotrope"
PAGE = ROOT / "docs" / "messages.md"
NAME_WITHOUT_MEANING = "…"
HEAD = """# Refusals

Made by `tools/messages.py` from the source. A mistake of the user's is one line, *problem: remedy*,
and exit code 2. In Python it is an `isotrope.errors.UserError` with `.problem`, `.remedy` and `.code`.
The code stays when the sentence is improved.
"""


@dataclass(frozen=True, order=True, slots=True)
class Message:
    """One refusal, as the source writes it."""

    code: str
    problem: str
    remedy: str
    file: str


def messages(source: Path = SOURCE) -> list[Message]:
    """Every `UserError(…)` below ``source``, sorted by code and sentence."""
    found: set[Message] = set()
    for path in source.rglob("*.py"):
        file = path.relative_to(source).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call, sentences in _errors(tree, _assignments(tree.body)):
            arguments = _arguments(call)
            for name, argument in arguments.items():
                if isinstance(argument, ast.Name):
                    arguments[name] = sentences.get(argument.id, argument)
            code = _sentence(arguments.get("code"))
            problem = _sentence(arguments.get("problem"))
            remedy = _sentence(arguments.get("remedy"))
            found.add(Message(code, problem, remedy, file))
    return sorted(found)


Sentences = Mapping[str, ast.expr]  # what each variable was set to


def _errors(node: ast.AST, sentences: Sentences) -> Iterator[tuple[ast.Call, Sentences]]:
    """Every call of `UserError` below a node, with the local variables that it may use."""
    if isinstance(node, ast.FunctionDef):
        sentences = {**sentences, **_assignments(ast.walk(node))}
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
        yield node, sentences
    for child in ast.iter_child_nodes(node):
        yield from _errors(child, sentences)


def _assignments(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Variable -> what it is set to, in its first assignment among ``nodes``."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, node.value)
    return found


def _arguments(call: ast.Call) -> dict[str, ast.expr]:
    """The arguments of a call of `UserError`, by their names."""
    by_name = dict(zip(("problem", "remedy", "code"), call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg:
            by_name[keyword.arg] = keyword.value
    return by_name


def _sentence(node: ast.expr | None) -> str:
    """An expression as a reader sees it: f"{path} is missing" -> "{path} is missing"."""
    match node:
        case None:
            return ""
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_sentence(part) for part in parts)
        case ast.FormattedValue(value=value):
            return _placeholder(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _sentence(left) + _sentence(right)
        case ast.IfExp(body=body, orelse=otherwise):
            return f"[{_sentence(body)} | {_sentence(otherwise)}]"
        case _:
            return _placeholder(node)


def _placeholder(node: ast.expr) -> str:
    """{name}, for what is filled in at run time."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return f"{{{name}}}"
        case ast.Subscript(value=value) | ast.Call(args=[value]):
            return _placeholder(value)
        case _:
            return f"{{{NAME_WITHOUT_MEANING}}}"


def page(source: Path = SOURCE) -> str:
    """The page: a heading for each code, and a row for each sentence."""
    by_code: dict[str, list[Message]] = defaultdict(list)
    for message in messages(source):
        by_code[message.code].append(message)
    parts = [HEAD]
    for code, rows in sorted(by_code.items()):
        lines = [f"## {code}", "", "| problem | remedy | file |", "| --- | --- | --- |"]
        for row in rows:
            cells = (row.problem, row.remedy, f"`{row.file}`")
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def main(check: bool) -> None:
    """Write the page, or check that it is current."""
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{PAGE.relative_to(ROOT)} is stale: run python tools/messages.py")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
