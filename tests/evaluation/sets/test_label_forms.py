"""What each form of labels is read as: one table, which docs/labels.md shows."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pytest

from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import read_labels

DOCUMENTATION = Path(__file__).parents[3] / "docs" / "labels.md"

PAIRS = [(f"first {n}", f"second {n}", n % 6) for n in range(12)]
TRIPLES = [(f"where is {n}?", f"{n} is in the north", f"cake {n} is sweet") for n in range(12)]
CLASSES = [(f"a text with number {n}", ["good", "bad"][n % 2]) for n in range(12)]
ANSWERS = [(f"where is track {n}?", f"track {n} is in the north") for n in range(12)]
FAQ = [(f"how do I {verb} {n}?", f"you find it on page {n}") for n in range(6) for verb in "abc"]

PAIRS_READ = "12 pairs"
TRIPLES_READ = "12 questions, 24 texts"
CLASSES_READ = "12 texts, 2 classes"
ANSWERS_READ = "12 questions, 12 texts"
FAQ_READ = "18 questions, 6 texts"


@dataclass(frozen=True)
class Form:
    """A form of labels, in the words of the documentation, and what it is read as: in short, or the
    code of the refusal.
    """

    words: str
    make: Callable[[Path], Any]
    read: str
    columns: Any = None


def file(name: str, rows: list[tuple[Any, ...]], header: str = "") -> Callable[[Path], Path]:
    """A file of these rows, with commas if it is a .csv and else with tabs."""

    def make(folder: Path) -> Path:
        between = "," if name.endswith(".csv") else "\t"
        lines = [header.replace(",", between)] if header else []
        lines += [between.join(map(str, row)) for row in rows]
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return folder / name

    return make


def objects(rows: list[tuple[Any, ...]], names: str) -> Callable[[Path], Path]:
    """A .jsonl file."""

    def make(folder: Path) -> Path:
        lines = [json.dumps(dict(zip(names.split(","), row, strict=True))) for row in rows]
        (folder / "own.jsonl").write_text("\n".join(lines), encoding="utf-8")
        return folder / "own.jsonl"

    return make


def frame(rows: list[tuple[Any, ...]], names: str | None = None) -> Callable[[Path], Any]:
    """A DataFrame; without names its columns are 0, 1, 2."""
    return lambda _: pandas.DataFrame(rows, columns=names.split(",") if names else None)


def dataset(rows: list[tuple[Any, ...]], names: str) -> datasets.Dataset:
    """A Dataset."""
    return datasets.Dataset.from_pandas(pandas.DataFrame(rows, columns=names.split(",")))


def folder(**files: str) -> Callable[[Path], Path]:
    """A judged folder: `qrels__test_tsv` is qrels/test.tsv."""

    def make(parent: Path) -> Path:
        for name, text in files.items():
            path = parent / "own" / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return parent / "own"

    return make


def beir(
    queries: Mapping[str, str], corpus: Mapping[str, str], qrels: list[tuple[str, str, Any]]
) -> Callable[[Path], Path]:
    """A folder in BEIR's layout."""

    def lines(texts: Mapping[str, str]) -> str:
        return "".join(json.dumps({"_id": key, "text": text}) + "\n" for key, text in texts.items())

    judged = "".join("\t".join(map(str, row)) + "\n" for row in qrels)
    return folder(
        queries_jsonl=lines(queries),
        corpus_jsonl=lines(corpus),
        qrels__test_tsv=f"query-id\tcorpus-id\tscore\n{judged}",
    )


QUERIES = {"q1": "fruit", "q2": "mineral"}
CORPUS = {"d1": "an apple", "d2": "a pear", "d3": "a stone"}
QRELS = [("q1", "d1", 2), ("q1", "d2", 1), ("q2", "d3", 1)]
SEARCHES_READ = "2 queries, 3 texts, 3 judged"

FORMS = [
    Form(".tsv: two texts, a number", file("own.tsv", PAIRS), PAIRS_READ),
    Form(
        ".tsv with the header first, second, score",
        file("own.tsv", PAIRS, "first,second,score"),
        PAIRS_READ,
    ),
    Form(
        ".csv with the header sentence1, sentence2, label",
        file("own.csv", PAIRS, "sentence1,sentence2,label"),
        PAIRS_READ,
    ),
    Form(
        ".tsv whose last name alone is known: Satz, anderer, score",
        file("own.tsv", PAIRS, "Satz,anderer,score"),
        PAIRS_READ,
    ),
    Form(
        ".tsv with the unknown header a, b, 5-point",
        file("own.tsv", PAIRS, "a,b,5-point"),
        "bad-score",
    ),
    Form(
        "the same, with columns a,b,5-point",
        file("own.tsv", PAIRS, "a,b,5-point"),
        PAIRS_READ,
        "a,b,5-point",
    ),
    Form("DataFrame with the columns 0, 1, 2: two texts, a number", frame(PAIRS), PAIRS_READ),
    Form("DataFrame with the columns a, b, 5-point", frame(PAIRS, "a,b,5-point"), PAIRS_READ),
    Form(
        "DataFrame with further columns beside first, second, score",
        frame([(n, *row) for n, row in enumerate(PAIRS)], "id,first,second,score"),
        PAIRS_READ,
    ),
    Form(
        "DataFrame whose scores are True and False",
        frame([(a, b, n > 2) for a, b, n in PAIRS], "sentence1,sentence2,is_duplicate"),
        PAIRS_READ,
    ),
    Form(
        "DataFrame with a missing text (None, NaN, NA)",
        frame([(pandas.NA, b, n) for a, b, n in PAIRS], "first,second,score"),
        "empty-cell",
    ),
    Form(
        "DataFrame with a missing score (None, NaN, NA)",
        frame([(a, b, pandas.NA) for a, b, _ in PAIRS], "first,second,score"),
        "bad-score",
    ),
    Form("list of rows: two texts, a number", lambda _: PAIRS, PAIRS_READ),
    Form("NumPy array of texts (N, 3)", lambda _: np.array(PAIRS, dtype=str), PAIRS_READ),
    Form(
        "list of dictionaries",
        lambda _: [dict(zip(("first", "second", "score"), row, strict=True)) for row in PAIRS],
        PAIRS_READ,
    ),
    Form(
        "dictionary of columns",
        lambda _: dict(zip(("first", "second", "score"), zip(*PAIRS, strict=True), strict=True)),
        PAIRS_READ,
    ),
    Form("Dataset", lambda _: dataset(PAIRS, "first,second,score"), PAIRS_READ),
    Form(
        "IterableDataset",
        lambda _: dataset(PAIRS, "first,second,score").to_iterable_dataset(),
        PAIRS_READ,
    ),
    Form(
        "DatasetDict with one split",
        lambda _: datasets.DatasetDict({"train": dataset(PAIRS, "first,second,score")}),
        PAIRS_READ,
    ),
    Form(
        "DatasetDict with a test split: this one",
        lambda _: datasets.DatasetDict(
            {
                "train": dataset(CLASSES, "text,label"),
                "test": dataset(PAIRS, "first,second,score"),
            }
        ),
        PAIRS_READ,
    ),
    Form(
        "DatasetDict with several splits and no test",
        lambda _: datasets.DatasetDict(
            {name: dataset(PAIRS, "first,second,score") for name in ("train", "dev")}
        ),
        "several-splits",
    ),
    Form(".jsonl with first, second, score", objects(PAIRS, "first,second,score"), PAIRS_READ),
    Form(".tsv: three texts", file("own.tsv", TRIPLES), TRIPLES_READ),
    Form("list of rows: three texts", lambda _: TRIPLES, TRIPLES_READ),
    Form("DataFrame with query, pos, neg", frame(TRIPLES, "query,pos,neg"), TRIPLES_READ),
    Form(
        ".csv with the header anchor, positive, negative",
        file("own.csv", TRIPLES, "anchor,positive,negative"),
        TRIPLES_READ,
    ),
    Form(".tsv: a text, a short value that repeats", file("own.tsv", CLASSES), CLASSES_READ),
    Form(
        ".csv with the header sentence, label",
        file("own.csv", [(text, n % 2) for n, (text, _) in enumerate(CLASSES)], "sentence,label"),
        CLASSES_READ,
    ),
    Form("DataFrame with sentence, category", frame(CLASSES, "sentence,category"), CLASSES_READ),
    Form(
        "Dataset with text, label, label_text",
        lambda _: dataset(
            [(text, n % 2, name) for n, (text, name) in enumerate(CLASSES)],
            "text,label,label_text",
        ),
        CLASSES_READ,
    ),
    Form(
        "DataFrame of a text and True or False",
        frame([(text, name == "good") for text, name in CLASSES]),
        CLASSES_READ,
    ),
    Form(
        ".tsv: the class before the text",
        file("own.tsv", [(name, text) for text, name in CLASSES]),
        "ambiguous-labels",
    ),
    Form(
        "the same, with columns label,text, which it lacks",
        file("own.tsv", [(name, text) for text, name in CLASSES]),
        CLASSES_READ,
        "label,text",
    ),
    Form(".tsv: two texts of which none repeats", file("own.tsv", ANSWERS), ANSWERS_READ),
    Form("DataFrame with Frage, Antwort", frame(ANSWERS, "Frage,Antwort"), ANSWERS_READ),
    Form(
        ".csv with the header question, answer",
        file("own.csv", ANSWERS, "question,answer"),
        ANSWERS_READ,
    ),
    Form(".tsv: an FAQ whose answers repeat", file("own.tsv", FAQ), FAQ_READ),
    Form(
        "an FAQ whose short answers repeat now and then",
        lambda _: [*ANSWERS[:5], ("how many?", "two or three"), ("and how many?", "two or three")],
        "7 questions, 6 texts",
    ),
    Form(
        "short values of which few repeat",
        lambda _: [("q1", "a1"), ("q2", "a2"), ("q3", "a1")],
        "ambiguous-labels",
    ),
    Form(
        "the same, with columns question,answer",
        lambda _: [("q1", "a1"), ("q2", "a2"), ("q3", "a1")],
        "3 questions, 2 texts",
        "question,answer",
    ),
    Form(
        "DataFrame with question, answer, label",
        frame([(*row, 1) for row in ANSWERS], "question,answer,label"),
        "ambiguous-labels",
    ),
    Form(
        "DataFrame with question, answer, label, and columns question,answer",
        frame([(*row, 1) for row in ANSWERS], "question,answer,label"),
        ANSWERS_READ,
        "question,answer",
    ),
    Form(
        ".csv with Frage, Antwort and columns question=Frage,answer=Antwort",
        file("own.csv", FAQ, "Frage,Antwort"),
        FAQ_READ,
        "question=Frage,answer=Antwort",
    ),
    Form(
        "a text and a number that never repeats",
        lambda _: [(text, n / 7) for n, (text, _) in enumerate(CLASSES)],
        "ambiguous-labels",
    ),
    Form("list of strings", lambda _: ["one", "two"], "no-table"),
    Form("four columns without known names", frame([(1, 2, 3, 4)] * 12), "wrong-columns"),
    Form("rows of unequal length", lambda _: [*PAIRS, ("only", "two")], "wrong-columns"),
    Form("folder in BEIR's layout", beir(QUERIES, CORPUS, QRELS), SEARCHES_READ),
    Form(
        "folder in TREC's layout",
        folder(
            queries_tsv="q1\tfruit\nq2\tmineral\n",
            corpus_tsv="d1\tan apple\nd2\ta pear\nd3\ta stone\n",
            qrels_txt="q1 0 d1 2\nq1 0 d2 1\nq2 0 d3 1\n",
        ),
        SEARCHES_READ,
    ),
    Form(
        "BEIR: ids with blanks",
        beir(
            QUERIES,
            {"d 1": "an apple", "1": "a pear", "d3": "a stone"},
            [("q1", "d 1", 2), ("q1", "1", 1), ("q2", "d3", 1)],
        ),
        SEARCHES_READ,
    ),
    Form(
        "BEIR: a document without text", beir(QUERIES, {**CORPUS, "d2": ""}, QRELS), SEARCHES_READ
    ),
    Form(
        "BEIR: a query that is a document, by its id and words",
        beir({**QUERIES, "d3": "a stone"}, CORPUS, [*QRELS, ("d3", "d1", 1)]),
        "3 queries, 3 texts, 4 judged, 1 finds not itself",
    ),
    Form(
        "a query with the number of another document",
        folder(
            queries_tsv="1\tfruit\n2\tmineral\n",
            corpus_tsv="1\tan apple\n2\ta pear\n3\ta stone\n",
            qrels_txt="1 0 1 2\n1 0 2 1\n2 0 3 1\n",
        ),
        SEARCHES_READ,
    ),
    Form(
        "dictionaries queries, corpus, qrels, as BEIR's loader has them",
        lambda _: {
            "queries": QUERIES,
            "corpus": {key: {"title": "", "text": text} for key, text in CORPUS.items()},
            "qrels": {"q1": {"d1": 2, "d2": 1}, "q2": {"d3": 1}},
        },
        SEARCHES_READ,
    ),
    Form(
        "dictionaries queries, corpus, relevant_docs, as sentence-transformers has them",
        lambda _: {
            "queries": QUERIES,
            "corpus": CORPUS,
            "relevant_docs": {"q1": {"d1", "d2"}, "q2": {"d3"}},
        },
        SEARCHES_READ,
    ),
    Form(
        "BEIR: a judgement of a text that is not there",
        beir(QUERIES, CORPUS, [("q1", "d9", 1)]),
        "unknown-id",
    ),
]


def in_short(labels: Any) -> str:
    """What was read, as `FORMS` has it."""
    if isinstance(labels, GradedPairs):
        return f"{labels.size} pairs"
    if labels.labels is not None:
        return f"{labels.size} texts, {len(set(labels.labels))} classes"
    if "judgements" not in labels.read_as:
        return f"{labels.size} questions, {len(labels.corpus)} texts"
    told = f"{labels.size} queries, {len(labels.corpus)} texts, {labels.grades.nnz} judged"
    if labels.own_documents is None:
        return told
    return f"{told}, {(labels.own_documents >= 0).sum()} finds not itself"


@pytest.mark.parametrize("form", FORMS, ids=[form.words for form in FORMS])
def test_each_form_is_read_as_what_it_is(form: Form, tmp_path: Path) -> None:
    try:
        found = in_short(read_labels(form.make(tmp_path), form.columns))
    except UserError as error:
        found = error.code
    assert found == form.read


def test_the_documentation_shows_each_form() -> None:
    lines = DOCUMENTATION.read_text(encoding="utf-8").splitlines()
    shown = {
        line.split("|")[1].strip(): line.split("|")[2].strip() for line in lines if "|" in line
    }
    for form in FORMS:
        read = f"refused: {form.read}" if "-" in form.read else form.read
        assert shown.get(form.words.strip()) == read, f"| {form.words.strip()} | {read} |"


def test_a_reading_is_said_in_one_line_and_kept() -> None:
    lines = list[str]()
    table = pandas.DataFrame(PAIRS, columns=["text_a", "text_b", "score"])
    labels = read_labels(table, say=lines.append)
    assert lines == ["labels: 12 graded pairs: text_a, text_b, score"]
    assert labels.read_as == "12 graded pairs: text_a, text_b, score"


def test_the_first_row_is_shown_where_no_header_was_recognised(tmp_path: Path) -> None:
    lines = list[str]()
    read_labels(file("own.tsv", ANSWERS)(tmp_path), say=lines.append)
    assert "without a header; the first row is 'where is track 0?'" in lines[0]


def test_a_bad_score_may_be_a_header_and_the_remedy_says_how(tmp_path: Path) -> None:
    with refused("bad-score", "a,b,5-point"):
        read_labels(file("own.tsv", PAIRS, "a,b,5-point")(tmp_path))


def test_an_ambiguous_table_is_refused_with_both_readings() -> None:
    with pytest.raises(UserError) as error:
        read_labels([("q1", "a1"), ("q2", "a2"), ("q3", "a1")])
    assert "questions and their answers or texts and their classes" in error.value.problem
    assert "columns='question,answer'" in error.value.remedy
    assert "columns='text,label'" in error.value.remedy
