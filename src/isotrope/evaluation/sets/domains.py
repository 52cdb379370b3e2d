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

import ast
import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from isotrope.errors import UserError, one_of
from isotrope.evaluation.sets.domain import Domain, relevant, same_class
from isotrope.evaluation.sets.known import counted, data_folder, downloaded, lines_of
from isotrope.evaluation.sets.labels import read_judged

_CLAIMS = {"dev": ("claims_train.csv", 809), "test": ("claims_validation.csv", 300)}
_ABSTRACTS = 5183
_QUERIES = {"train": 10003, "test": 3080}
_TITLES = 20000


def load_domain(data: str | Path | None, task: str, setting: str = "test") -> Domain:
    """One of the known domains, from `domain/` in the data folder (None: ISOTROPE_DATA).

    Raises UserError for an unknown task or setting, and a file that is missing or not as it was published.
    """
    known = DOMAIN_TASKS.get(setting, ())
    if task not in known:
        raise UserError(f"{task} with the setting {setting!r} is unknown", one_of(task, known or DOMAIN_TASKS))
    folder, load, _ = _KNOWN[task]
    return load(data_folder(data) / "domain" / folder, setting)


def unlabelled(data: str | Path | None, task: str) -> list[str]:
    """The domain's text for training, without its labels.

    SciFact: every sentence of every abstract (those that the test's claims cite too, but no claim); Banking77: the
    train split's queries; StackOverflow: all titles; CACM and NPL: all documents.

    Raises UserError as `load_domain` does.
    """
    folder, _, text = _KNOWN[task]
    return text(data_folder(data) / "domain" / folder)


def _scifact(folder: Path, setting: str) -> Domain:
    abstracts = _abstracts(folder)
    corpus = {key: " ".join([title, *sentences]) for key, (title, sentences) in abstracts.items()}
    member, expected = _CLAIMS[setting]
    with downloaded(folder / "scifact.zip"):
        rows = _member(folder, member)  # one for each piece of evidence
        claims = {row["id"]: row["claim"] for row in rows}
        counted([*claims], expected)
        judged = {(row["id"], cited): 1 for row in rows for cited in row["cited_doc_ids"].strip("[]").split()}
        return relevant("SciFact", claims, corpus, judged)


def _abstracts(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Id -> title and sentences. An abstract is a printed numpy array: a Python string literal a line, in brackets."""
    with downloaded(folder / "scifact.zip"):
        return {
            row["doc_id"]: (
                row["title"],
                [str(ast.literal_eval(line.strip())) for line in row["abstract"].strip()[1:-1].split("\n")],
            )
            for row in counted(_member(folder, "corpus_train.csv"), _ABSTRACTS)
        }


def _member(folder: Path, name: str) -> list[dict[str, str]]:
    """Rows of one file in SciFact's archive, read by its exact name into memory: nothing is unpacked."""
    with zipfile.ZipFile(folder / "scifact.zip") as archive:
        return list(_rows(archive.read(name).decode("utf-8")))


def _rows(text: str) -> Iterator[dict[str, str]]:
    return csv.DictReader(io.StringIO(text, newline=""), strict=True)


def _banking77(folder: Path, setting: str) -> Domain:
    train = _queries(folder, "train")
    if setting == "dev":
        return same_class("Banking77", *train)
    return same_class("Banking77", *_queries(folder, "test"), *train)


def _queries(folder: Path, split: str) -> tuple[list[str], list[str]]:
    path = folder / f"{split}.csv"
    with downloaded(path):
        rows = counted(list(_rows(path.read_text(encoding="utf-8"))), _QUERIES[split])
        return [row["text"] for row in rows], [row["category"] for row in rows]


def _stackoverflow(folder: Path, setting: str) -> Domain:
    titles, topics = _titles(folder)
    first = 0 if setting == "dev" else 1  # odd lines, counted from 1, or even ones
    return same_class("StackOverflow", titles[first::2], topics[first::2])


def _titles(folder: Path) -> tuple[list[str], list[str]]:
    columns = []
    for name in ("title", "label"):
        path = folder / f"{name}_StackOverflow.txt"
        with downloaded(path):
            columns.append([line.strip() for line in counted(lines_of(path), _TITLES)])
    return columns[0], columns[1]


def _collection(name: str, folder: Path, queries: int, documents: int) -> Domain:
    domain = replace(read_judged(folder), name=name)
    with downloaded(folder):
        counted(domain.queries, queries)
        counted(domain.corpus, documents)
    return domain


def _cacm(folder: Path, _setting: str = "test") -> Domain:
    return _collection("CACM", folder, 64, 3204)


def _npl(folder: Path, _setting: str = "test") -> Domain:
    return _collection("NPL", folder, 93, 11426)


# task -> its folder, its loader (folder, setting), its text (folder)
_KNOWN: dict[str, tuple[str, Callable[[Path, str], Domain], Callable[[Path], list[str]]]] = {
    "SciFact": ("scifact", _scifact, lambda folder: [s for _, found in _abstracts(folder).values() for s in found]),
    "Banking77": ("banking77", _banking77, lambda folder: _queries(folder, "train")[0]),
    "StackOverflow": ("stackoverflow_titles", _stackoverflow, lambda folder: _titles(folder)[0]),
    "CACM": ("cacm", _cacm, lambda folder: _cacm(folder).corpus),
    "NPL": ("npl", _npl, lambda folder: _npl(folder).corpus),
}
DOMAINS = tuple(_KNOWN)
DOMAIN_TASKS = {"test": DOMAINS, "dev": ("SciFact", "Banking77", "StackOverflow")}
