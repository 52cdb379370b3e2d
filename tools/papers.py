"""Every equation, table and figure of the three papers: where it is, what covers it, and what is
not run and why.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from grid import RESULTS, grid

ROOT = RESULTS.parent.parent
STUDIES = ROOT / "src" / "isotrope" / "studies"
ITEM = re.compile(r"(Eq\.|Table|Figure) \d|Appendix \w, (Table|Figure)|Appendix \w, Eq")
LINK = re.compile(r"\[`([^`]+)`\]\(\.\./\.\./\.\./src/isotrope/([^)]+)\)")


@cache
def importing(module: str) -> tuple[str, ...]:
    """The tests that import a module of isotrope, such as ``terms/infonce.py``."""
    wanted = re.compile(rf"\bisotrope\.{module.removesuffix('.py').replace('/', '.')}\b")
    tests = [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if wanted.search(path.read_text("utf-8"))
    ]
    # those of its own room first
    tests.sort(key=lambda path: path.parent.name != module.partition("/")[0])
    return tuple(str(path.relative_to(ROOT)) for path in tests)


def covered(where: str) -> str:
    """What checks an item: how much of it its studies run, or the tests of its files."""
    said, tests = [], dict[str, None]()
    for name, path in LINK.findall(where):
        if path.startswith("studies/"):
            study = tomllib.loads((STUDIES / f"{name}.toml").read_text(encoding="utf-8"))
            claims = sum(len(claim.get("each", "1")) for claim in study.get("claims", {}).values())
            said.append(f"{len(study['rows'])} rows" + (f", {claims} claims" if claims else ""))
        elif path.endswith(".py"):
            tests |= dict.fromkeys(importing(path)[:2])
        else:
            tests[
                "tests/preset/test_preset.py" if "released" in name else "tests/test_fidelity.py"
            ] = None
    for stage, label in re.findall(r"`([a-z]+)\.([a-z_]+)", where):  # a key of a component
        if (ROOT / "src" / "isotrope" / stage / f"{label}.py").is_file():
            tests |= dict.fromkeys(importing(f"{stage}/{label}.py")[:2])
    return ", ".join(
        dict.fromkeys([*said, *(f"[{Path(test).stem}](../../../{test})" for test in tests)])
    )


def every_item(paper: str) -> str:
    """The items of a paper that have a number."""
    lines = (RESULTS / "fidelity" / f"{paper}.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if ITEM.match(line.strip("| "))]
    told = [
        [*row, "printed numbers" if row[2].startswith("not done") else covered(row[1])]
        for row in rows
    ]
    if bare := [row[0] for row in told if not row[3]]:
        raise SystemExit(f"nothing covers {bare}")
    return grid(["item", "file", "state", "covered by"], told)


def not_run() -> str:
    """The printed rows of the tables that no study runs, each with its reason from the study's
    file.
    """
    pattern = re.compile(r"^\[reference\.(.+?)\](?:  # not run: (.+))?$", re.MULTILINE)
    files = sorted(
        path
        for paper in ("dclr", "rankcse", "whitenedcse")
        for path in STUDIES.glob(f"{paper}-*.toml")
    )
    found = [
        (path.stem, *row)
        for path in files
        for row in pattern.findall(path.read_text(encoding="utf-8"))
    ]
    if without := [(name, row) for name, row, why in found if not why]:
        raise SystemExit(f"these rows have no reason: {without}")
    return grid(
        ["study", "row", "why it is not run"],
        [[f"`{name}`", row.strip('"'), why] for name, row, why in found],
    )


def page() -> str:
    """docs/results/fidelity/table.md."""
    parts = [
        "# Every equation, table and figure of the three papers",
        "Made by `tools/tables.py` from the lists beside it, the studies and the tests. Rows and claims are those of "
        "the whole study; a swept row counts once. Each list has the other items too: settings, and what a paper says.",
    ]
    for name, paper in {"WhitenedCSE": "whitenedcse", "DCLR": "dclr", "RankCSE": "rankcse"}.items():
        parts.append(f"## {name}\n\n[The list]({paper}.md)\n\n{every_item(paper)}")
    return "\n\n".join([*parts, f"## Rows that are printed numbers\n\n{not_run()}\n"])
