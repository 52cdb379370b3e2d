"""The code that the report, the card and the page show is run with the packages that it names.

The packages come with the extra ``frameworks``; without them, these tests are skipped.
"""

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers.paths import ROOT
from helpers.small_bert import with_prompts
from helpers.words import sentences
from isotrope import load
from isotrope.encoder.locate import Base
from isotrope.encoder.prompts import with_query_route, words_of_role
from isotrope.report.card import Card
from isotrope.report.page import Page
from isotrope.report.saving import save_model
from isotrope.report.switching import AGAIN, STAYS, Switch

DOCUMENTS = sentences(12)
QUERY = "the old king"
WITHOUT = "needs the extra frameworks"


class Case:
    """An old model and a new one, in the folders ``old`` and ``better``."""

    def __init__(self, kind: str, folder: Path, raw: Path) -> None:
        given = with_prompts(raw, folder / "raw") if "words" in kind else raw
        old = load(given, "mean", normalize=True, device="cpu")
        new = load(given, "cls", normalize=True, device="cpu")
        if "routes" in kind:
            new = with_query_route(old, list(new), list(old))
        card = Card(base=Base(name="old"))
        save_model(old, folder / "old", card)
        save_model(new, folder / "better", card)

        self.folder = folder
        self.old = SentenceTransformer(str(folder / "old"), device="cpu")
        self.new = SentenceTransformer(str(folder / "better"), device="cpu")
        self.documents_stay = "routes" in kind
        # whole paths, because Haystack and Chroma remember a model by its path
        self.code = Switch.of(new, self.documents_stay).code(str(folder / "better"))
        self.old_code = Switch.of(old).code(str(folder / "old"))

    def check_query(self, vector: Any) -> None:
        """It is that of the new model's encode_query."""
        found = np.asarray(vector, dtype=np.float32)
        found = found / np.linalg.norm(found)
        assert found @ self.new.encode_query(QUERY) >= 0.9999
        assert found @ self.old.encode_query(QUERY) < 0.9999, "the two models differ"

    def check_documents(self, vectors: Any, before: Any) -> None:
        """They are bit-equal to those ``before``, or those of the new model if it reads them."""
        if self.documents_stay:
            np.testing.assert_array_equal(vectors, before)
        else:
            words = words_of_role(self.new, "document")
            expected = self.new.encode_document(DOCUMENTS, prompt=words)
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.fixture(scope="module", params=["plain", "words", "routes", "routes and words"])
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tiny_model: Path
) -> Case:
    return Case(request.param, tmp_path_factory.mktemp("switch"), tiny_model)


def run(code: str, **names: Any) -> dict[str, Any]:
    """What the code leaves behind; ``names`` are what the reader has already."""
    space: dict[str, Any] = {"query": QUERY, "documents": DOCUMENTS, **names}
    exec(compile(code, "snippet", "exec"), space)
    return space


def test_sentence_transformers(case: Case) -> None:
    new = run(case.code["sentence-transformers"])
    old = run(case.old_code["sentence-transformers"])
    case.check_query(new["query_vector"])
    case.check_documents(new["document_vectors"], old["document_vectors"])


def test_langchain(case: Case) -> None:
    pytest.importorskip("langchain_huggingface", reason=WITHOUT)
    new = run(case.code["LangChain"])["embeddings"]
    old = run(case.old_code["LangChain"])["embeddings"]
    case.check_query(new.embed_query(QUERY))
    case.check_documents(new.embed_documents(DOCUMENTS), old.embed_documents(DOCUMENTS))


def test_llama_index(case: Case) -> None:
    pytest.importorskip("llama_index.embeddings.huggingface", reason=WITHOUT)
    from llama_index.core import Document, VectorStoreIndex

    old = run(case.old_code["LlamaIndex"])["embed_model"]
    before = old.get_text_embedding_batch(DOCUMENTS)
    if not case.documents_stay:
        new = run(case.code["LlamaIndex"])["embed_model"]
        case.check_query(new.get_query_embedding(QUERY))
        case.check_documents(new.get_text_embedding_batch(DOCUMENTS), before)
        return
    texts = [Document(text=text) for text in DOCUMENTS]
    index = VectorStoreIndex.from_documents(texts, embed_model=old)
    space = run(case.code["LlamaIndex"], index=index)
    case.check_query(space["query_model"].get_query_embedding(QUERY))
    after = space["document_model"].get_text_embedding_batch(DOCUMENTS)
    case.check_documents(after, before)
    best = space["retriever"].retrieve(QUERY)[0].text
    vectors = np.asarray(before)
    assert best == DOCUMENTS[int((vectors @ case.new.encode_query(QUERY)).argmax())]


def test_chroma(case: Case) -> None:
    chromadb = pytest.importorskip("chromadb", reason=WITHOUT)
    client = chromadb.EphemeralClient()
    ids = [str(number) for number in range(len(DOCUMENTS))]
    stored = case.old.encode_document(DOCUMENTS, prompt=words_of_role(case.old, "document"))
    space = {"hnsw:space": "ip"}  # with "cosine", Chroma would store them at unit length anew
    collection = client.create_collection(case.folder.name, metadata=space)
    if case.documents_stay:
        collection.add(ids, stored, documents=DOCUMENTS)
    after = run(case.code["Chroma"], collection=collection, ids=ids)
    kept = collection.get(ids, include=["embeddings"])["embeddings"]
    case.check_documents(np.asarray(kept, dtype=np.float32), stored)
    case.check_query(after["model"].encode_query([QUERY])[0])
    cosines = np.asarray(kept) @ case.new.encode_query(QUERY)
    assert after["hits"]["ids"][0] == [str(row) for row in np.argsort(-cosines)[:3]]


def test_haystack(case: Case) -> None:
    pytest.importorskip(
        "haystack_integrations.components.embedders.sentence_transformers", reason=WITHOUT
    )
    from haystack import Document

    texts = [Document(content=text) for text in DOCUMENTS]
    new, old = run(case.code["Haystack"]), run(case.old_code["Haystack"])
    for embedder in (new["text_embedder"], new["document_embedder"], old["document_embedder"]):
        embedder.warm_up()
    case.check_query(new["text_embedder"].run(QUERY)["embedding"])
    after, before = (
        [document.embedding for document in space["document_embedder"].run(texts)["documents"]]
        for space in (new, old)
    )
    case.check_documents(after, before)


def test_qdrant(case: Case) -> None:
    qdrant = pytest.importorskip("qdrant_client", reason=WITHOUT)
    client = qdrant.QdrantClient(":memory:")
    cosine = qdrant.models.VectorParams(size=32, distance=qdrant.models.Distance.DOT)
    client.create_collection("notes", vectors_config=cosine)
    vectors = case.old.encode_document(DOCUMENTS)
    client.upload_collection("notes", vectors, ids=list(range(len(DOCUMENTS))))
    space = run(case.code["Qdrant"], client=client)
    case.check_query(space["query_vector"])
    expected = np.argsort(-(vectors @ case.new.encode_query(QUERY)))[:3]
    assert [hit.id for hit in space["hits"]] == expected.tolist()


class Search(BaseHTTPRequestHandler):
    """An Elasticsearch that answers every search alike and remembers the request."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked = json.loads(body)  # type: ignore[attr-defined]
        answer = json.dumps({"hits": {"hits": [{"_id": "0"}]}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(("127.0.0.1", 0), Search) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


def test_elasticsearch(case: Case, server: HTTPServer) -> None:
    elasticsearch = pytest.importorskip("elasticsearch", reason=WITHOUT)
    client = elasticsearch.Elasticsearch(f"http://127.0.0.1:{server.server_port}")
    space = run(case.code["Elasticsearch"], client=client)
    assert space["hits"] == [{"_id": "0"}]
    asked = server.asked["knn"]  # type: ignore[attr-defined]
    assert (asked["field"], asked["k"]) == ("vector", 3)
    case.check_query(asked["query_vector"])


@pytest.mark.parametrize(("stay", "words"), [(True, STAYS), (False, AGAIN)])
def test_the_report_says_whether_documents_are_encoded_again(stay: bool, words: str) -> None:
    page = Page("a page", switch=Switch(documents_stay=stay, routes=True)).html()
    assert words in page
    for framework in Switch().code("model"):
        assert f"<summary>{framework}</summary>" in page


def test_the_page_shows_the_code_that_is_tested() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    expected = Switch(routes=True, documents_stay=True).code("better").values()
    assert [block for block in blocks if block in expected] == list(expected)
