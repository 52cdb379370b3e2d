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
    with pytest.raises(UserError, match=r"own\.csv, line 1"):
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
    assert not domain.searches_itself
    assert domain.classes is None


def test_texts_with_classes_and_questions_with_answers(tmp_path: Path) -> None:
    write(
        tmp_path,
        mine__tsv="a\tx\nb\tx\nc\ty\nd\tx\n",
        mine__csv='label,text\nx,"a, b"\nx,b\ny,c\nx,d\n',
    )
    for name, first in (("mine.tsv", "a"), ("mine.csv", "a, b")):
        domain = read_labels(tmp_path / name)
        assert (domain.name, domain.queries, domain.searches_itself) == (
            "mine",
            [first, "b", "c", "d"],
            True,
        )
        np.testing.assert_array_equal(domain.grades.toarray()[0], [0, 1, 0, 1])
    with pytest.raises(UserError, match="4 queries of mine"):
        read_pairs(tmp_path / "mine.csv")
    write(
        tmp_path,
        mine__tsv="q1\ta1\nq2\ta2\nq3\ta1\n",
        named__csv="answer,n,question\na1,1,q1\na1,2,q2\na2,3,q3\n",
    )
    domain = read_labels(tmp_path / "mine.tsv")
    assert (domain.queries, domain.corpus, domain.classes) == (
        ["q1", "q2", "q3"],
        ["a1", "a2"],
        None,
    )
    np.testing.assert_array_equal(domain.grades.toarray(), [[1, 0], [0, 1], [1, 0]])
    assert read_labels(tmp_path / "named.csv").corpus == ["a1", "a2"]


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
    with pytest.raises(
        UserError, match=r"has no column 'Fragen': choose from n, Frage, Antwort, falsch, Note"
    ):
        read_labels(tmp_path / "faq.csv", "Fragen,Antwort")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], r"0 column\(s\) instead of 2 or 3"),
        (LINES[:9], "9 pair.*at least 10"),
        ([*LINES, "only\ttwo"], "line 13: 2 column"),
        (["a\tb\t4,5", *LINES], "line 1: the score '4,5'"),
        (["a\tb\tnan", *LINES], "line 1: the score 'nan'"),
        ([*LINES, "\tb\t1"], "line 13: the first cell is empty"),
        (["a\tb\t3"] * 20, r"20 pair\(s\) with 1 score"),
        ("\n".join(LINES).encode() + b"\ncaf\xe9\tb\t1\n", "line 13: not UTF-8"),
        (b"\0" * 50, "line 1: not UTF-8 text"),
        (["one\tx", "two\tx"], r"2 texts of 1 class\(es\)"),
        (
            ["text\tlabel", "one\tx", "two\ty"],
            r"2 texts of 2 class\(es\): give .* several texts of a class",
        ),
        (["question\tanswer", "one\tx", "two\tx"], r"1 answer\(s\)"),
        (["text\tlabel", "one\t"], "line 2: the label cell is empty"),
    ],
)
def test_each_mistake_in_a_file_is_named(
    tmp_path: Path, lines: list[str] | bytes, words: str
) -> None:
    with pytest.raises(UserError, match=f"own.*{words}"):
        read_labels(write_file(tmp_path, lines))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"corpus__tsv": ""}, r"the text 'd1' is not in bad"),
        ({"qrels__txt": "query text grade\n"}, r"qrels\.txt marks no text as relevant"),
        ({"qrels__txt": "q1 0 d9 1\n"}, r"qrels\.txt, line 1: the text 'd9' is not in bad"),
        (
            {"qrels__txt": "q1 0 d1 1\nq9 0 d1 1\n"},
            r"qrels\.txt, line 2: the query 'q9' is not in bad",
        ),
        (
            {"qrels__txt": "q1 0 d1 high\nq1 0 d2 much\n"},
            r"line 2: the grade 'much' is not a whole number",
        ),
        ({"qrels__txt": "q1 d1\n"}, r"line 1: 2 column\(s\) instead of 3 or 4"),
        ({"corpus__tsv": "d1\tone\nd1\ttwo\n"}, r"corpus\.tsv, line 2: .* id 'd1' occurs twice"),
        ({"corpus__tsv": "d1\t\n"}, r"corpus\.tsv, line 1: .* text is empty"),
        ({"corpus__tsv": None}, r"none of corpus\.tsv, corpus\.jsonl"),
        ({**BEIR, "corpus__jsonl": '{"text": "a"}\n'}, "line 1: the id .* is empty"),
        ({**BEIR, "corpus__jsonl": "[1]\n"}, "line 1: not a JSON object"),
    ],
)
def test_each_mistake_in_a_folder_is_named(
    tmp_path: Path, changed: dict[str, str | None], problem: str
) -> None:
    files = changed if changed.keys() == BEIR.keys() else {**TREC, **changed}
    with pytest.raises(UserError, match=problem):
        read_labels(
            write(
                tmp_path / "bad", **{name: text for name, text in files.items() if text is not None}
            )
        )


def test_columns_of_objects_are_those_of_all_lines(tmp_path: Path) -> None:
    rows = [
        {"note": "x", "anchor": "q0", "positive": "a0"},
        {"anchor": "q1", "positive": "a1", "negative": "w1"},
    ]
    with pytest.raises(UserError, match="line 1: the negative cell is empty"):
        read_labels(write_file(tmp_path, [json.dumps(row) for row in rows], "own.jsonl"))
    filled = [json.dumps(row | {"negative": "w"}) for row in rows]
    found = read_labels(write_file(tmp_path, filled, "own.jsonl"))
    assert found.corpus == ["a0", "a1", "w"], "the empty note was not asked for"


def test_same_class_among_themselves_and_in_another_corpus() -> None:
    domain = same_class("toy", ["a", "b", "c"], ["x", "x", "y"])
    np.testing.assert_array_equal(domain.grades.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert domain.searches_itself
    other = same_class("toy", ["a", "b"], ["y", "z"], ["c", "d"], ["y", "x"])
    np.testing.assert_array_equal(other.grades.toarray(), [[1, 0], [0, 0]])
    assert not other.searches_itself
    assert other.classes is not None
    assert list(other.classes) == [1, 2]


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
