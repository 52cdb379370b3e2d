"""A model's own similarity is followed wherever models are judged."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import SimilarityFunction

from helpers.wordbag import own_pairs
from isotrope import load
from isotrope.evaluation import suite
from isotrope.evaluation.embed import Embeddings, embed_texts
from isotrope.evaluation.models import RememberingEncoder
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.similarity import Similarity, similarity_of

OTHERS: list[Similarity] = ["dot", "euclidean", "manhattan"]
WORDS = [f"word{n}" for n in range(60)]


class Lengths:
    """Each word has a random vector, whose length is random too."""

    def __init__(self, similarity: Similarity) -> None:
        self.similarity_fn_name = similarity

    def encode(self, sentences: list[str]) -> np.ndarray:
        rows = [np.random.default_rng(int(text[4:])) for text in sentences]
        return np.stack([row.normal(size=8) * row.uniform(0.5, 3) for row in rows])


@pytest.fixture(params=OTHERS)
def encoder(tiny_model: Path, request: pytest.FixtureRequest) -> SentenceTransformer:
    """A model with vectors of different lengths, made for another similarity than the cosine."""
    model = load(tiny_model)
    model.similarity_fn_name = request.param
    return model


@pytest.mark.parametrize("similarity", ["cosine", *OTHERS])
def test_a_search_ranks_as_sentence_transformers_does(similarity: Similarity) -> None:
    """Each of ten queries has one relevant text, at a place that plain similarities say."""
    encoder = Lengths(similarity)
    queries, corpus = WORDS[:10], WORDS[10:]
    measure = SimilarityFunction.to_similarity_fn(similarity)
    scores = measure(encoder.encode(queries), encoder.encode(corpus)).numpy()
    places = 1 + (scores > scores[np.arange(10), np.arange(10)][:, None]).sum(axis=1)
    expected = np.where(places <= 10, 1 / np.log2(1 + places), 0.0).mean()

    labels = {
        "queries": {text: text for text in queries},
        "corpus": {text: text for text in corpus},
        "relevant_docs": {queries[n]: {corpus[n]} for n in range(10)},
    }
    found = suite.run(encoder, "retrieval", labels)["labels"]["ndcg@10"]
    assert found == pytest.approx(expected)
    assert read_labels(labels).score(encoder).mean() == pytest.approx(expected)


def test_graded_pairs_are_compared_by_it(encoder: SentenceTransformer) -> None:
    pairs = own_pairs()
    first, second = encoder.encode(pairs.first), encoder.encode(pairs.second)
    expected = spearmanr(encoder.similarity_pairwise(first, second).numpy(), pairs.gold).statistic
    found = suite.run(encoder, "sts", pairs)["mine"]["spearman"]["test"]
    assert found == pytest.approx(expected, abs=1e-4)
    assert pairs.score(encoder).mean() == pytest.approx(expected, abs=1e-4)


def test_what_stands_for_a_model_has_its_similarity(encoder: SentenceTransformer) -> None:
    name = encoder.similarity_fn_name
    assert similarity_of(Embeddings.of(encoder, ["a"])) == name
    assert similarity_of(embed_texts(encoder, ["a"], ["b"])) == name
    assert similarity_of(RememberingEncoder(encoder)) == name


def test_an_encoder_that_says_nothing_has_the_cosine() -> None:
    assert similarity_of(Embeddings(["a"], np.ones((1, 2)))) == "cosine"
    assert similarity_of(object()) == "cosine"
