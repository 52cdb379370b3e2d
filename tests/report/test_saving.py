"""A model with routes is also saved as two plain models, whose encode is that of their role."""

import re
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router

from helpers.refusals import refused
from helpers.small_bert import build_bert, with_prompts
from helpers.words import sentences
from isotrope import load
from isotrope.encoder.locate import Base
from isotrope.encoder.prompts import with_query_route
from isotrope.report.card import Card
from isotrope.report.outcome import Outcome
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import save_model, save_role
from isotrope.store.job import Job

TEXTS = [*sentences(12), "x", " ".join(sentences(40))]
CARD = Card(base=Base(name="their/model"))


def plain(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


def routed_model(
    folder: Path, query_words: str = "", document_words: str = ""
) -> SentenceTransformer:
    """Another encoder reads queries; both of them want words before a text if there are any."""
    documents = load(build_bert(folder / "documents"), "mean", normalize=True, device="cpu")
    queries = load(build_bert(folder / "queries"), "first_last", normalize=True, device="cpu")
    documents.prompts = {"query": query_words, "document": document_words}
    return with_query_route(documents, list(queries), list(documents))


@pytest.fixture(scope="module", params=["", "the king "], ids=["no words", "words"])
def routed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SentenceTransformer:
    folder = tmp_path_factory.mktemp("routed")
    return routed_model(folder, request.param, request.param and "a river ")


@pytest.fixture(scope="module")
def saved(routed: SentenceTransformer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "better"
    save_model(routed, folder, CARD)
    return folder


@pytest.mark.parametrize("role", ["query", "document"])
def test_encode_of_a_plain_model_is_that_of_its_role(saved: Path, role: str) -> None:
    whole, part = plain(saved), plain(saved / role)
    assert not any(isinstance(module, Router) for module in part)
    expected = getattr(whole, f"encode_{role}")(TEXTS)
    np.testing.assert_allclose(part.encode(TEXTS), expected, atol=1e-6)


def test_the_whole_model_is_as_it_was(saved: Path, routed: SentenceTransformer) -> None:
    whole = plain(saved)
    np.testing.assert_allclose(whole.encode_query(TEXTS), routed.encode_query(TEXTS), atol=1e-6)
    np.testing.assert_allclose(whole.encode(TEXTS), routed.encode(TEXTS), atol=1e-6)


def test_documents_of_the_plain_model_are_equal_to_the_last_bit(saved: Path) -> None:
    np.testing.assert_array_equal(
        plain(saved / "document").encode(TEXTS), plain(saved).encode_document(TEXTS)
    )


@pytest.mark.parametrize("role", ["query", "document"])
def test_each_has_a_card_that_names_its_role(saved: Path, role: str) -> None:
    text = (saved / role / "README.md").read_text(encoding="utf-8")
    other = {"query": "document", "document": "query"}[role]
    assert f"\n# `{role}` from `their/model`\n" in text
    assert f"reads {'queries' if role == 'query' else 'documents'} only" in text
    assert f"The {'queries' if other == 'query' else 'documents'} of the search need" in text
    assert Card.of(saved / role).role == role


def test_the_snippet_of_the_whole_card_takes_both_ways(
    saved: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (saved / "README.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert snippet is not None
    assert "encode_query" in snippet[1]
    monkeypatch.chdir(saved.parent)
    exec(compile(snippet[1], "card", "exec"), {})
    assert "(2, 32)" in capsys.readouterr().out


def outcome(model: SentenceTransformer, folder: Path) -> Outcome:
    """What a command gives back that has saved this model."""
    job = Job(folder, "test", {})
    save_model(model, job.folder / MODEL, CARD)
    return Outcome(job, {}, lambda record: Page("a page"))


@pytest.mark.parametrize("role", ["query", "document"])
def test_an_outcome_saves_one_role(routed: SentenceTransformer, tmp_path: Path, role: str) -> None:
    found = outcome(routed, tmp_path / "run")
    found.save(tmp_path / "part", role=role)  # type: ignore[arg-type]
    expected = getattr(routed, f"encode_{role}")(TEXTS)
    np.testing.assert_allclose(plain(tmp_path / "part").encode(TEXTS), expected, atol=1e-6)


def test_an_outcome_saves_both_roles_below_the_whole_and_says_so(
    routed: SentenceTransformer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome(routed, tmp_path / "run").save(tmp_path / "mine")
    assert (tmp_path / "mine" / "modules.json").is_file()
    assert (tmp_path / "mine" / "query" / "modules.json").is_file()
    assert (tmp_path / "mine" / "document" / "modules.json").is_file()
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.startswith("plain models for queries and for documents:")


def test_a_model_that_is_kept_has_a_card_with_its_width(tiny_model: Path, tmp_path: Path) -> None:
    """Nothing was done to it, so no step has described it."""
    save_model(load(tiny_model, "mean", device="cpu"), tmp_path / "kept", CARD)
    text = (tmp_path / "kept" / "README.md").read_text(encoding="utf-8")
    assert "a vector of 32 numbers" in text


def test_a_model_without_routes_is_saved_once_and_without_a_word(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome(load(tiny_model, "mean", device="cpu"), tmp_path / "run").save(tmp_path / "mine")
    assert not (tmp_path / "mine" / "query").exists()
    assert capsys.readouterr().out == ""


def test_another_role_is_refused(routed: SentenceTransformer, tmp_path: Path) -> None:
    with refused("unknown-name"):
        outcome(routed, tmp_path / "run").save(tmp_path / "mine", role="passage")  # type: ignore[arg-type]


def test_a_role_of_a_model_with_prompts_alone_has_its_words(
    tiny_model: Path, tmp_path: Path
) -> None:
    """As isotrope reads them: a document takes the words that the model calls "passage"."""
    model = load(with_prompts(tiny_model, tmp_path / "own"), device="cpu")
    save_role(model, tmp_path / "queries", "query", CARD)
    save_role(model, tmp_path / "documents", "document", CARD)
    expected = model.encode_query(TEXTS)
    np.testing.assert_allclose(plain(tmp_path / "queries").encode(TEXTS), expected, atol=1e-6)
    expected = model.encode(TEXTS, prompt=model.prompts["passage"])
    np.testing.assert_allclose(plain(tmp_path / "documents").encode(TEXTS), expected, atol=1e-6)


def test_the_card_of_a_model_that_is_kept_tells_its_width(tiny_model: Path, tmp_path: Path) -> None:
    """It said "a vector of 0 numbers", because nothing was done to the model."""
    save_model(load(tiny_model, "mean", device="cpu"), tmp_path / "kept", CARD)
    text = (tmp_path / "kept" / "README.md").read_text(encoding="utf-8")
    assert "into a vector of 32 numbers" in text
