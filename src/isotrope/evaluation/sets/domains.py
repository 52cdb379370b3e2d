"""Five known domains: texts, what is relevant to what, and the text of each unlabelled.

- SciFact (Wadden et al., EMNLP 2020, https://aclanthology.org/2020.emnlp-main.609): claims find the abstracts that they
  cite, title and sentences as one text.
- Banking77 (Casanueva et al., 2020, https://aclanthology.org/2020.nlp4convai-1.5): customers' queries find queries of
  the same intent.
- StackOverflow (Xu et al., 2015, https://aclanthology.org/W15-1509): titles find titles of the same topic.
- CACM (titles and abstracts of computing papers) and NPL (abstracts of physics and electronics): questions find
  documents. Classic collections, https://ir.dcs.gla.ac.uk/resources/test_collections/.

"test" is for what is reported, "dev" for choosing settings. SciFact's test has its dev claims, since its test claims
are unlabelled; its dev has the train claims. Banking77's test has its test split against its train split, as a new
query meets old ones; its dev has the train split against itself. Nobody has split StackOverflow: test has the even
lines against themselves, dev the odd ones. CACM and NPL have "test" alone. A text never finds itself.
"""

from __future__ import annotations

import ast
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from isotrope.errors import UserError
from isotrope.evaluation.sets.domain import Domain, TableRow, read_table, relevant, same_class
from isotrope.evaluation.sets.labels import read_judged
from isotrope.evaluation.sets.pairs import read_text
from isotrope.evaluation.sets.senteval import data_folder

LARGEST_MEMBER = 1 << 28  # bytes of an archive's member: more is no data of ours

_REMEDY = "check the download, and set ISOTROPE_DATA or pass --data with the folder that holds domain/"
_CLAIMS = {"dev": ("claims_train.csv", 809), "test": ("claims_validation.csv", 300)}
_ABSTRACTS = 5183
_QUERIES = {"train": 10003, "test": 3080}
_TITLES = 20000


def load_domain(data: str | Path | None, task: str, setting: str = "test") -> Domain:
    """One of the known domains, from `domain/` in the data folder (None: ISOTROPE_DATA).

    Raises UserError for an unknown task or setting, a missing or damaged file, a missing column, a wrong row count or
    an abstract that is cited and not there.
    """
    if setting not in DOMAIN_TASKS:
        raise UserError(f"retrieval has no setting {setting!r}", f"choose from {', '.join(DOMAIN_TASKS)}")
    folder, load, _ = _known(task)
    if task not in DOMAIN_TASKS[setting]:
        raise UserError(f"{task} has no setting {setting!r}", f"choose from {', '.join(DOMAIN_TASKS[setting])}")
    return load(data_folder(data) / "domain" / folder, setting)


def unlabelled(data: str | Path | None, task: str) -> list[str]:
    """The domain's text for training, without its labels.

    SciFact: every sentence of every abstract (those that the test's claims cite too, but no claim); Banking77: the
    train split's queries; StackOverflow: all titles; CACM and NPL: all documents.

    Raises UserError as `load_domain` does.
    """
    folder, _, text = _known(task)
    return text(data_folder(data) / "domain" / folder)


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


def _cacm(folder: Path, _setting: str = "test") -> Domain:
    return _collection("CACM", folder, 64, 3204)


def _npl(folder: Path, _setting: str = "test") -> Domain:
    return _collection("NPL", folder, 93, 11426)


def _collection(name: str, folder: Path, queries: int, documents: int) -> Domain:
    domain = replace(read_judged(folder), name=name)
    _count(folder, "queries", len(domain.queries), queries)
    _count(folder, "documents", len(domain.corpus), documents)
    return domain


# task -> its folder, its loader (folder, setting), its text (folder)
_KNOWN: dict[str, tuple[str, Callable[[Path, str], Domain], Callable[[Path], list[str]]]] = {
    "SciFact": ("scifact", _scifact, _scifact_text),
    "Banking77": ("banking77", _banking77, lambda folder: _queries(folder, "train")[0]),
    "StackOverflow": ("stackoverflow_titles", _stackoverflow, lambda folder: _titles(folder)[0]),
    "CACM": ("cacm", _cacm, lambda folder: _cacm(folder).corpus),
    "NPL": ("npl", _npl, lambda folder: _npl(folder).corpus),
}
DOMAINS = tuple(_KNOWN)
DOMAIN_TASKS = {"test": DOMAINS, "dev": ("SciFact", "Banking77", "StackOverflow")}


def _known(task: str) -> tuple[str, Callable[[Path, str], Domain], Callable[[Path], list[str]]]:
    if task not in _KNOWN:
        raise UserError(f"unknown domain {task!r}", f"choose from {', '.join(DOMAINS)}")
    return _KNOWN[task]
