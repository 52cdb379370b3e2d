"""Texts of a domain, and what is relevant to what: three sets that are free to use, and the text of each unlabelled.

SciFact (Wadden et al., EMNLP 2020, https://aclanthology.org/2020.emnlp-main.609): claims find the abstracts that they
cite, title and sentences as one text. Banking77 (Casanueva et al., 2020, https://aclanthology.org/2020.nlp4convai-1.5):
customers' queries find queries of the same intent. StackOverflow (Xu et al., 2015,
https://aclanthology.org/W15-1509): titles find titles of the same topic.

Each has two settings. "dev" is for choosing settings: SciFact's train claims, Banking77's train split against itself,
StackOverflow's odd lines against themselves (nobody has split it). "test" is for what is reported. SciFact has its dev
claims, since its test claims are unlabelled. Banking77 has its test split against its train split, as a new query meets
old ones. StackOverflow has its even lines against themselves. A text never finds itself.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash
from scipy.sparse import csr_array

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import read_text
from isotrope.evaluation.sets.senteval import data_folder

DOMAIN_SETTINGS = ("test", "dev")
LARGEST_MEMBER = 1 << 28  # bytes of an archive's member: more is no data of ours

_REMEDY = "check the download, and set ISOTROPE_DATA or pass --data with the folder that holds domain/"
_CLAIMS = {"dev": ("claims_train.csv", 809), "test": ("claims_validation.csv", 300)}
_ABSTRACTS = 5183
_QUERIES = {"train": 10003, "test": 3080}
_TITLES = 20000

Labels = npt.NDArray[np.int64]
TableRow = tuple[str, dict[str, str]]  # its place, its cells by column


@dataclass(frozen=True, slots=True)
class Domain:
    """Q queries, M texts of a corpus, and how relevant each text is to each query."""

    name: str
    queries: list[str]  # (Q,)
    corpus: list[str]  # (M,)
    grades: csr_array  # (Q, M) 0 = not relevant; most sets know 1 alone
    own: bool = False  # the corpus is the queries: none finds itself
    labels: Labels | None = None  # (Q,) classes of the queries, where there are any

    def checksum(self) -> str:
        """xxh3 (128 bits, hexadecimal) of the texts, the grades and the classes, in their order."""
        total = xxhash.xxh3_128(json.dumps([self.queries, self.corpus, self.own]).encode())
        labels = np.array([-1]) if self.labels is None else self.labels
        grades = self.grades.sorted_indices()  # their order says nothing
        for part in (grades.indptr, grades.indices, grades.data, labels):
            total.update(np.ascontiguousarray(part, "<f8").tobytes())
        return total.hexdigest()


def load_domain(data: str | Path | None, task: str, setting: str = "test") -> Domain:
    """SciFact, Banking77 or StackOverflow, from `domain/` in the data folder (None: ISOTROPE_DATA).

    Raises UserError for an unknown task or setting, a missing or damaged file, a missing column, a wrong row count or
    an abstract that is cited and not there.
    """
    if setting not in DOMAIN_SETTINGS:
        raise UserError(f"retrieval has no setting {setting!r}", f"choose from {', '.join(DOMAIN_SETTINGS)}")
    folder, load, _ = _known(task)
    return load(data_folder(data) / "domain" / folder, setting)


def unlabelled(data: str | Path | None, task: str) -> list[str]:
    """The domain's text for training, without its labels.

    SciFact: every sentence of every abstract (those that the test's claims cite too, but no claim); Banking77: the
    train split's queries; StackOverflow: all titles.

    Raises UserError as `load_domain` does.
    """
    folder, _, text = _known(task)
    return text(data_folder(data) / "domain" / folder)


def same_class(
    name: str, queries: list[str], labels: Sequence[str], corpus: list[str] | None = None, others: Sequence[str] = ()
) -> Domain:
    """Texts (Q,) of labelled classes (Q,) that shall find those of their class, in a corpus (M,) or among themselves.

    Raises UserError where there is one class only, or where no query has anything to find.
    """
    classes = {label: number for number, label in enumerate(sorted({*labels, *others}))}
    if len(classes) < 2:
        raise UserError(f"{name}: {len(classes)} class(es)", "give texts of at least two classes, or all are relevant")
    of_queries = np.array([classes[label] for label in labels])
    of_corpus = of_queries if corpus is None else np.array([classes[label] for label in others])
    grades = _member(of_queries, len(classes)) @ _member(of_corpus, len(classes)).T  # (Q, C) @ (C, M)
    if corpus is None:
        grades.setdiag(0)
        grades.eliminate_zeros()
    if grades.nnz == 0:
        raise UserError(f"{name}: no text shares its class with another", "give several texts a class")
    return Domain(name, queries, queries if corpus is None else corpus, csr_array(grades), corpus is None, of_queries)


def relevant(name: str, queries: dict[str, str], corpus: dict[str, str], judged: dict[tuple[str, str], int]) -> Domain:
    """Queries and texts by their ids, and the grade of each (query, text) that somebody judged; others are 0."""
    rows, columns = ({key: place for place, key in enumerate(texts)} for texts in (queries, corpus))
    places = [rows[query] for query, _ in judged], [columns[text] for _, text in judged]
    grades = csr_array((np.array(list(judged.values()), dtype=np.float64), places), shape=(len(queries), len(corpus)))
    grades.eliminate_zeros()
    return Domain(name, list(queries.values()), list(corpus.values()), grades)


def read_table(text: str, where: str, columns: Sequence[str], remedy: str) -> Iterator[TableRow]:
    """Rows of comma-separated text with a header that names at least these columns; UserError otherwise."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        missing = [column for column in columns if column not in (reader.fieldnames or [])]
        if missing:
            raise UserError(f"{where} has no column {', '.join(missing)}", remedy)
        for row in reader:
            if None in row or None in row.values():
                raise UserError(f"{where}, line {reader.line_num}: not the header's number of columns", remedy)
            yield f"{where}, line {reader.line_num}", row
    except csv.Error as error:
        raise UserError(f"{where}, line {reader.line_num}: {error}", remedy) from None


def _scifact(folder: Path, setting: str) -> Domain:
    abstracts = _abstracts(folder)
    corpus = {key: " ".join([title, *sentences]) for key, (title, sentences) in abstracts.items()}
    member, expected = _CLAIMS[setting]
    claims: dict[str, str] = {}
    judged: dict[tuple[str, str], int] = {}
    for place, row in _member_rows(folder, member, ("id", "claim", "cited_doc_ids")):
        claims[row["id"]] = row["claim"]
        for cited in row["cited_doc_ids"].strip("[]").split():
            if cited not in corpus:
                raise UserError(f"{place}: abstract {cited} is cited, but is not in the corpus", _REMEDY)
            judged[row["id"], cited] = 1
    _count(folder / "scifact.zip", f"claims in {member}", len(claims), expected)
    return relevant("SciFact", claims, corpus, judged)


def _abstracts(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Id -> title and sentences. An abstract is a printed numpy array: a Python string literal a line, in brackets."""
    abstracts = {}
    for place, row in _member_rows(folder, "corpus_train.csv", ("doc_id", "title", "abstract")):
        try:
            sentences = [ast.literal_eval(line.strip()) for line in row["abstract"].strip()[1:-1].split("\n")]
        except (ValueError, SyntaxError):
            raise UserError(f"{place}: an abstract that is not a printed array", _REMEDY) from None
        abstracts[row["doc_id"]] = row["title"], [str(sentence) for sentence in sentences]
    _count(folder / "scifact.zip", "abstracts", len(abstracts), _ABSTRACTS)
    return abstracts


def _member_rows(folder: Path, member: str, columns: Sequence[str]) -> Iterator[TableRow]:
    """Rows of one file in SciFact's archive, read by its exact name into memory: nothing is unpacked."""
    path = folder / "scifact.zip"
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(member).file_size > LARGEST_MEMBER:
                raise UserError(f"{path}: {member} is larger than {LARGEST_MEMBER >> 20} MB", _REMEDY)
            text = archive.read(member).decode("utf-8")
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", _REMEDY) from None
    except KeyError:
        raise UserError(f"{path} holds no {member}", _REMEDY) from None
    except (zipfile.BadZipFile, EOFError, RuntimeError, UnicodeDecodeError, OSError) as error:
        raise UserError(f"{path}: {member} cannot be read ({error})", _REMEDY) from None
    return read_table(text, f"{path}: {member}", columns, _REMEDY)


def _scifact_text(folder: Path) -> list[str]:
    return [sentence for _, sentences in _abstracts(folder).values() for sentence in sentences]


def _banking77(folder: Path, setting: str) -> Domain:
    train = _queries(folder, "train")
    if setting == "dev":
        return same_class("Banking77", *train)
    return same_class("Banking77", *_queries(folder, "test"), *train)


def _queries(folder: Path, split: str) -> tuple[list[str], list[str]]:
    path = folder / f"{split}.csv"
    rows = [row for _, row in read_table(read_text(path, _REMEDY), str(path), ("text", "category"), _REMEDY)]
    _count(path, "queries", len(rows), _QUERIES[split])
    return [row["text"] for row in rows], [row["category"] for row in rows]


def _stackoverflow(folder: Path, setting: str) -> Domain:
    titles, topics = _titles(folder)
    first = 0 if setting == "dev" else 1  # odd lines, counted from 1, or even ones
    return same_class("StackOverflow", titles[first::2], topics[first::2])


def _titles(folder: Path) -> tuple[list[str], list[str]]:
    columns = []
    for name in ("title", "label"):
        path = folder / f"{name}_StackOverflow.txt"
        lines = [line.strip() for line in read_text(path, _REMEDY).rstrip("\n").split("\n")]
        _count(path, "lines", len(lines), _TITLES)
        columns.append(lines)
    return columns[0], columns[1]


def _count(path: Path, what: str, found: int, expected: int) -> None:
    if found != expected:
        raise UserError(f"{path}: {found} {what} found, {expected} expected", _REMEDY)


def _member(classes: Labels, count: int) -> csr_array:
    """(N,) -> (N, C): 1 in the column of each text's class."""
    return csr_array((np.ones(len(classes)), (np.arange(len(classes)), classes)), shape=(len(classes), count))


# task -> its folder, its loader (folder, setting), its text (folder)
_KNOWN: dict[str, tuple[str, Callable[[Path, str], Domain], Callable[[Path], list[str]]]] = {
    "SciFact": ("scifact", _scifact, _scifact_text),
    "Banking77": ("banking77", _banking77, lambda folder: _queries(folder, "train")[0]),
    "StackOverflow": ("stackoverflow_titles", _stackoverflow, lambda folder: _titles(folder)[0]),
}
DOMAINS = tuple(_KNOWN)


def _known(task: str) -> tuple[str, Callable[[Path, str], Domain], Callable[[Path], list[str]]]:
    if task not in _KNOWN:
        raise UserError(f"unknown domain {task!r}", f"choose from {', '.join(DOMAINS)}")
    return _KNOWN[task]
