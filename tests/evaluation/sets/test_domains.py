"""Domains: what the known ones hold, the user's own in two layouts, and each bad file named in one line."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets import domains
from isotrope.evaluation.sets.domains import DOMAINS, load_domain, same_class, unlabelled
from isotrope.evaluation.sets.own_domain import read_domain
from oracle.similarity import DATA

needs_domains = pytest.mark.skipif(not (DATA / "domain").is_dir(), reason="needs domain/ in ISOTROPE_DATA")


@needs_domains
@pytest.mark.parametrize(
    ("task", "setting", "queries", "corpus", "relevant"),
    [
        ("SciFact", "test", 300, 5183, 339), ("SciFact", "dev", 809, 5183, 919),
        ("Banking77", "test", 3080, 10003, 400120), ("Banking77", "dev", 10003, 10003, 1371952),
        ("StackOverflow", "test", 10000, 10000, 4995828), ("StackOverflow", "dev", 10000, 10000, 4995828),
    ],
)  # fmt: skip
def test_the_known_domains(task: str, setting: str, queries: int, corpus: int, relevant: int) -> None:
    domain = load_domain(DATA, task, setting)
    assert (domain.name, len(domain.queries), len(domain.corpus)) == (task, queries, corpus)
    assert (domain.grades.shape, domain.grades.nnz) == ((queries, corpus), relevant)
    assert all(text.strip() for text in [*domain.queries, *domain.corpus])
    if domain.own:
        assert domain.grades.diagonal().sum() == 0
    if domain.labels is not None:
        assert len(set(domain.labels)) == {"Banking77": 77, "StackOverflow": 20}[task]


@needs_domains
def test_a_claim_finds_the_abstract_that_it_cites() -> None:
    domain = load_domain(DATA, "SciFact", "test")
    row = domain.queries.index("0-dimensional biomaterials show inductive properties.")
    (found,) = domain.grades[[row]].indices
    assert domain.corpus[found].startswith("New opportunities: the use of nanotechnologies")
    assert " Nanotechnologies are emerging platforms" in domain.corpus[found]


@needs_domains
def test_text_for_training_has_no_query_of_the_test() -> None:
    counts = {"SciFact": 45037, "Banking77": 10003, "StackOverflow": 20000}
    for task in DOMAINS:
        text = unlabelled(DATA, task)
        assert len(text) == counts[task]
        if task != "StackOverflow":  # whose titles are queries and corpus at once
            assert len({*text} & {*load_domain(DATA, task).queries}) <= 1  # Banking77 repeats one query


def test_same_class_among_themselves_and_in_another_corpus() -> None:
    domain = same_class("toy", ["a", "b", "c"], ["x", "x", "y"])
    np.testing.assert_array_equal(domain.grades.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert domain.own
    other = same_class("toy", ["a", "b"], ["y", "z"], ["c", "d"], ["y", "x"])
    np.testing.assert_array_equal(other.grades.toarray(), [[1, 0], [0, 0]])
    assert not other.own
    assert other.labels is not None
    assert list(other.labels) == [1, 2]


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
        ({"qrels__txt": "q1 0 d1 0\n"}, r"qrels\.txt calls no text relevant"),
        ({"qrels__txt": "q1 0 d9 1\n"}, r"qrels\.txt, line 1: the text 'd9' is not in bad"),
        ({"qrels__txt": "q1 0 d1 1\nq9 0 d1 1\n"}, r"qrels\.txt, line 2: the query 'q9' is not in bad"),
        ({"qrels__txt": "q1 0 d1 high\nq1 0 d2 much\n"}, r"line 2: the grade 'much' is no whole number"),
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


CORPUS = "doc_id,title,abstract,structured\n7,A title.,\"['It''s one.'\n 'Two.']\",False\n"
CLAIMS = "id,claim,evidence_doc_id,evidence_label,evidence_sentences,cited_doc_ids\n1,A claim.,,,[],[7]\n"


def archive(root: Path, corpus: str = CORPUS, claims: str = CLAIMS, name: str = "claims_validation.csv") -> Path:
    folder = root / "domain" / "scifact"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "scifact.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("corpus_train.csv", corpus.replace("''", "\\'"))
        file.writestr(name, claims)
    return root


@pytest.fixture
def _one_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "_ABSTRACTS", 1)
    monkeypatch.setattr(domains, "_CLAIMS", {"test": ("claims_validation.csv", 1)})


@pytest.mark.usefixtures("_one_of_each")
def test_a_printed_array_is_read(tmp_path: Path) -> None:
    assert load_domain(archive(tmp_path), "SciFact").corpus == ["A title. It's one. Two."]
    assert unlabelled(tmp_path, "SciFact") == ["It's one.", "Two."]


def cut(root: Path) -> None:
    path = root / "domain" / "scifact" / "scifact.zip"
    path.write_bytes(path.read_bytes()[:-40])


def spoil(root: Path) -> None:
    path = root / "domain" / "scifact" / "scifact.zip"
    raw = bytearray(path.read_bytes())
    raw[60] ^= 0xFF  # within the first member's compressed text
    path.write_bytes(raw)


BAD_ARCHIVES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda root: (root / "domain").mkdir(), r"scifact\.zip does not exist"),
    "truncated": (lambda root: cut(archive(root)), r"scifact\.zip: corpus_train\.csv cannot be read"),
    "damaged": (lambda root: spoil(archive(root)), r"corpus_train\.csv cannot be read"),
    "a path escape": (
        lambda root: archive(root, name="../claims_validation.csv"), r"scifact\.zip holds no claims_validation\.csv"
    ),
    "a missing column": (lambda root: archive(root, claims="id,claim\n1,A.\n"), "no column cited_doc_ids"),
    "an unknown abstract": (lambda root: archive(root, claims=CLAIMS.replace("[7]", "[7 8]")), "abstract 8 is cited"),
    "too few claims": (lambda root: archive(root, claims=CLAIMS.split("\n")[0] + "\n"), "0 claims .*, 1 expected"),
    "too few abstracts": (lambda root: archive(root, CORPUS.split("\n")[0] + "\n"), "0 abstracts found, 1 expected"),
    "another text": (lambda root: archive(root, CORPUS.replace("'Two.'", "Two.")), "no printed array"),
}  # fmt: skip


@pytest.mark.usefixtures("_one_of_each")
@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_each_bad_archive_is_named(tmp_path: Path, case: str) -> None:
    make, problem = BAD_ARCHIVES[case]
    make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=problem) as caught:
        load_domain(tmp_path, "SciFact")
    assert "\n" not in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before  # nothing is unpacked


@pytest.mark.usefixtures("_one_of_each")
def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "LARGEST_MEMBER", 20)
    with pytest.raises(UserError, match="is larger than"):
        load_domain(archive(tmp_path), "SciFact")


def test_unknown_names_and_wrong_counts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown domain 'SciFacts'"):
        load_domain(tmp_path, "SciFacts")
    with pytest.raises(UserError, match="no setting 'train'"):
        load_domain(tmp_path, "SciFact", "train")
    banking, titles = tmp_path / "domain" / "banking77", tmp_path / "domain" / "stackoverflow_titles"
    write(banking, train__csv="text,category\na,x\n", test__csv="text,intent\na,x\n")
    with pytest.raises(UserError, match=r"train\.csv: 1 queries found, 10003 expected"):
        load_domain(tmp_path, "Banking77")
    write(titles, title_StackOverflow__txt="one\ntwo\n")
    with pytest.raises(UserError, match=r"title_StackOverflow\.txt: 2 lines found, 20000 expected"):
        load_domain(tmp_path, "StackOverflow")
