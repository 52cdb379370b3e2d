"""The user's own domain; each mistake is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets.own_domain import read_domain


def write(folder: Path, **files: str) -> Path:
    """`corpus__tsv="…"` -> corpus.tsv; `qrels_test__tsv` -> qrels/test.tsv."""
    for name, text in files.items():
        path = folder / name.replace("__", ".").replace("qrels_", "qrels/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


TREC = {
    "corpus__tsv": "d1\tan apple\nd2\ta pear\nd3\ta stone\n",
    "queries__tsv": "q1\tfruit\nq2\tmineral\nq3\tnothing\n",
    "qrels__txt": "q1 0 d1 2\nq1 0 d2 1\nq2 0 d3 1\nq2 0 d1 -1\n",
}


BEIR = {
    "corpus__jsonl": "".join(
        json.dumps({"_id": key, "title": title, "text": text}) + "\n"
        for key, title, text in [("d1", "an", "apple"), ("d2", "", "a pear"), ("d3", "a", "stone")]
    ),
    "queries__jsonl": "".join(
        json.dumps({"_id": key, "text": text}) + "\n"
        for key, text in [("q1", "fruit"), ("q2", "mineral"), ("q3", "nothing")]
    ),
    "qrels_test__tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t1\nq2\td3\t1\n",
}


@pytest.mark.parametrize("layout", [TREC, BEIR], ids=["trec", "beir"])
def test_own_folder_in_both_layouts(tmp_path: Path, layout: dict[str, str]) -> None:
    domain = read_domain(write(tmp_path / "shop", **layout))
    assert domain.name == "shop"
    assert domain.queries == ["fruit", "mineral", "nothing"]
    assert domain.corpus == ["an apple", "a pear", "a stone"]
    np.testing.assert_array_equal(domain.grades.toarray(), [[2, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert not domain.own
    assert domain.labels is None


def test_own_labelled_file(tmp_path: Path) -> None:
    write(tmp_path, mine__tsv="a\tx\nb\tx\nc\ty\n", mine__csv='label,text\nx,"a, b"\nx,b\ny,c\n')
    for name, first in (("mine.tsv", "a"), ("mine.csv", "a, b")):
        domain = read_domain(tmp_path / name)
        assert (domain.name, domain.queries, domain.own) == ("mine", [first, "b", "c"], True)
        np.testing.assert_array_equal(domain.grades.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"corpus__tsv": ""}, r"corpus\.tsv has 0 rows"),
        ({"queries__tsv": "\n"}, r"queries\.tsv has 0 rows"),
        ({"qrels__txt": ""}, r"qrels\.txt has 0 rows"),
        ({"qrels__txt": "query text grade\n"}, r"qrels\.txt has 0 rows"),
        ({"qrels__txt": "q1 0 d1 0\n"}, r"qrels\.txt marks no text as relevant"),
        ({"qrels__txt": "q1 0 d9 1\n"}, r"qrels\.txt, line 1: the text 'd9' is not in bad"),
        ({"qrels__txt": "q1 0 d1 1\nq9 0 d1 1\n"}, r"qrels\.txt, line 2: the query 'q9' is not in bad"),
        ({"qrels__txt": "q1 0 d1 high\nq1 0 d2 much\n"}, r"line 2: the grade 'much' is not a whole number"),
        ({"qrels__txt": "q1 d1\n"}, r"line 1: 2 column\(s\) instead of 3 or 4"),
        ({"corpus__tsv": "d1\tone\nd1\ttwo\n"}, r"corpus\.tsv, line 2: the id 'd1' occurs twice"),
        ({"corpus__tsv": "d1\t\n"}, r"corpus\.tsv, line 1: the text is empty"),
        ({"corpus__tsv": "d1 without tab\n"}, r"corpus\.tsv, line 1: 1 column\(s\) instead of 2"),
    ],
)
def test_each_mistake_in_a_folder_is_named(tmp_path: Path, changed: dict[str, str], problem: str) -> None:
    with pytest.raises(UserError, match=problem) as caught:
        read_domain(write(tmp_path / "bad", **{**TREC, **changed}))
    assert "\n" not in str(caught.value)


def test_missing_parts_of_a_folder_are_named(tmp_path: Path) -> None:
    for part, problem in [
        ("corpus__tsv", "neither corpus.tsv nor corpus.jsonl"),
        ("queries__tsv", "neither queries.tsv"),
        ("qrels__txt", r"none of qrels\.txt"),
    ]:
        with pytest.raises(UserError, match=problem):
            read_domain(write(tmp_path / part, **{name: text for name, text in TREC.items() if name != part}))
    with pytest.raises(UserError, match="does not exist"):
        read_domain(tmp_path / "nowhere")
    for line, problem in [('{"text": "a"}', "line 1 has no column _id"), ("[1]", "not a JSON object"), ("{", "JSON")]:
        with pytest.raises(UserError, match=problem):
            read_domain(write(tmp_path / "json", **{**BEIR, "corpus__jsonl": line + "\n"}))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.tsv", "", r"a\.tsv has 0 rows"),
        ("a.tsv", "one\tx\ntwo\tx\n", r"a: 1 class\(es\)"),
        ("a.tsv", "one\tx\ntwo\ty\n", "no text shares its class"),
        ("a.tsv", "one\tx\ntwo\n", r"line 2: 1 column\(s\) instead of 2"),
        ("a.tsv", "one\t\n", "line 1: the label is empty"),
        ("a.csv", "text,topic\na,x\n", r"a\.csv has no column label"),
        ("a.csv", "text,label\na,x,z\n", "line 2: not the header's number of columns"),
        ("a.csv", "text,label\n", "0 rows"),
    ],
)
def test_each_mistake_in_a_labelled_file_is_named(tmp_path: Path, name: str, text: str, problem: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=problem):
        read_domain(tmp_path / name)
