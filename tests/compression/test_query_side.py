"""The query side alone, and fewer tokens: what is trained and what keeps its vectors to the last
bit.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

import isotrope
from helpers.library import write_library
from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.words import sentences
from isotrope.cli.main import app
from isotrope.compression.page import write_student_report
from isotrope.encoder import save
from isotrope.text.corpus import Document
from isotrope.text.pairs.passages import Queries

SMALL = ["train.batch_size=32", "train.max_length=32", "train.learning_rate=1e-3", "train.epochs=1"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that wants words before a query, and other ones before a document."""
    folder = tmp_path_factory.mktemp("teacher")
    model = isotrope.load(
        build_bert(folder / "bert", layers=4, dropout=0.0), "mean", normalize=True, device="cpu"
    )
    model.prompts = {"query": "the king ", "document": "a river "}
    save(model, folder / "model")
    return folder / "model"


SETTINGS = [word for setting in SMALL for word in ("--set", setting)]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("library") / "library.jsonl", count=300)


@dataclass(frozen=True)
class QuerySide:
    """A student that a command has trained for queries."""

    student: str
    run: Path
    output: str  # of the command

    @property
    def model(self) -> SentenceTransformer:
        return plain(self.run / "model")


@pytest.fixture(scope="module", params=["layers:2", "static"])
def trained(
    request: pytest.FixtureRequest,
    teacher: Path,
    docs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> QuerySide:
    run = tmp_path_factory.mktemp("query-side") / "run"
    command = ["compress", str(teacher), str(docs), "--output", str(run), "--side", "query"]
    student = ["--student", request.param]
    done = CliRunner().invoke(app, [*command, *student, *SETTINGS], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return QuerySide(request.param, run, " ".join(done.output.split()))


def plain(folder: Path) -> SentenceTransformer:
    """As sentence-transformers opens it, without isotrope."""
    return SentenceTransformer(str(folder), device="cpu")


READ = [*sentences(20), "x", " ".join(sentences(30))]


def test_the_command_says_what_need_not_be_encoded_again(trained: QuerySide) -> None:
    assert "Your documents keep their vectors, so nothing is encoded again." in trained.output
    assert "plain models for queries and for documents:" in trained.output


def test_documents_keep_their_vectors_to_the_last_bit(trained: QuerySide, teacher: Path) -> None:
    before = plain(teacher).encode_document(READ)
    np.testing.assert_array_equal(trained.model.encode_document(READ), before)


def test_queries_get_vectors_near_to_their_teachers(trained: QuerySide, teacher: Path) -> None:
    queries, before = trained.model.encode_query(READ), plain(teacher).encode_query(READ)
    assert not np.allclose(queries, before, atol=1e-3)
    assert (queries * before).sum(axis=1).mean() > 0.9
    ours = isotrope.load(trained.run / "model", device="cpu")
    np.testing.assert_allclose(ours.encode_query(READ), queries, atol=1e-5)


@pytest.mark.parametrize("role", ["query", "document"])
def test_each_role_is_a_plain_model_too(trained: QuerySide, role: str) -> None:
    expected = getattr(trained.model, f"encode_{role}")(READ)
    part = plain(trained.run / "model" / role)
    np.testing.assert_allclose(part.encode(READ), expected, atol=1e-6)


def test_titles_and_several_queries_of_a_document_ask(
    trained: QuerySide, teacher: Path, docs: Path
) -> None:
    found = isotrope.compress(
        teacher, docs, student=trained.student, side="query", output=trained.run, overrides=SMALL
    )
    assert found.record["compression"]["side"] == "query"
    parts = found.record["compression"]["quality"]["parts of texts"]
    assert parts["start"]["per_task"].keys() >= {"title → body"}
    assert found.record["corpus"]["rows"] > 4 * 240


def test_the_page_shows_how_queries_are_encoded(trained: QuerySide) -> None:
    page = write_student_report(trained.run).read_text(encoding="utf-8")
    for words in ("encode_query(query)", "speed with queries", "The student reads the queries"):
        assert words in page


def test_an_index_of_the_student_is_searched_by_its_queries(
    trained: QuerySide, teacher: Path, docs: Path, tmp_path: Path
) -> None:
    index = str(tmp_path / "index")
    encoding = ["encode", str(trained.run / "model"), str(docs), "--output", index]
    assert "written to" in CliRunner().invoke(app, encoding).output
    ((hit,),) = isotrope.search(index, "the old king", top=1)
    documents = plain(teacher).encode_document(_texts(docs))  # (N, D)
    (query,) = trained.model.encode_query(["the old king"])  # (D,)
    assert hit.row == int((documents @ query).argmax())


def _texts(library: Path) -> list[str]:
    return [json.loads(line)["text"] for line in library.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"student": "tiny"}, "unknown-student"),
        ({"side": "document"}, "unknown-name"),
    ],
)
def test_what_cannot_be_a_query_side_is_refused(
    given: dict[str, str], words: str, teacher: Path
) -> None:
    with refused(words):
        isotrope.compress(
            teacher, ["a text"] * 9, console=Console(quiet=True), **{"side": "query", **given}
        )


def test_a_short_text_is_a_query_and_a_long_one_gives_several() -> None:
    maker, random = Queries(), np.random.default_rng(0)
    assert maker(Document("", ["where is my parcel"]), 8, random) == [("where is my parcel",)]
    assert maker(Document("", []), 8, random) == []
    long = Document(
        "A title", ["A heading", " ".join(f"Sentence {n} has six words here." for n in range(9))]
    )
    found = [text for (text,) in maker(long, 30, random)]
    assert {"A title", "A heading"} < set(found)
    assert len(found) == len(set(found)) > 8
    assert len(maker(long, 4, random)) == 4
