"""The searches with BM25 that docs/deploy.md shows give the scores of our own search.

The packages come with the extra ``frameworks``; without them, these tests are skipped.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers.paths import ROOT
from helpers.words import sentences
from isotrope import load
from isotrope.improvement.search import DocumentSearch
from isotrope.text.bm25 import Bm25Index

DOCUMENTS = sentences(40)
QUERY = "the old king by the river"
SHARE = 0.3
WITHOUT = "needs the extra frameworks"


@dataclass
class Settings:
    bm25_share: float


class Found:
    """What `improve` gives back, as far as the page needs it."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self.search_settings = Settings(SHARE)
        self.search = DocumentSearch.of(model, DOCUMENTS, SHARE).search

    def scores(self) -> dict[str, float]:
        """Document -> its score."""
        (hits,) = self.search([QUERY], len(DOCUMENTS))
        return dict(hits)

    def by_model(self) -> Any:
        """The cosine of each document (M,)."""
        vectors = self.model.encode_document(DOCUMENTS, normalize_embeddings=True)
        return vectors @ self.model.encode_query(QUERY, normalize_embeddings=True)


@pytest.fixture(scope="module")
def found(tiny_model: Path) -> Found:
    return Found(load(tiny_model, "mean", normalize=True, device="cpu"))


def block(words: str) -> str:
    """The code of the page that holds these words."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (code,) = [block for block in blocks if words in block]
    return str(code)


def run(found: Found, words: str, /, **names: Any) -> dict[str, Any]:
    """What the fusion and one block leave behind; ``names`` are what the reader has already."""
    space: dict[str, Any] = {"query": QUERY, "found": found, "count": len(DOCUMENTS), **names}
    for code in (block("def fused"), block(words)):
        exec(compile(code, "snippet", "exec"), space)
    return space


def check(found: Found, scores: dict[str, float]) -> None:
    assert scores == pytest.approx(found.scores(), abs=1e-5)


def test_the_function_on_the_page(found: Found) -> None:
    space = run(found, "def scaled")
    by_model = dict(zip(DOCUMENTS, found.by_model().tolist(), strict=True))
    (by_words,) = Bm25Index.of(DOCUMENTS).scores([QUERY])
    by_words = dict(zip(DOCUMENTS, by_words.tolist(), strict=True))
    check(found, space["fused"](by_model, by_words, space["share"]))


def test_qdrant(found: Found) -> None:
    qdrant = pytest.importorskip("qdrant_client", reason=WITHOUT)
    models = qdrant.models
    client = qdrant.QdrantClient(":memory:")
    client.create_collection(
        "notes",
        vectors_config={"model": models.VectorParams(size=32, distance=models.Distance.COSINE)},
        sparse_vectors_config={"words": models.SparseVectorParams()},
    )
    index = Bm25Index.of(DOCUMENTS)
    weights = index.weights.toarray()  # (M, V)
    vectors = found.model.encode_document(DOCUMENTS)
    points = []
    for row in range(len(DOCUMENTS)):
        columns = np.flatnonzero(weights[row])
        words = models.SparseVector(indices=columns.tolist(), values=weights[row, columns].tolist())
        vector = {"model": vectors[row].tolist(), "words": words}
        points.append(models.PointStruct(id=row, vector=vector))
    client.upsert("notes", points)

    def words_of(query: str) -> Any:
        columns = index.words.transform([query]).indices
        return models.SparseVector(indices=columns.tolist(), values=[1.0] * len(columns))

    space = run(found, 'query_points("notes", query=vector', client=client, words_of=words_of)
    scores = found.scores()
    for row, score in space["scores"].items():
        assert score == pytest.approx(scores[DOCUMENTS[row]], abs=1e-5)
    assert len(space["scores"]) == len(DOCUMENTS)


class Elasticsearch:
    """Answers the retriever ``linear`` as its documentation says, from scores that are known."""

    def __init__(self, scores: dict[str, Any]) -> None:
        self.scores = scores  # kind of retriever -> (M,)

    def search(self, index: str, retriever: dict[str, Any]) -> dict[str, Any]:
        linear = retriever["linear"]
        assert linear["rank_window_size"] == len(DOCUMENTS)
        total = np.zeros(len(DOCUMENTS))
        for part in linear["retrievers"]:
            (kind,) = part["retriever"]
            found = self.scores[kind]
            assert part["normalizer"] == "minmax"
            total += part["weight"] * (found - found.min()) / (found.max() - found.min())
        hits = [{"_id": str(row), "_score": score} for row, score in enumerate(total.tolist())]
        return {"hits": {"hits": hits}}


def test_elasticsearch(found: Found) -> None:
    """There is no server, so the request's arithmetic is done here with the scores of the hits."""
    (words,) = Bm25Index.of(DOCUMENTS).scores([QUERY])
    knn = (1 + found.by_model()) / 2  # Elasticsearch's score of a cosine
    client = Elasticsearch({"knn": knn, "standard": words})
    hits = run(found, '"linear"', client=client)["hits"]
    check(found, {DOCUMENTS[int(hit["_id"])]: hit["_score"] for hit in hits})


def test_langchain(found: Found) -> None:
    pytest.importorskip("langchain_core", reason=WITHOUT)
    retriever = run(found, "def retriever")["retriever"]
    hits = [(hit.page_content, hit.metadata["score"]) for hit in retriever.invoke(QUERY)]
    assert hits == found.search([QUERY], 3)[0]


def test_llama_index(found: Found, tmp_path: Path) -> None:
    pytest.importorskip("llama_index.embeddings.huggingface", reason=WITHOUT)
    from llama_index.core import VectorStoreIndex
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, TextNode
    from llama_index.core.settings import Settings
    from llama_index.embeddings.huggingface import HuggingFaceEmbedding

    found.model.save(str(tmp_path / "model"))
    query_model = HuggingFaceEmbedding(str(tmp_path / "model"), device="cpu")
    nodes = [TextNode(id_=str(row), text=text) for row, text in enumerate(DOCUMENTS)]
    index = VectorStoreIndex(nodes, embed_model=query_model)

    class Words(BaseRetriever):
        def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
            (scores,) = Bm25Index.of(DOCUMENTS).scores([query_bundle.query_str])
            return [
                NodeWithScore(node=node, score=score)
                for node, score in zip(nodes, scores.tolist(), strict=True)
            ]

    Settings.llm = MockLLM()  # one query asks no language model
    space = run(found, "QueryFusionRetriever", index=index, query_model=query_model, words=Words())
    hits = space["retriever"].retrieve(QUERY)
    expected = found.search([QUERY], 3)[0]
    assert [hit.text for hit in hits] == [text for text, _ in expected]
    assert [hit.score for hit in hits] == pytest.approx([score for _, score in expected], abs=1e-5)
