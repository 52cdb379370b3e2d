"""The user's own domain: a folder with corpus, queries and judgements, or one file of labelled texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from isotrope.errors import UserError
from isotrope.evaluation.sets.domain import Domain, read_table, relevant, same_class
from isotrope.evaluation.sets.pairs import read_text

_FOLDER = (
    "give corpus.tsv and queries.tsv (id, tab, text) or .jsonl (_id, text, perhaps title), and qrels.txt "
    "(query, 0, text, grade) or qrels/test.tsv (query, text, grade)"
)
_FILE = "give one text a line: text, tab, label (a .csv file: a header with text and label)"
_QRELS = ("qrels.txt", "qrels.tsv", "qrels/test.tsv")


def read_domain(path: str | Path) -> Domain:
    """Read a folder as `read_judged` does, a file as `read_labelled` does; UserError where there is neither."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist", "name a folder with corpus, queries and qrels, or a labelled file")
    return read_judged(path) if path.is_dir() else read_labelled(path)


def read_judged(folder: Path) -> Domain:
    """A corpus, queries, and what is relevant to what, in the layout of TREC or of BEIR; named after the folder.

    A grade of 0 or below says "not relevant"; what nobody judged is not relevant either. Queries without a relevant
    text stay in the domain and out of the means. A first line of judgements whose grade is a word is a header.

    Raises UserError for a missing file or column, an empty text, an id that occurs twice or that only the judgements
    know, no rows, or no relevant text at all.
    """
    corpus, queries = _texts(folder, "corpus"), _texts(folder, "queries")
    path = next((folder / name for name in _QRELS if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"{folder} holds none of {', '.join(_QRELS)}", _FOLDER)
    judged: dict[tuple[str, str], int] = {}
    for place, query, text, grade in _judgements(path):
        for kind, key, known in (("query", query, queries), ("text", text, corpus)):
            if key not in known:
                raise UserError(f"{place}: the {kind} {key!r} is not in {folder.name}", "correct or delete the line")
        judged[query, text] = max(0, grade)
    if not any(judged.values()):
        raise UserError(f"{path} marks no text as relevant", _FOLDER)
    return relevant(folder.name, queries, corpus, judged)


def read_labelled(path: Path) -> Domain:
    """Texts with a class each, which shall find those of their class; named after the file, without its ending.

    Raises UserError for a missing column, an empty text or label, no rows, one class only, or no class of two texts.
    """
    texts, labels = [], []
    for place, text, label in _labelled(path):
        if not text or not label:
            raise UserError(f"{place}: the {'label' if text else 'text'} is empty", "fill or delete the line")
        texts.append(text)
        labels.append(label)
    if not texts:
        raise UserError(f"{path} has 0 rows", _FILE)
    return same_class(path.stem, texts, labels)


def _texts(folder: Path, stem: str) -> dict[str, str]:
    """Id -> text of corpus or queries."""
    path = next((folder / f"{stem}{end}" for end in (".tsv", ".jsonl") if (folder / f"{stem}{end}").is_file()), None)
    if path is None:
        raise UserError(f"{folder} holds neither {stem}.tsv nor {stem}.jsonl", _FOLDER)
    texts: dict[str, str] = {}
    for place, key, text in _json_rows(path) if path.suffix == ".jsonl" else _columns(path, 2, "\t"):
        if not key or not text:
            raise UserError(f"{place}: the {'text' if key else 'id'} is empty", "fill or delete the line")
        if key in texts:
            raise UserError(f"{place}: the id {key!r} occurs twice", "delete one")
        texts[key] = text
    if not texts:
        raise UserError(f"{path} has 0 rows", _FOLDER)
    return texts


def _judgements(path: Path) -> Iterator[tuple[str, str, str, int]]:
    """Place, query, text, grade: of TREC's four columns, or of BEIR's three under a header."""
    rows = 0
    for index, (number, cells) in enumerate(_lines(path, None)):
        place = f"{path}, line {number}"
        if len(cells) not in (3, 4):
            raise UserError(f"{place}: {len(cells)} column(s) instead of 3 or 4", _FOLDER)
        query, text, grade = cells[0], cells[-2], cells[-1]
        if index == 0 and grade.isalpha():
            continue  # query-id, corpus-id, score
        if not grade.lstrip("+-").isdecimal():
            raise UserError(f"{place}: the grade {grade[:40]!r} is not a whole number", _FOLDER)
        rows += 1
        yield place, query, text, int(grade)
    if rows == 0:
        raise UserError(f"{path} has 0 rows", _FOLDER)


def _labelled(path: Path) -> Iterator[Sequence[str]]:
    if path.suffix.lower() != ".csv":
        yield from _columns(path, 2, "\t", _FILE)
        return
    for place, row in read_table(read_text(path, _FILE), str(path), ("text", "label"), _FILE):
        yield place, row["text"].strip(), row["label"].strip()


def _json_rows(path: Path) -> Iterator[tuple[str, str, str]]:
    for number, line in enumerate(read_text(path, _FOLDER).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            row = json.loads(line)
            key, text = row["_id"], row["text"]
        except (ValueError, TypeError):
            raise UserError(f"{place}: not a JSON object", _FOLDER) from None
        except KeyError as missing:
            raise UserError(f"{place} has no column {missing.args[0]}", _FOLDER) from None
        yield place, str(key).strip(), f"{row.get('title') or ''} {text}".strip()


def _columns(path: Path, count: int, separator: str, remedy: str = _FOLDER) -> Iterator[Sequence[str]]:
    """Place and stripped cells of lines with exactly so many."""
    for number, cells in _lines(path, separator, remedy):
        if len(cells) != count:
            raise UserError(f"{path}, line {number}: {len(cells)} column(s) instead of {count}", remedy)
        yield f"{path}, line {number}", *(cell.strip() for cell in cells)


def _lines(path: Path, separator: str | None, remedy: str = _FOLDER) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(read_text(path, remedy).split("\n"), start=1):
        if line.strip():
            yield number, line.rstrip("\r").split(separator)
