"""Domains: what the known ones hold, the user's own in two layouts, and each bad file named in one line."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation.sets import domains
from isotrope.evaluation.sets.domains import load_domain
from oracle.similarity import DATA

needs_domains = pytest.mark.skipif(not (DATA / "domain").is_dir(), reason="needs domain/ in ISOTROPE_DATA")


@needs_domains
@pytest.mark.parametrize(
    ("task", "setting", "queries", "corpus", "relevant"),
    [
        ("SciFact", "test", 300, 5183, 339), ("SciFact", "dev", 809, 5183, 919),
        ("Banking77", "test", 3080, 10003, 400120), ("Banking77", "dev", 10003, 10003, 1371952),
        ("StackOverflow", "test", 10000, 10000, 4995828), ("StackOverflow", "dev", 10000, 10000, 4995828),
        ("CACM", "test", 64, 3204, 796), ("NPL", "test", 93, 11426, 2083),
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


def cut(root: Path) -> None:
    path = root / "domain" / "scifact" / "scifact.zip"
    path.write_bytes(path.read_bytes()[:-40])


BAD_ARCHIVES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda root: (root / "domain").mkdir(), r"scifact\.zip does not exist"),
    "truncated": (lambda root: cut(archive(root)), r"scifact\.zip is damaged"),
    "a path escape": (lambda root: archive(root, name="../claims_validation.csv"), "claims_validation"),
    "a missing column": (lambda root: archive(root, claims="id,claim\n1,A.\n"), "damaged .*cited_doc_ids"),
    "an unknown abstract": (lambda root: archive(root, claims=CLAIMS.replace("[7]", "[7 8]")), "damaged .*8"),
    "too few claims": (lambda root: archive(root, claims=CLAIMS.split("\n")[0] + "\n"), "0 rows .*, 1 expected"),
    "another text": (lambda root: archive(root, CORPUS.replace("'Two.'", "Two.")), "damaged"),
}


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


def test_another_number_of_texts_is_refused(tmp_path: Path) -> None:
    for name, text in (("corpus.tsv", "1\ta\n"), ("queries.tsv", "q\tb\n"), ("qrels.txt", "q 0 1 1\n")):
        path = tmp_path / "domain" / "cacm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    with pytest.raises(UserError, match="1 rows found, 64 expected"):
        load_domain(tmp_path, "CACM")
