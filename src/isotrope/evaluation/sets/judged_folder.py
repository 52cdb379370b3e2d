"""A folder with a corpus, queries, and judgements of what is relevant, in the layout of TREC or of
BEIR.

    TREC    corpus.tsv, queries.tsv (id, tab, text); qrels.txt (query, 0, text, grade)
    BEIR    corpus.jsonl, queries.jsonl (_id, text, perhaps title);
            qrels/test.tsv (query, text, grade)
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from isotrope.errors import UserError
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, from_judgements
from isotrope.evaluation.sets.tables import (
    LINE_REMEDY,
    Row,
    cell_text,
    json_objects,
    split_lines,
)

_REMEDY = (
    "give corpus.tsv and queries.tsv (id, tab, text) or .jsonl (_id, text, perhaps title), and "
    "qrels.txt (query, 0, text, grade) or qrels/test.tsv (query, text, grade)"
)
_CORPUS = ("corpus.tsv", "corpus.jsonl")
_QUERIES = ("queries.tsv", "queries.jsonl")
_QRELS = ("qrels.txt", "qrels.tsv", "qrels/test.tsv")

Judgements = dict[tuple[str, str], int]  # query, text -> grade


def is_judged_folder(folder: Path) -> bool:
    """Whether a folder holds queries."""
    return any((folder / name).is_file() for name in _QUERIES)


def read_judged_folder(folder: Path) -> RetrievalSet:
    """The searches of a folder, named after it.

    A grade of 0 or below says "not relevant"; what nobody judged is not relevant either. Queries
    without a relevant text are left out of means. A document may be empty. A document with the id
    and the words of a query is that query, and is left out of what it finds.

    Raises UserError for a missing or broken file, and for a judgement of what is not there.
    """
    corpus_path = _first_of(folder, _CORPUS)
    queries_path = _first_of(folder, _QUERIES)
    qrels_path = _first_of(folder, _QRELS)

    corpus = _read_texts(corpus_path)
    queries = _read_texts(queries_path)
    judged = _read_judgements(qrels_path, queries, corpus, folder.name)
    for key, text in queries.items():
        if not text:
            raise UserError(
                f"{queries_path}: the query {key!r} is empty", LINE_REMEDY, code="empty-query"
            )

    files = f"{corpus_path.name}, {queries_path.name}, {qrels_path.relative_to(folder)}"
    return _described(folder.name, queries, corpus, judged, f": {files}")


def _described(
    name: str,
    queries: Mapping[str, str],
    corpus: Mapping[str, str],
    judged: Judgements,
    files: str = "",
) -> RetrievalSet:
    """The searches, with what they were read as."""
    counts = f"{len(queries):,} queries, {len(corpus):,} documents, {len(judged):,} judgements"
    return from_judgements(name, queries, corpus, judged).described_as(counts + files)


def _first_of(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise UserError(f"{folder} holds none of {', '.join(names)}", _REMEDY, code="missing-file")


def _read_texts(path: Path) -> dict[str, str]:
    """Id -> text of corpus or queries; a title comes before its text."""
    texts: dict[str, str] = {}
    for row in _json_rows(path) if path.suffix == ".jsonl" else split_lines(path, "\t"):
        _check_columns(row, (2,))
        key, text = (cell.strip() for cell in row.cells)
        if not key or key in texts:
            raise UserError(
                f"{row.place}: the id {key!r} is empty or occurs twice",
                LINE_REMEDY,
                code="bad-id",
            )
        texts[key] = text
    return texts


def _json_rows(path: Path) -> list[Row]:
    """Id, and title and text as one, of each object."""
    rows = []
    for place, item in json_objects(path):
        key = cell_text(item.get("_id"))
        rows.append(Row(place, [key, _document_text(item)]))
    return rows


def _read_judgements(
    path: Path, queries: Collection[str], corpus: Collection[str], folder: str
) -> Judgements:
    """The grades, at least 0. A first line whose grade is a word is a header."""
    judged = {}
    for number, row in enumerate(split_lines(path, None)):
        _check_columns(row, (3, 4))
        query, text, grade = row.cells[0], row.cells[-2], row.cells[-1].strip()
        if number == 0 and grade.isalpha():
            continue
        if not grade.lstrip("+-").isdecimal():
            raise UserError(
                f"{row.place}: the grade {grade[:40]!r} is not a whole number",
                _REMEDY,
                code="bad-grade",
            )
        _check_known(row.place, "query", query, queries, folder)
        _check_known(row.place, "text", text, corpus, folder)
        judged[query, text] = max(0, int(grade))

    if not any(judged.values()):
        raise UserError(f"{path} marks no text as relevant", _REMEDY, code="nothing-relevant")
    return judged


def _check_known(place: str, kind: str, key: str, known: Collection[str], source: str) -> None:
    if key not in known:
        raise UserError(
            f"{place}: the {kind} {key!r} is not in {source}", LINE_REMEDY, code="unknown-id"
        )


def _check_columns(row: Row, counts: Sequence[int]) -> None:
    if len(row.cells) not in counts:
        expected = " or ".join(map(str, counts))
        raise UserError(
            f"{row.place}: {len(row.cells)} column(s) instead of {expected}",
            _REMEDY,
            code="wrong-columns",
        )


def from_dictionaries(name: str, searches: Mapping[str, Mapping[str, Any]]) -> RetrievalSet:
    """The searches of three dictionaries, as BEIR's loader and sentence-transformers'
    InformationRetrievalEvaluator have them: "queries" (id -> text), "corpus" (id -> text, or title
    and text), and "qrels" or "relevant_docs" (query -> text -> grade, or query -> its texts).
    """
    corpus = {}
    for key, document in searches["corpus"].items():
        corpus[str(key)] = _document_text(document)
    queries = {}
    for key, query in searches["queries"].items():
        queries[str(key)] = cell_text(query)
    qrels = searches.get("qrels") or searches.get("relevant_docs") or {}

    judged = {}
    for query, texts in qrels.items():
        place = f"{name}: the judgement of {query!r}"
        query_key = str(query)
        grades = dict(texts) if isinstance(texts, Mapping) else dict.fromkeys(texts, 1)
        for text, grade in grades.items():
            text_key = str(text)
            _check_known(place, "query", query_key, queries, name)
            _check_known(place, "text", text_key, corpus, name)
            judged[query_key, text_key] = max(0, int(grade))
    return _described(name, queries, corpus, judged)


def _document_text(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{cell_text(value.get('title'))} {cell_text(value.get('text'))}".strip()
    return cell_text(value)
