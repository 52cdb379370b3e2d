"""Gathering text from installed packages: what is read, what is prose, and that held-out packages stay apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotrope.errors import UserError
from isotrope.quickstart.docstrings import SHARE, Docstrings, docstrings, gather, hold_out, installed
from isotrope.quickstart.prose import clean
from packages import build_site, install


def gather_site(site: Path, stdlib: Path, **options: int) -> Docstrings:
    return gather(installed([str(site)], stdlib), **options)


def words(texts: list[str]) -> set[str]:
    return {s.strip().rstrip(".").casefold() for text in texts for s in text.split(". ")}


def test_held_out_packages_stay_apart(tmp_path: Path) -> None:
    site, stdlib = build_site(tmp_path)
    alone = gather_site(site, stdlib)
    assert alone.held_out
    assert not set(alone.held_out) & set(alone.packages)
    assert set(alone.held_out) | set(alone.packages) == {"python", *(f"package{i}" for i in range(12))}
    assert len(alone.queries) == len(alone.bodies) == 12 * len(alone.held_out)
    assert not words([*alone.titles, *alone.texts]) & words([*alone.queries, *alone.bodies])
    # a sentence of a held-out package is copied into a package to learn from, in other letters: it must not be learnt
    trained = next(name for name in alone.packages if name != "python")
    copied = alone.bodies[0].split(". ")[0].rstrip(".")
    copy = copied[0] + copied[1:].upper()
    with (site / trained / "__init__.py").open("a") as file:
        file.write(f'\ndef g():\n    """{copy}!\n\n    What follows on it is new.\n    """\n')
    both = gather_site(site, stdlib)
    assert both.held_out == alone.held_out
    assert both.shared == alone.shared + 1
    assert (both.titles, both.texts) == (alone.titles, alone.texts)


def test_the_same_files_give_the_same_text_and_it_is_read_back(tmp_path: Path) -> None:
    site, stdlib = build_site(tmp_path)
    first = gather_site(site, stdlib)
    assert first == gather_site(site, stdlib)
    first.write(tmp_path / "text.json")
    assert Docstrings.read(tmp_path / "text.json") == first
    (tmp_path / "text.json").write_text('{"titles": []}')
    with pytest.raises(UserError, match="damaged"):
        Docstrings.read(tmp_path / "text.json")


def test_the_limits_are_filled_from_all_packages_in_turn(tmp_path: Path) -> None:
    site, stdlib = build_site(tmp_path)
    whole = gather_site(site, stdlib)
    some = gather_site(site, stdlib, limit=2 * len(whole.packages), queries=5)
    assert some.titles == whole.titles[: 2 * len(whole.packages)]
    assert some.texts == whole.texts[: 2 * len(whole.packages)]
    assert (some.queries, some.bodies, some.found) == (whole.queries[:5], whole.bodies[:5], len(whole.titles))
    own = {
        name: words([s for d in docstrings((site / name / "__init__.py").read_bytes()) for s in clean(d)])
        for name in whole.packages
        if name != "python"
    }
    assert all(len(own[name] & words(some.titles)) == 2 for name in own)


def test_broken_files_tests_and_vendored_copies_are_passed_over(tmp_path: Path) -> None:
    site, stdlib = build_site(tmp_path, packages=3)
    good = 'def f():\n    """The {0} is read by the parser.\n\n    What follows on the {0} is here.\n    """\n'
    rest = "\\n\\nWhat follows on it is here."
    files: dict[str, str | bytes] = {
        "good.py": good.format("sound file"),
        "broken.py": good.format("broken file").replace("()", "("),
        "latin.py": good.format("Käse file").encode("latin-1"),
        "declared.py": ("# coding: latin-1\n" + good.format("café file")).encode("latin-1"),
        "null.py": good.format("null file").encode() + b"\0",
        "binary.py": bytes(range(256)),
        "surrogate.py": f'"""The lone \\ud800 surrogate is read by the parser.{rest}"""',
        "deep.py": good.format("deep file") + "x = " + "(" * 5000 + ")" * 5000,
        "test_it.py": good.format("test module"),
        "tests/inner.py": good.format("test folder"),
        "_vendor/other.py": good.format("vendored copy"),
    }
    install(site, "odd_One", files)
    (site / "odd_One" / "listed_but_gone.py").touch()
    sources = installed([str(site)], stdlib)
    assert not {"test_it.py", "inner.py", "other.py"} & {file.name for file in sources["odd-one"]}
    (site / "odd_One" / "good.py").rename(site / "odd_One" / "moved.py")  # gone between listing and reading
    sources["odd-one"].append(site / "odd_One" / "moved.py")
    text = gather(sources)
    found = {s for s in [*text.titles, *text.queries] if "is read by the parser" in s}
    assert found == {"The sound file is read by the parser.", "The café file is read by the parser."}


def test_nothing_is_imported(tmp_path: Path) -> None:
    site, stdlib = build_site(tmp_path, packages=3)
    trap = '"""It raises when it is imported.\n\nThe trap is set here."""\nraise SystemExit(1)\n'
    install(site, "trap", {"__init__.py": trap})
    text = gather_site(site, stdlib)
    assert "It raises when it is imported." in [*text.titles, *text.queries]


def test_too_few_packages_are_the_users_to_put_right(tmp_path: Path) -> None:
    (tmp_path / "stdlib").mkdir()
    with pytest.raises(UserError, match="at least two"):
        gather(installed([str(tmp_path)], tmp_path / "stdlib"))


@given(st.dictionaries(st.text("abcdefgh", min_size=1, max_size=5), st.integers(1, 500), min_size=2, max_size=30))
def test_held_out_packages_are_a_small_part_whatever_is_installed(sizes: dict[str, int]) -> None:
    held = hold_out(sizes)
    assert 0 < len(held) < len(sizes)
    share = sum(sizes[name] for name in held) / sum(sizes.values())
    assert share <= SHARE or (len(held) == 1 and sizes[held[0]] == min(sizes.values()))


def test_docstrings_of_modules_classes_functions_and_branches_are_found() -> None:
    source = b'''"""Module."""
if True:
    def f():
        """Function."""
        def inner():
            """Inner."""
class C:
    """Class."""
    async def m(self):
        """Method."""
x = """no docstring"""
'''
    assert list(docstrings(source)) == ["Module.", "Function.", "Inner.", "Class.", "Method."]
