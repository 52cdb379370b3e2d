"""Real documents that every machine with Python has: the docstrings of the installed packages.

The first sentence is the title, the others are the text. Files are parsed, never imported. Some packages are held out
whole: a model that was made for the others is judged on them. Given a title, it must find the text.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import distributions
from itertools import zip_longest
from pathlib import Path
from typing import TypeVar

import xxhash

from isotrope.errors import UserError
from isotrope.quickstart.prose import Doc, clean
from isotrope.store.atomic import write_text
from isotrope.store.records import read_record

SHARE = 0.15  # of all docstrings that have a body, at most, lies in the held-out packages
SOURCE_BYTES = 1 << 20  # read from one package; ten of them hold more than the other hundred together
BODY_SENTENCES = 5  # of a docstring's body
STDLIB = "python"  # the standard library counts as one package of this name

T = TypeVar("T")

_SKIPPED = {"tests", "test", "testing", "idlelib", "site-packages", "dist-packages", "__pycache__", ".."}
_SKIPPED |= {"_vendor", "_vendored", "vendor", "vendored", "extern", "externals", "third_party", "_vendored_packages"}


@dataclass(frozen=True, slots=True)
class Docstrings:
    """What was gathered.

    Attributes:
        titles: of the documents to learn from, (N,), distinct; none is a sentence of a held-out package.
        texts: what followed each of them, (N,), distinct.
        queries: titles of docstrings of held-out packages, (Q,), distinct.
        bodies: what followed each of them, (Q,), distinct.
        packages: the packages that `titles` come from.
        held_out: the packages that `queries` come from.
        found: documents to learn from before the limit.
        shared: documents that were dropped since a held-out package has one of their sentences too.
    """

    titles: list[str]
    texts: list[str]
    queries: list[str]
    bodies: list[str]
    packages: list[str]
    held_out: list[str]
    found: int
    shared: int

    def write(self, path: Path) -> None:
        """Replace the file at one stroke."""
        write_text(path, json.dumps(asdict(self), indent=0, ensure_ascii=False))

    @classmethod
    def read(cls, path: Path) -> Docstrings:
        """What `write` wrote.

        Raises:
            UserError: it is damaged.
        """
        remedy = "delete its folder and start again, or choose another one"
        kinds = {field.name: int if field.type == "int" else list for field in fields(cls)}
        record = read_record(path, kinds, remedy)
        return cls(**{name: record[name] for name in kinds})


def gather(
    sources: Mapping[str, Sequence[Path]] | None = None,
    *,
    limit: int = 6_000,
    queries: int = 2_000,
    progress: Callable[[int, int], None] | None = None,
) -> Docstrings:
    """Gather the docstrings in `sources`: the same files give the same documents in the same order.

    Packages are held out in the order of their names' hashes, as long as the held-out docstrings stay at or below 15 %
    of all. If no package fits, the smallest is held out. The limits are filled by taking one docstring of each package
    in turn, so that large packages do not crowd out the others.

    Args:
        sources: package → its .py files; by default `installed()`.
        limit: documents to learn from, at most.
        queries: docstrings for the retrieval, at most.
        progress: called with the number of packages read so far, and of all.

    Raises:
        UserError: fewer than two packages have docstrings, so none can be held out; those that are left have none.
    """
    sources = installed() if sources is None else sources
    docs: dict[str, list[Doc]] = {}
    for place, name in enumerate(sorted(sources), start=1):
        docs[name] = sorted(filter(_has_body, _docs(sources[name])), key=lambda doc: _hash(doc[0]))
        if progress:
            progress(place, len(sources))
    held = hold_out({name: len(found) for name, found in docs.items()})
    known = {_key(sentence) for name in held for doc in docs[name] for sentence in doc}
    others = {name: found for name, found in docs.items() if name not in held}
    unseen = {name: [d for d in found if known.isdisjoint(map(_key, d))] for name, found in others.items()}
    documents, judging = (_distinct_pairs(_in_turn(part)) for part in (unseen.values(), [docs[n] for n in held]))
    if not documents:
        raise UserError("no package here has docstrings to learn from", "install some, or use documents of your own")
    return Docstrings(
        titles=[title for title, _ in documents[:limit]],
        texts=[text for _, text in documents[:limit]],
        queries=[query for query, _ in judging[:queries]],
        bodies=[body for _, body in judging[:queries]],
        packages=[name for name, found in unseen.items() if found],
        held_out=held,
        found=len(documents),
        shared=sum(map(len, others.values())) - sum(map(len, unseen.values())),
    )


def installed(path: Sequence[str] | None = None, stdlib: Path | None = None) -> dict[str, list[Path]]:
    """Package → its .py files, without tests and vendored copies; up to 1 MB of source each, in the order of hashes.

    path: where to look for distributions; by default sys.path. stdlib: folder of the standard library.
    """
    stdlib = stdlib or Path(sysconfig.get_paths()["stdlib"])
    found = {STDLIB: _some((file.relative_to(stdlib), file) for file in stdlib.rglob("*.py"))}
    for distribution in distributions(path=list(sys.path if path is None else path)):
        name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "").lower()
        if name and name not in found:  # the first one on the path is the one that would be imported
            files = [file for file in distribution.files or [] if file.suffix == ".py"]
            found[name] = _some((Path(file), Path(str(file.locate()))) for file in files)
    return {name: files for name, files in found.items() if files}


def hold_out(sizes: Mapping[str, int]) -> list[str]:
    """The held-out ones among packages of these sizes; see `gather`."""
    order = sorted((name for name, size in sizes.items() if size), key=_hash)
    if len(order) < 2:
        raise UserError(f"{len(order)} package(s) here have docstrings with a body", "install more, at least two")
    held: list[str] = []
    for name in order:
        if sum(map(sizes.__getitem__, [*held, name])) <= SHARE * sum(sizes.values()):
            held.append(name)
    return sorted(held) or [min(order, key=sizes.__getitem__)]


def docstrings(source: bytes) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, indentation removed; none where it cannot be parsed."""
    if b'"""' not in source and b"'''" not in source:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # broken, of another Python, or not text
        return
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if text := ast.get_docstring(node):
                yield text
        elif not isinstance(node, ast.If | ast.Try | ast.With):
            continue
        nodes.extend(reversed(node.body))


def _docs(files: Iterable[Path]) -> Iterator[Doc]:
    for file in files:
        try:
            source = file.read_bytes()
        except OSError:
            continue
        yield from filter(any, map(clean, docstrings(source)))


def _some(files: Iterable[tuple[Path, Path]]) -> list[Path]:
    """Of files (relative, absolute) those to be read."""
    chosen: list[Path] = []
    size = 0
    for relative, file in sorted(files, key=lambda both: _hash(both[0].as_posix())):
        skipped = relative.name.startswith("test_") or relative.name == "conftest.py"
        if skipped or not _SKIPPED.isdisjoint(relative.parts) or not file.is_file():
            continue
        size += file.stat().st_size
        if size > SOURCE_BYTES and chosen:
            break
        chosen.append(file)
    return chosen


def _has_body(doc: Doc) -> bool:
    return len(doc) > 1 and bool(doc[0])


def _distinct_pairs(docs: Iterable[Doc]) -> list[tuple[str, str]]:
    """Title and text of those where both occur for the first time: a repeated one has more than one right answer."""
    titles, texts, found = set[str](), set[str](), list[tuple[str, str]]()
    for title, *rest in docs:
        text = " ".join(rest[:BODY_SENTENCES])
        if _key(title) not in titles and _key(text) not in texts:
            found.append((title, text))
        titles.add(_key(title))
        texts.add(_key(text))
    return found


def _in_turn(lists: Iterable[Sequence[T]]) -> Iterator[T]:
    """The first of each list, the second of each, …"""
    nothing = object()
    for row in zip_longest(*lists, fillvalue=nothing):
        yield from (item for item in row if item is not nothing)  # type: ignore[misc]


def _key(sentence: str) -> str:
    """What two sentences share that count as the same."""
    return re.sub(r"\W+", " ", sentence).strip().casefold()


def _hash(text: str) -> tuple[int, str]:
    return xxhash.xxh3_64_intdigest(text.encode(errors="surrogateescape")), text
