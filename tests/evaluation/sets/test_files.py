"""Known sets as they lie on disk: what they hold, each mistake named, and the checksum of their
folder.
"""

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.sets import public
from isotrope.evaluation.sets.files import data_checksum
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.sets.senteval import (
    CLASSES,
    STS_TASKS,
    SUBSETS,
    TRANSFER_TASKS,
    load_sts,
    load_transfer,
)
from isotrope.evaluation.suite import SUITES
from oracle.similarity import DATA, HashEncoder, needs_data


@needs_data
def test_counts_of_sts_with_its_default_splits() -> None:
    totals = {task: [len(pairs) for pairs in load_sts(DATA, task).values()] for task in STS_TASKS}
    assert [sum(totals[task]) for task in SUBSETS] == [3108, 1500, 3750, 3000, 1186]
    assert (totals["STSBenchmark"], totals["SICKRelatedness"]) == ([1500, 1379], [500, 4927])


@needs_data
def test_counts_and_classes_of_the_transfer_tasks() -> None:
    counts = {
        "MR": [10662],
        "CR": [3775],
        "SUBJ": [10000],
        "MPQA": [10606],
        "SST2": [67349, 872, 1821],
    }
    counts |= {"SST5": [8544, 1101, 2210], "TREC": [5452, 500], "MRPC": [4076, 1725]}
    for task in TRANSFER_TASKS:
        parts = load_transfer(DATA, task)
        assert [len(part.labels) for part in parts.values()] == counts[task]
        for part in parts.values():
            assert len(part.labels) == len(part.first) == len(part.second or part.first)
            assert set(part.labels) == set(range(CLASSES[task]))
            assert all(" ".join(s.split()) == s for s in part.first)


@needs_data
def test_text_is_as_in_the_files() -> None:
    sick = load_sts(DATA / "senteval", "SICKRelatedness", ("dev",))["dev"]
    assert sick.first[0] == "The young boys are playing outdoors and the man is smiling nearby"
    assert sick.gold[0] == 3.6
    trec = load_transfer(DATA, "TREC")["train"]
    assert (trec.first[0], trec.labels[0]) == (
        "How did serfdom develop in and then leave Russia ?",
        1,
    )
    assert sum(not sentence.isascii() for sentence in trec.first) == 1  # latin-1
    mrpc = load_transfer(DATA, "MRPC")["train"]
    assert mrpc.second is not None
    assert mrpc.first[0].startswith("Amrozi accused his brother")
    assert mrpc.second[0].startswith("Referring to him as only")
    assert mrpc.labels[0] == 1
    cr = load_transfer(DATA, "CR")["all"]
    assert cr.first.count("") == 4  # blank lines count
    assert (cr.labels[0], cr.labels[-1]) == (1, 0)
    sst = load_transfer(DATA, "SST5")["dev"]
    assert (sst.first[1], sst.labels[1]) == ("one long string of cliches .", 1)


GOLD, INPUT = (f"STS/STS12-en-test/STS.{kind}.MSRpar.txt" for kind in ("gs", "input"))
MRPC, SUBJ = "MRPC/msr_paraphrase_train.txt", "SUBJ/subj.subjective"
DAMAGE: list[tuple[str, str, Callable[[bytes], bytes] | None, str]] = [
    ("STS12", GOLD, None, "STS.gs.MSRpar.txt does not exist"),
    ("STS12", GOLD, lambda t: t[t.index(b"\n") :], "749 rows found, 750 expected"),
    ("STS12", GOLD, lambda t: b"x" + t, "damaged .*'x"),
    ("STS12", INPUT, lambda t: b"no tab" + t[t.index(b"\n") :], "damaged"),
    (
        "STSBenchmark",
        "STS/STSBenchmark/sts-dev.csv",
        lambda t: t[t.index(b"\n") + 1 :],
        "1499 .* 1500 expected",
    ),
    (
        "SICKRelatedness",
        "SICK/SICK_trial.txt",
        lambda t: t.decode().encode("utf-16"),
        "damaged .*utf-8",
    ),
    ("SUBJ", SUBJ, lambda t: b"".join(t.splitlines(True)[:20]), "20 .* 5000 expected"),
    ("SUBJ", SUBJ, lambda t: b"".join(t.splitlines(True)[:20] * 250), "repeated: a corrupt SUBJ"),
    (
        "TREC",
        "TREC/train_5500.label",
        lambda t: t.replace(b"DESC:manner", b"DESK:manner", 1),
        "damaged",
    ),
    ("MRPC", MRPC, lambda t: t.replace(b"1\t702876", b"1\t0\t702876", 1), "or too many"),
]


@needs_data
@pytest.mark.parametrize(("task", "file", "damage", "words"), DAMAGE)
def test_bad_data_is_named_in_one_line_before_long_work(
    tmp_path: Path, task: str, file: str, damage: Callable[[bytes], bytes] | None, words: str
) -> None:
    folder = str(Path(file).parent)
    path = tmp_path / "downstream" / file
    shutil.copytree(
        DATA / "senteval/downstream" / folder,
        tmp_path / "downstream" / folder,
        copy_function=shutil.copy,
    )
    path.chmod(0o644)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    encoder = HashEncoder()
    with pytest.raises(UserError, match=words) as caught:
        suite.run(encoder, "sts" if task in STS_TASKS else "transfer", tmp_path, tasks=[task])
    assert path.name in str(caught.value)
    assert "ISOTROPE_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not encoder.calls


def test_missing_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_sts(tmp_path / "nowhere", "STS12")
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    with pytest.raises(UserError, match="no data folder given"):
        load_sts(None, "STS12")
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    for given in (None, tmp_path):
        with pytest.raises(
            UserError, match=r"senteval/downstream/STS/.* does not exist: check the download"
        ):
            load_sts(given, "STS12")


@pytest.mark.parametrize("given", ["", "senteval", "senteval/downstream"])
def test_the_checksum_sees_bytes_and_names_from_wherever_the_data_are_named(
    tmp_path: Path, given: str
) -> None:
    """The data folder may be SentEval's own. It may hold much else, which is not read."""
    folder, seen = tmp_path / "senteval" / "downstream" / "STS", []
    folder.mkdir(parents=True)
    for file, content in (("scores", "1"), ("scores", "2"), ("gold", "2")):
        for old in folder.iterdir():
            old.unlink()
        (folder / file).write_text(content)
        seen.append(data_checksum(tmp_path / given, SUITES["sts"].folders))
    (tmp_path / "mine").write_text("text")
    assert len(set(seen)) == 3
    assert data_checksum(tmp_path / given, SUITES["sts"].folders) == seen[-1]


needs_domains = pytest.mark.skipif(
    not (DATA / "domain").is_dir(), reason="needs domain/ in ISOTROPE_DATA"
)


@needs_domains
@pytest.mark.parametrize(
    ("task", "setting", "queries", "corpus", "relevant"),
    [
        ("SciFact", "test", 300, 5183, 339),
        ("SciFact", "dev", 809, 5183, 919),
        ("Banking77", "test", 3080, 10003, 400120),
        ("Banking77", "dev", 10003, 10003, 1371952),
        ("StackOverflow", "test", 10000, 10000, 4995828),
        ("StackOverflow", "dev", 10000, 10000, 4995828),
        ("CACM", "test", 64, 3204, 796),
        ("NPL", "test", 93, 11426, 2083),
    ],
)
def test_the_known_domains(
    task: str, setting: str, queries: int, corpus: int, relevant: int
) -> None:
    domain = load_retrieval_set(DATA, task, setting)
    assert (domain.name, len(domain.queries), len(domain.corpus)) == (task, queries, corpus)
    assert (domain.grades.shape, domain.grades.nnz) == ((queries, corpus), relevant)
    assert all(text.strip() for text in [*domain.queries, *domain.corpus])
    if domain.own:
        assert domain.grades.diagonal().sum() == 0
    if domain.labels is not None:
        assert len(set(domain.labels)) == {"Banking77": 77, "StackOverflow": 20}[task]
    if (task, setting) == ("SciFact", "test"):
        claim = domain.queries.index("0-dimensional biomaterials show inductive properties.")
        (found,) = domain.grades[[claim]].indices
        assert domain.corpus[found].startswith("New opportunities: the use of nanotechnologies")


CORPUS = "doc_id,title,abstract,structured\n7,A title.,\"['It\\'s one.'\n 'Two.']\",False\n"
CLAIMS = "id,claim,evidence_doc_id,evidence_label,evidence_sentences,cited_doc_ids\n1,A claim.,,,[],[7]\n"


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        (CLAIMS, None),
        (None, r"scifact\.zip does not exist"),
        (b"PK", r"scifact\.zip is damaged"),
        ("id,claim\n1,A.\n", "damaged .*cited_doc_ids"),
        (CLAIMS.replace("[7]", "[7 8]"), "damaged .*8"),
        (CLAIMS.split("\n")[0] + "\n", "0 rows .*, 1 expected"),
    ],
    ids=[
        "right",
        "missing",
        "truncated",
        "a missing column",
        "an unknown abstract",
        "too few claims",
    ],
)
def test_an_archive_is_read_in_memory_and_a_bad_one_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, claims: str | bytes | None, problem: str | None
) -> None:
    monkeypatch.setattr(public, "_ABSTRACTS", 1)
    monkeypatch.setattr(public, "_CLAIMS", {"test": ("claims_validation.csv", 1)})
    path = tmp_path / "domain" / "scifact" / "scifact.zip"
    path.parent.mkdir(parents=True)
    if isinstance(claims, bytes):
        path.write_bytes(claims)
    elif claims is not None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("corpus_train.csv", CORPUS)
            file.writestr("claims_validation.csv", claims)
    before = sorted(tmp_path.rglob("*"))
    if problem is None:
        assert load_retrieval_set(tmp_path, "SciFact").corpus == ["A title. It's one. Two."]
    else:
        with pytest.raises(UserError, match=problem):
            load_retrieval_set(tmp_path, "SciFact")
    assert sorted(tmp_path.rglob("*")) == before, "nothing is unpacked"


def test_another_number_of_texts_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "domain" / "cacm"
    folder.mkdir(parents=True)
    for name, text in (
        ("corpus.tsv", "1\ta\n"),
        ("queries.tsv", "q\tb\n"),
        ("qrels.txt", "q 0 1 1\n"),
    ):
        (folder / name).write_text(text)
    with pytest.raises(UserError, match="1 rows found, 64 expected"):
        load_retrieval_set(tmp_path, "CACM")
