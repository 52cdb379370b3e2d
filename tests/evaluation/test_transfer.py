"""Transfer: many classifiers at once equal one at a time, the protocol, the features, golden
numbers.
"""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from helpers.wordbag import minilm
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.senteval import LabelledTexts
from isotrope.evaluation.suite import run
from isotrope.evaluation.transfer import (
    CLASSIFIER_SETTINGS,
    ClassifierSetting,
    Problem,
    TrainingSet,
    accuracies,
    predictions,
    problem_of,
    split_dev,
    train_classifiers,
)
from oracle import softmax
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden

SMALL = {
    "adam": ClassifierSetting(folds=3, optimizer="adam", batch_size=16, tenacity=1, epoch_size=2),
    "rmsprop": ClassifierSetting(
        folds=3, optimizer="rmsprop", batch_size=20, tenacity=1, epoch_size=1
    ),
}


def toy(count=120, classes=2, seed=0):
    """Features (N, 7) and classes (N,) that a linear classifier gets mostly right."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % classes
    centres = torch.randn(classes, 7, generator=generator)
    return centres[y] * 0.6 + torch.randn(count, 7, generator=generator), y


def problem(x, y):
    return Problem(F.pad(x, (0, 1), value=1.0), y)


@pytest.mark.parametrize(
    ("name", "classes"), [("adam", 6), ("rmsprop", 3), ("test", 2), ("fast", 2)]
)
def test_equals_one_classifier_at_a_time(classes, name):
    """Sets of unequal size and number of steps, penalties that differ, stops at different times."""
    setting = SMALL.get(name) or CLASSIFIER_SETTINGS[name]
    x, y = toy(170, classes=classes)
    cuts = [np.random.default_rng(n).permutation(170) for n in range(4)]
    sets = [
        TrainingSet(cut[:n], cut[n:]) for cut, n in zip(cuts, (129, 128, 135, 111), strict=True)
    ]
    penalties = np.tile([1e-5, 1e-2], (4, 1))
    penalties[2] = 0.3
    trained = train_classifiers(problem(x, y), sets, penalties, classes, setting)
    epochs = set()
    for member, rows in enumerate(sets):
        for column, penalty in enumerate(penalties[member]):
            one = softmax.Classifier(7, classes, penalty, setting)
            best = one.fit(x[rows.train], y[rows.train], (x[rows.dev], y[rows.dev]))
            epochs.add(one.epochs)
            assert trained.accuracy[member, column] == best
            torch.testing.assert_close(
                trained.weights[member, column], one.weights(), atol=1e-5, rtol=0
            )
            predicted = predictions(problem(x, y).features, trained.weights[member])[:, column]
            assert predicted.tolist() == one.predict(x).tolist()
    assert len(epochs) > 1  # else all of them stopped together


@pytest.mark.parametrize(
    ("setting", "held_out", "epochs"),
    [
        (replace(CLASSIFIER_SETTINGS["test"], tenacity=1000), False, 204),
        (SMALL["adam"], True, None),
    ],
    ids=[
        "patience without end: SentEval looks at the count before a round of four",
        "minibatches after a dev set",
    ],
)
def test_a_single_classifier_ends_as_senteval_s(setting, held_out, epochs):
    x, y = toy(110)
    rows = np.random.default_rng(0).permutation(110)[:90]
    split = split_dev(rows) if held_out else TrainingSet(rows[:60], rows[60:])
    assert sorted([*split.train, *split.dev]) == sorted(rows)
    one, dev = softmax.Classifier(7, 2, 1e-3, setting), (x[split.dev], y[split.dev])
    best = one.fit(x[rows], y[rows]) if held_out else one.fit(x[split.train], y[split.train], dev)
    assert epochs in (None, one.epochs)
    trained = train_classifiers(problem(x, y), [split], np.array([[1e-3]]), 2, setting)
    assert trained.accuracy[0, 0] == best
    torch.testing.assert_close(trained.weights[0, 0], one.weights(), atol=1e-5, rtol=0)


def test_neither_threads_nor_global_generators_matter():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    whole = problem(*toy(150))
    cuts = [np.random.default_rng(n).permutation(150) for n in range(8)]
    sets, results = [TrainingSet(rows[:100], rows[100:]) for rows in cuts], []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(
            train_classifiers(whole, sets, np.tile([1e-5, 1e-2], (8, 1)), 2, SMALL["adam"])
        )
        torch.set_num_threads(1)
    assert torch.equal(results[0].weights, results[1].weights)
    assert (results[0].accuracy == results[1].accuracy).all()
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


@pytest.mark.parametrize(
    ("splits", "classes", "oracle"),
    [
        ({"all": 150}, 2, softmax.nested),
        ({"train": 150, "test": 50}, 2, softmax.cross_validation),
        ({"train": 150, "test": 50}, 4, softmax.cross_validation),
        ({"train": 130, "dev": 40, "test": 50}, 2, softmax.given_dev),
        ({"train": 130, "dev": 40, "test": 50}, 5, softmax.given_dev),
    ],
)
def test_each_protocol(splits, classes, oracle):
    """The given dev set needs no second training."""
    parts = {split: toy(n, classes, seed=n) for split, n in splits.items()}
    result = accuracies(
        {split: problem(*part) for split, part in parts.items()}, classes, SMALL["rmsprop"]
    )
    given = [*parts["all"]] if "all" in parts else [*parts.values()]
    test, dev = oracle(*given, classes, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx(
        (test, dev), abs=1e-9
    )
    counts = [*splits.values()]
    assert (result["ntrain"], result["ntest"]) == (counts[0], counts[-1])
    assert ("f1" in result) == (classes == 2 and splits.keys() == {"train", "test"})
    # folds of 50
    assert np.mean(result["per_sample"]["correct"]) == pytest.approx(result["accuracy"], abs=1e-4)


def test_samples_are_sorted_by_words_then_class_and_pairs_are_difference_and_product():
    part = LabelledTexts(["b b", "", "a", "c c", "d d", "e"], None, np.array([1, 1, 1, 0, 1, 0]))
    x, y = problem_of(part, Embeddings.of(HashEncoder(), part.first))
    expected = ["", "e", "a", "c c", "b b", "d d"]  # equals stay in the file's order
    torch.testing.assert_close(x[:, :-1], torch.from_numpy(HashEncoder().encode(expected)))
    assert y.tolist() == [1, 0, 1, 0, 1, 1]
    assert (x[:, -1] == 1).all()
    part = LabelledTexts(["a a", "b", "c"], ["d", "e e", "f"], np.array([0, 1, 1]))
    x, y = problem_of(part, Embeddings.of(HashEncoder(), part.first + part.second))
    u, v = HashEncoder().encode(["c", "b", "a a"]), HashEncoder().encode(["f", "e e", "d"])
    np.testing.assert_allclose(x[:, :-1].numpy(), np.c_[np.abs(u - v), u * v], atol=1e-7)
    assert y.tolist() == [1, 1, 0]


@needs_data
@needs_golden
@pytest.mark.parametrize("task", ["CR", "TREC", "MRPC"])
@pytest.mark.parametrize(
    ("model", "key", "tolerance"),
    [
        (HashEncoder, "transfer_fast", 0.003),
        pytest.param(minilm, "transfer_fast_minilm_mean", 0.005, marks=pytest.mark.slow),
    ],
    ids=["hash", "minilm"],
)
def test_fast_setting_gives_senteval_s_numbers(task, model, key, tolerance):
    golden, encoder = json.loads((GOLDEN / "senteval.json").read_text())[key][task], model()
    result = run(encoder, "transfer", DATA, [task], "fast")[task]
    assert result["accuracy"] == pytest.approx(golden["acc"] / 100, abs=tolerance)
    assert result["dev_accuracy"] == pytest.approx(golden["devacc"] / 100, abs=tolerance)
    assert (result["ntrain"], result["ntest"]) == (golden["ndev"], golden["ntest"])
    if "f1" in golden:
        assert result["f1"] == pytest.approx(golden["f1"] / 100, abs=tolerance)
    assert json.loads(json.dumps(result)) == result
    if model is HashEncoder:
        (sentences,) = encoder.calls
        assert len(sentences) == len(set(sentences))
