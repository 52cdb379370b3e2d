"""The user's labels: read as written, or refused in one line that says where and how to go on; and
those that ship.
"""

import json
from contextlib import suppress
from pathlib import Path

import datasets
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isotrope.evaluation.sets.similarity
from helpers.refusals import refused
from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import in_words, read_labels, read_pairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, same_class
from isotrope.evaluation.sets.similarity import similarity_pairs

LINES = [f"sentence {n}\tanother {n}\t{n / 2}" for n in range(12)]
TREC = {
    "corpus__tsv": "d1\tan apple\nd2\ta pear\nd3\ta stone\n",
    "queries__tsv": "q1\tfruit\nq2\tmineral\nq3\tnothing\n",
    "qrels__txt": "q1 0 d1 2\nq1 0 d2 1\nq2 0 d3 1\nq2 0 d1 -1\n",
}
BEIR = {
    "corpus__jsonl": '{"_id": "d1", "title": "an", "text": "apple"}\n{"_id": "d2", "title": "", "text": "a pear"}\n'
    '{"_id": "d3", "title": "a", "text": "stone"}\n',
    "queries__jsonl": '{"_id": "q1", "text": "fruit"}\n{"_id": "q2", "text": "mineral"}\n'
    '{"_id": "q3", "text": "nothing"}\n',
    "qrels_test__tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td3\t1\n",
}


def write(folder: Path, **files: str) -> Path:
    """`corpus__tsv="…"` -> corpus.tsv; `qrels_test__tsv` -> qrels/test.tsv."""
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("qrels_", "qrels/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def write_file(folder: Path, content: list[str] | bytes, name: str = "own.tsv") -> Path:
    (folder / name).write_bytes(
        content if isinstance(content, bytes) else "\n".join(content).encode()
    )
    return folder / name


@pytest.mark.parametrize(
    "lines",
    [
        LINES,
        ["sentence1\tsentence2\tscore", *LINES],
        ["a\tb\tgrade", *LINES],
        [
            "id\tscore\tfirst\tsecond",
            *("{2}\t{2}\t{0}\t{1}".format(*line.split("\t")) for line in LINES),
        ],
        [*LINES[:6], "", "  ", *LINES[6:], ""],
        ("\ufeff" + "\r\n".join(LINES) + "\r\n").encode(),
    ],
    ids=[
        "plain",
        "header",
        "other names",
        "more columns",
        "blank lines",
        "mark and windows line ends",
    ],
)
def test_graded_pairs_are_read_in_harmless_variations(
    tmp_path: Path, lines: list[str] | bytes
) -> None:
    pairs = read_pairs(write_file(tmp_path, lines))
    assert (pairs.name, in_words(pairs)) == ("own", "12 graded pairs of own")
    assert (pairs.first[3], pairs.second) == ("sentence 3", [f"another {n}" for n in range(12)])
    np.testing.assert_array_equal(pairs.gold, np.arange(12) / 2)


def test_quotes_mean_something_in_csv_alone(tmp_path: Path) -> None:
    lines = ["a,b,score", '"one, two","say ""hi""",3', *(f"x{n},y{n},{n}" for n in range(10))]
    pairs = read_pairs(write_file(tmp_path, lines, "own.csv"))
    assert (pairs.first[0], pairs.second[0], len(pairs)) == ("one, two", 'say "hi"', 11)
    pairs = read_pairs(write_file(tmp_path, ['he said "no\tline\u2028separator\t1', *LINES]))
    assert (pairs.first[0], pairs.second[0]) == ('he said "no', "line\u2028separator")
    with refused("bad-csv", "own.csv, line 1"):
        read_labels(write_file(tmp_path, ['"open,b,1'], "own.csv"))


def test_tables_in_memory_are_read_like_files(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in LINES]
    columns = dict(zip(("first", "second", "score"), zip(*rows, strict=True), strict=True))
    objects = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
    wanted = read_pairs(write_file(tmp_path, LINES))
    for table in (
        rows,
        pandas.DataFrame(columns),
        datasets.Dataset.from_dict({name: list(values) for name, values in columns.items()}),
        write_file(tmp_path, objects, "own.jsonl"),
        wanted,
    ):
        assert read_pairs(table).checksum() == wanted.checksum()


@pytest.mark.parametrize("layout", [TREC, BEIR], ids=["trec", "beir"])
def test_a_folder_has_queries_and_judgements(tmp_path: Path, layout: dict[str, str]) -> None:
    domain = read_labels(write(tmp_path / "shop", **layout))
    assert (domain.name, in_words(domain)) == ("shop", "3 queries of shop")
    assert domain.queries == ["fruit", "mineral", "nothing"]
    assert domain.corpus == ["an apple", "a pear", "a stone"]
    np.testing.assert_array_equal(domain.grades.toarray(), [[2, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert not domain.own
    assert domain.labels is None


def test_texts_find_those_of_their_class(tmp_path: Path) -> None:
    write(
        tmp_path,
        mine__tsv="a\tx\nb\tx\nc\ty\nd\tx\n",
        mine__csv='label,text\nx,"a, b"\nx,b\ny,c\nx,d\n',
    )
    for name, first in (("mine.tsv", "a"), ("mine.csv", "a, b")):
        searches = read_labels(tmp_path / name)
        assert (searches.name, searches.queries, searches.own) == (
            "mine",
            [first, "b", "c", "d"],
            True,
        )
        np.testing.assert_array_equal(searches.grades.toarray()[0], [0, 1, 0, 1])


def test_other_labels_are_no_graded_pairs(tmp_path: Path) -> None:
    write(tmp_path, mine__tsv="a\tx\nb\tx\nc\ty\nd\tx\n")
    with pytest.raises(UserError) as error:
        read_pairs(tmp_path / "mine.tsv")
    assert error.value.code == "no-graded-pairs"


def test_questions_find_their_answers_among_all(tmp_path: Path) -> None:
    write(tmp_path, named__csv="answer,n,question\na1,1,q1\na1,2,q2\na2,3,q3\n")
    searches = read_labels(tmp_path / "named.csv")
    assert (searches.queries, searches.corpus) == (["q1", "q2", "q3"], ["a1", "a2"])
    np.testing.assert_array_equal(searches.grades.toarray(), [[1, 0], [1, 0], [0, 1]])


def test_a_question_that_is_an_answer_need_not_find_itself() -> None:
    rows = [("one", "two"), ("two", "three"), ("four", "five")]
    searches = read_labels(rows)
    assert searches.corpus == ["two", "three", "five"]
    assert searches.own_documents is not None
    assert searches.own_documents.tolist() == [-1, 0, -1]
    assert "1 queries are documents" in searches.read_as


def test_triples_and_columns_of_any_name(tmp_path: Path) -> None:
    write(tmp_path, triples__csv="anchor,positive,negative\nq1,a1,w1\nq2,4 cats,a1\n")
    write(tmp_path, faq__csv="n,Frage,Antwort,falsch,Note\n1,q1,a1,w1,3\n2,q2,4 cats,a1,5\n")
    domain = read_labels(tmp_path / "triples.csv")
    assert (domain.queries, domain.corpus) == (["q1", "q2"], ["a1", "4 cats", "w1"])
    np.testing.assert_array_equal(domain.grades.toarray(), [[1, 0, 0], [0, 1, 0]])
    frame = pandas.read_csv(tmp_path / "faq.csv")
    for source in (tmp_path / "faq.csv", frame, datasets.Dataset.from_pandas(frame)):
        assert read_labels(source, "Frage, Antwort, falsch").corpus == domain.corpus
        assert read_labels(source, ["Frage", "Antwort"]).corpus == ["a1", "4 cats"]
    rows = [{"links": f"a {n}", "rechts": f"b {n}", "Note": n} for n in range(12)]
    assert read_pairs(read_labels(pandas.DataFrame(rows), "links,rechts,Note")).gold.tolist() == [
        *range(12)
    ]
    with refused("unknown-column", "n, Frage, Antwort, falsch, Note"):
        read_labels(tmp_path / "faq.csv", "Fragen,Antwort")


@pytest.mark.parametrize(
    ("lines", "code", "place"),
    [
        ([], "wrong-columns", "own.tsv"),
        (LINES[:9], "too-few-pairs", "own.tsv"),
        ([*LINES, "only\ttwo"], "wrong-columns", "line 13"),
        (["a\tb\t4,5", *LINES], "bad-score", "line 1"),
        (["a\tb\tnan", *LINES], "bad-score", "line 1"),
        ([*LINES, "\tb\t1"], "empty-cell", "line 13"),
        (["a\tb\t3"] * 20, "too-few-pairs", "own.tsv"),
        ("\n".join(LINES).encode() + b"\ncaf\xe9\tb\t1\n", "not-utf-8", "line 13"),
        (b"\0" * 50, "not-utf-8", "line 1"),
        (["one\tx", "two\tx"], "too-few-classes", "own"),
        (["text\tlabel", "one\tx", "two\ty"], "too-few-classes", "own"),
        (["question\tanswer", "one\tx", "two\tx"], "too-few-answers", "own.tsv"),
        (["text\tlabel", "one\t"], "empty-cell", "line 2"),
    ],
)
def test_each_mistake_in_a_file_is_named(
    tmp_path: Path, lines: list[str] | bytes, code: str, place: str
) -> None:
    with pytest.raises(UserError) as error:
        read_labels(write_file(tmp_path, lines))
    assert error.value.code == code
    assert place in error.value.problem


@pytest.mark.parametrize(
    ("changed", "code", "place"),
    [
        ({"corpus__tsv": ""}, "unknown-id", "qrels.txt, line 1"),
        ({"qrels__txt": "query text grade\n"}, "nothing-relevant", "qrels.txt"),
        ({"qrels__txt": "q1 0 d9 1\n"}, "unknown-id", "qrels.txt, line 1: the text 'd9'"),
        (
            {"qrels__txt": "q1 0 d1 1\nq9 0 d1 1\n"},
            "unknown-id",
            "qrels.txt, line 2: the query 'q9'",
        ),
        ({"qrels__txt": "q1 0 d1 high\nq1 0 d2 much\n"}, "bad-grade", "line 2"),
        ({"qrels__txt": "q1 d1\n"}, "wrong-columns", "line 1"),
        ({"corpus__tsv": "d1\tone\nd1\ttwo\n"}, "bad-id", "corpus.tsv, line 2"),
        ({"queries__tsv": "q1\t\nq2\tb\n"}, "empty-query", "queries.tsv"),
        ({"corpus__tsv": None}, "missing-file", "corpus.tsv, corpus.jsonl"),
        ({**BEIR, "corpus__jsonl": '{"text": "a"}\n'}, "bad-id", "line 1"),
        ({**BEIR, "corpus__jsonl": "[1]\n"}, "bad-json", "line 1"),
    ],
)
def test_each_mistake_in_a_folder_is_named(
    tmp_path: Path, changed: dict[str, str | None], code: str, place: str
) -> None:
    files = changed if changed.keys() == BEIR.keys() else {**TREC, **changed}
    written = {name: text for name, text in files.items() if text is not None}
    with pytest.raises(UserError) as error:
        read_labels(write(tmp_path / "bad", **written))
    assert error.value.code == code
    assert place in error.value.problem


def test_columns_of_objects_are_those_of_all_lines(tmp_path: Path) -> None:
    rows = [
        {"note": "x", "anchor": "q0", "positive": "a0"},
        {"anchor": "q1", "positive": "a1", "negative": "w1"},
    ]
    with refused("empty-cell", "line 1"):
        read_labels(write_file(tmp_path, [json.dumps(row) for row in rows], "own.jsonl"))
    filled = [json.dumps(row | {"negative": "w"}) for row in rows]
    found = read_labels(write_file(tmp_path, filled, "own.jsonl"))
    assert found.corpus == ["a0", "a1", "w"], "the empty note was not asked for"


def test_same_class_among_themselves_and_in_another_corpus() -> None:
    domain = same_class("toy", ["a", "b", "c"], ["x", "x", "y"])
    np.testing.assert_array_equal(domain.grades.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert domain.own
    other = same_class("toy", ["a", "b"], ["y", "z"], ["c", "d"], ["y", "x"])
    np.testing.assert_array_equal(other.grades.toarray(), [[1, 0], [0, 0]])
    assert not other.own
    assert other.labels is not None
    assert list(other.labels) == [1, 2]


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["x.tsv", "x.csv", "x.jsonl"]))
def test_any_bytes_end_in_an_answer_or_a_user_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with suppress(UserError):
        assert isinstance(read_labels(path), RetrievalSet)  # 200 random bytes hold no ten pairs


def test_the_similarity_set_is_whole() -> None:
    pairs, folder = similarity_pairs(), Path(isotrope.evaluation.sets.similarity.__file__).parent
    assert len({*zip(pairs.first, pairs.second, strict=True)}) == len(pairs.gold) == 330
    rows, *grades = (
        pandas.read_csv(folder / f"{name}.tsv", sep="\t")
        for name in ("pairs", "grades_a", "grades_b")
    )
    assert set(rows["construction"].value_counts()) == {33}
    graded = rows.merge(grades[0], on="id").merge(grades[1], on="id")
    assert graded["first"].tolist() == pairs.first
    assert ((graded["grade_x"] + graded["grade_y"]) / 2).tolist() == pairs.gold.tolist()
