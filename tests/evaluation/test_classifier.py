"""Hundreds of classifiers at once equal one at a time."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from classifying import SMALL, problem, toy
from isotrope.evaluation import classifier
from isotrope.evaluation.classifier import CLASSIFIER_SETTINGS, TrainingSet, split_dev, train_classifiers, with_bias
from isotrope.evaluation.transfer import nested_folds
from oracle import softmax


@pytest.mark.parametrize(("name", "classes"), [("adam", 6), ("rmsprop", 3), ("test", 2), ("fast", 2)])
def test_equals_one_classifier_at_a_time(classes, name):
    """Sets of unequal size and number of steps, penalties that differ, stops at different times."""
    setting = SMALL.get(name) or CLASSIFIER_SETTINGS[name]
    x, y = toy(170, classes=classes)
    cuts = [np.random.default_rng(n).permutation(170) for n in range(4)]
    sets = [TrainingSet(cut[:n], cut[n:]) for cut, n in zip(cuts, (129, 128, 135, 111), strict=True)]
    penalties = np.tile([1e-5, 1e-2], (4, 1))
    penalties[2] = 0.3
    trained = train_classifiers(*problem(x, y), sets, penalties, classes, setting)
    epochs = set()
    for member, rows in enumerate(sets):
        for column, penalty in enumerate(penalties[member]):
            one = softmax.Classifier(7, classes, penalty, setting)
            best = one.fit(x[rows.train], y[rows.train], (x[rows.dev], y[rows.dev]))
            epochs.add(one.epochs)
            assert trained.accuracy[member, column] == best
            torch.testing.assert_close(trained.weights[member, column], one.weights(), atol=1e-5, rtol=0)
            predicted = trained.predict(with_bias(x.numpy()), member, column)
            assert predicted.tolist() == one.predict(x).tolist()
    assert len(epochs) > 1  # else no set left before the others


def test_no_more_than_200_epochs_and_those_of_the_last_round():
    """Patience without end: SentEval looks at the count before a round, so the last one ends at 204."""
    setting = replace(CLASSIFIER_SETTINGS["test"], tenacity=1000)
    x, y = toy(60)
    rows = TrainingSet(np.arange(40), np.arange(40, 60))
    one = softmax.Classifier(7, 2, 1e-3, setting)
    best = one.fit(x[rows.train], y[rows.train], (x[rows.dev], y[rows.dev]))
    assert one.epochs == 204
    trained = train_classifiers(*problem(x, y), [rows], np.array([[1e-3]]), 2, setting)
    assert trained.accuracy[0, 0] == best
    torch.testing.assert_close(trained.weights[0, 0], one.weights(), atol=1e-5, rtol=0)


def test_held_out_rows_and_the_minibatches_after_them():
    x, y = toy(110)
    rows = np.random.default_rng(0).permutation(110)[:90]
    held = split_dev(rows)
    assert len(held.dev) == 4
    assert sorted([*held.train, *held.dev]) == sorted(rows)
    one = softmax.Classifier(7, 2, 1e-3, SMALL["adam"])
    best = one.fit(x[rows], y[rows])
    trained = train_classifiers(*problem(x, y), [held], np.array([[1e-3]]), 2, SMALL["adam"])
    assert trained.accuracy[0, 0] == best
    torch.testing.assert_close(trained.weights[0, 0], one.weights(), atol=1e-5, rtol=0)


def test_global_generators_stay_as_they_are():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    nested_folds(*problem(*toy(90)), 2, SMALL["rmsprop"])
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_threads_change_nothing(monkeypatch):
    """The blocks are cut the same way, and one thread computes each."""
    monkeypatch.setattr(classifier, "BLOCK", 3 * 16 * 8)  # three sets a block
    x, y = problem(*toy(150))
    sets = [
        TrainingSet(rows[:100], rows[100:]) for rows in (np.random.default_rng(n).permutation(150) for n in range(8))
    ]
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(train_classifiers(x, y, sets, np.tile([1e-5, 1e-2], (8, 1)), 2, SMALL["adam"]))
        assert torch.get_num_threads() == threads
        torch.set_num_threads(1)
    assert torch.equal(results[0].weights, results[1].weights)
    assert (results[0].accuracy == results[1].accuracy).all()
