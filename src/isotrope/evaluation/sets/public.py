"""Five known domains: texts, and what is relevant to what.

- SciFact (Wadden et al., EMNLP 2020, https://aclanthology.org/2020.emnlp-main.609): claims find the
  abstracts that they cite, title and sentences as one text.
- Banking77 (Casanueva et al., 2020, https://aclanthology.org/2020.nlp4convai-1.5): customers'
  queries find queries of the same intent.
- StackOverflow (Xu et al., 2015, https://aclanthology.org/W15-1509): titles find titles of the same
  topic.
- CACM (titles and abstracts of computing papers) and NPL (abstracts of physics and electronics):
  questions find documents. Classic collections,
  https://ir.dcs.gla.ac.uk/resources/test_collections/.

"test" is for what is reported, "dev" for choosing settings. SciFact's test has its dev claims,
since its test claims are unlabelled; its dev has the train claims. Banking77's test has its test
split against its train split; its dev has the train split against itself. StackOverflow has even
lines in test, odd ones in dev. CACM and NPL have "test" alone.
"""

import ast
import csv
import io
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import IO

from isotrope.evaluation.sets.files import DataFolder, counted, data_folder, downloaded, lines_of
from isotrope.evaluation.sets.judged_folder import read_judged_folder
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, from_judgements, same_class

_CLAIMS = {"dev": ("claims_train.csv", 809), "test": ("claims_validation.csv", 300)}
_ABSTRACTS = 5183
_QUERIES = {"train": 10003, "test": 3080}
_TITLES = 20000
_COLLECTIONS = {"CACM": (64, 3204), "NPL": (93, 11426)}  # queries, documents
PUBLIC_SETS = ("SciFact", "Banking77", "StackOverflow", *_COLLECTIONS)
RETRIEVAL_TASKS = {"test": PUBLIC_SETS, "dev": PUBLIC_SETS[:3]}


def load_retrieval_set(data: DataFolder, task: str, setting: str = "test") -> RetrievalSet:
    """One of the known domains, from `domain/` in the data folder, as it was published.

    Args:
        data: the data folder; None: the one that ISOTROPE_DATA names.
        task: one of `PUBLIC_SETS`.
        setting: "test", or "dev" for the first three sets.

    Raises:
        UserError: a file that is missing or not as it was published.
    """
    folder = data_folder(data) / "domain"
    if task == "SciFact":
        return _scifact(folder / "scifact", setting)
    if task == "Banking77":
        return _banking(folder / "banking77", setting)
    if task == "StackOverflow":
        return _stackoverflow(folder / "stackoverflow_titles", setting)
    return _collection(folder / task.lower(), task)


def _collection(folder: Path, task: str) -> RetrievalSet:
    """CACM or NPL."""
    searches = replace(read_judged_folder(folder), name=task)
    query_count, document_count = _COLLECTIONS[task]
    with downloaded(folder):
        counted(searches.queries, query_count)
        counted(searches.corpus, document_count)
    return searches


def _scifact(folder: Path, setting: str) -> RetrievalSet:
    corpus = {}
    for key, (title, sentences) in scifact_abstracts(folder).items():
        corpus[key] = " ".join([title, *sentences])

    member, expected = _CLAIMS[setting]
    with downloaded(folder / "scifact.zip"):
        rows = _member(folder, member)  # one for each piece of evidence
        claims = {row["id"]: row["claim"] for row in rows}
        counted(list(claims), expected)

        judged = {}
        for row in rows:
            cited_ids = row["cited_doc_ids"].strip("[]").split()
            for document_id in cited_ids:
                judged[row["id"], document_id] = 1
        return from_judgements("SciFact", claims, corpus, judged)


def scifact_abstracts(folder: Path) -> dict[str, tuple[str, list[str]]]:
    """Id -> title and sentences.

    Raises UserError for a file that is missing or not as it was published.
    """
    with downloaded(folder / "scifact.zip"):
        rows = counted(_member(folder, "corpus_train.csv"), _ABSTRACTS)
        abstracts = {}
        for row in rows:
            sentences = _sentences(row["abstract"])
            abstracts[row["doc_id"]] = (row["title"], sentences)
        return abstracts


def _sentences(abstract: str) -> list[str]:
    """The sentences of a printed NumPy array: a Python string literal a line, in brackets."""
    lines = abstract.strip()[1:-1].split("\n")
    return [str(ast.literal_eval(line.strip())) for line in lines]


def _member(folder: Path, name: str) -> list[dict[str, str]]:
    """Rows of one file in SciFact's archive."""
    with zipfile.ZipFile(folder / "scifact.zip") as archive, archive.open(name) as file:
        return _rows(file)


def _rows(file: IO[bytes]) -> list[dict[str, str]]:
    text = io.TextIOWrapper(file, "utf-8", newline="")
    return list(csv.DictReader(text, strict=True))


def _banking(folder: Path, setting: str) -> RetrievalSet:
    corpus, corpus_intents = banking_queries(folder, "train")
    if setting == "dev":
        return same_class("Banking77", corpus, corpus_intents)
    queries, intents = banking_queries(folder, "test")
    return same_class("Banking77", queries, intents, corpus, corpus_intents)


def banking_queries(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """Banking77's queries (N,) of a split, "train" or "test", and the intent of each (N,).

    Raises UserError for a file that is missing or not as it was published.
    """
    path = folder / f"{split}.csv"
    with downloaded(path), path.open("rb") as file:
        rows = counted(_rows(file), _QUERIES[split])
        queries = [row["text"] for row in rows]
        intents = [row["category"] for row in rows]
        return queries, intents


def _stackoverflow(folder: Path, setting: str) -> RetrievalSet:
    titles = _column(folder / "title_StackOverflow.txt")
    topics = _column(folder / "label_StackOverflow.txt")
    first = 0 if setting == "dev" else 1  # odd lines, counted from 1, or even ones
    return same_class("StackOverflow", titles[first::2], topics[first::2])


def _column(path: Path) -> list[str]:
    with downloaded(path):
        lines = counted(lines_of(path), _TITLES)
        return [line.strip() for line in lines]
