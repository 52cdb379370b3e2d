"""Transfer by SentEval's protocol: how well a linear classifier on frozen sentence vectors does eight tasks.

- MR, CR, SUBJ, MPQA: nested stratified k-fold. In each outer fold, an inner k-fold chooses the L2 penalty. Then a
  classifier with this penalty is trained on the training part of the fold. A random 5 % of that part is the dev set.
- TREC, MRPC: k-fold on the training set chooses the penalty. One more training holds 5 % out; then comes the test.
- SST2, SST5: the given dev set chooses the penalty. SentEval trains that classifier again from the same seed, which
  gives the same classifier. So we test the first one.

The setting "test" is for published numbers: 10 folds, Adam, minibatches of 64, tenacity 5, a check every 4 epochs. The
setting "fast" is for prototypes: 5 folds, RMSprop, 128, 3, 2. Samples are sorted by number of words and class before
they are cut into folds. Accuracies are rounded to two decimals of percent before they are compared, as in SentEval. The
first of equal penalties wins. Seeds are SentEval's 1111, in generators of our own (`isotrope.evaluation.classifier`).

One thing differs: every distinct sentence of a task is encoded once, all in one call.

Source: SentEval, Conneau and Kiela (2018), https://arxiv.org/abs/1803.05449.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from isotrope.evaluation.classifier import (
    CLASSIFIER_SETTINGS,
    SEED,
    ClassifierSetting,
    Indices,
    TrainingSet,
    split_dev,
    train_classifiers,
    with_bias,
)
from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.sets.senteval import CLASSES, LabelledTexts
from isotrope.types import Encoder, Matrix

Problem = tuple[Tensor, Tensor]  # features (N, D + 1) and classes (N,)

PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)  # weight decay of the optimizer


def evaluate_transfer(
    encoder: Encoder, tasks: Mapping[str, Mapping[str, LabelledTexts]], setting: str = "test"
) -> dict[str, Any]:
    """Evaluate transfer tasks: name → what `load_transfer` gives.

    Gives for each task the fractions "accuracy" and "dev_accuracy", and for MRPC "f1". "dev_accuracy" chose the
    penalty; with folds it is a mean over them. "ntrain" and "ntest" are counts. With nested folds, every sample is in
    both. `["per_sample"]["correct"]` is 1 or 0 for each test sample, in the same order for all encoders.

    Raises UserError for an encoder that does not give (n, D) numbers.
    """
    return {
        name: _evaluate(encoder, parts, CLASSES[name], CLASSIFIER_SETTINGS[setting]) for name, parts in tasks.items()
    }


def nested_folds(x: Tensor, y: Tensor, classes: int, setting: ClassifierSetting) -> dict[str, Any]:
    """Accuracies by nested k-fold on features x (N, D + 1) with classes y (N,)."""
    outer = _folds(y, np.arange(len(y)), setting.folds)
    inner = [fold for rows in outer for fold in _folds(y, rows.train, setting.folds)]
    scores = train_classifiers(x, y, inner, _grid(len(inner)), classes, setting).accuracy
    percents = [_means(part) for part in np.split(scores, setting.folds)]  # one list of R a fold
    chosen = np.array([[PENALTIES[int(np.argmax(row))]] for row in percents])
    final = train_classifiers(x, y, [split_dev(rows.train) for rows in outer], chosen, classes, setting)
    correct = np.zeros(len(y), dtype=bool)
    for fold, rows in enumerate(outer):
        correct[rows.dev] = final.predict(x[rows.dev], fold) == y[rows.dev].numpy()
    test = float(np.mean([_percent(correct[rows.dev]) for rows in outer]))
    return _result(test, float(np.mean([max(row) for row in percents])), len(y), correct)


def cross_validation(train_set: Problem, test_set: Problem, classes: int, setting: ClassifierSetting) -> dict[str, Any]:
    """Accuracies on a test set, the penalty chosen by k-fold on the training set; f1 where there are two classes."""
    (x, y), (x_test, y_test) = train_set, test_set
    everything = np.arange(len(y))
    folds = _folds(y, everything, setting.folds)
    percents = _means(train_classifiers(x, y, folds, _grid(len(folds)), classes, setting).accuracy)
    chosen = np.array([[PENALTIES[int(np.argmax(percents))]]])
    predicted = train_classifiers(x, y, [split_dev(everything)], chosen, classes, setting).predict(x_test, 0)
    correct = predicted == y_test.numpy()
    result = _result(_percent(correct), max(percents), len(y), correct)
    return result | ({"f1": round(float(f1_score(y_test, predicted)), 4)} if classes == 2 else {})


def given_dev(
    train_set: Problem, dev_set: Problem, test_set: Problem, classes: int, setting: ClassifierSetting
) -> dict[str, Any]:
    """Accuracies on a test set, the penalty chosen on the dev set."""
    x, y = (torch.cat(both) for both in zip(train_set, dev_set, strict=True))
    count = len(train_set[1])
    split = TrainingSet(np.arange(count), np.arange(count, len(y)))
    trained = train_classifiers(x, y, [split], _grid(1), classes, setting)
    percents = _means(trained.accuracy)
    correct = trained.predict(test_set[0], 0, int(np.argmax(percents))) == test_set[1].numpy()
    return _result(_percent(correct), max(percents), count, correct)


def _evaluate(
    encoder: Encoder, parts: Mapping[str, LabelledTexts], classes: int, setting: ClassifierSetting
) -> dict[str, Any]:
    embedded = Embedded(encoder, (s for part in parts.values() for s in (*part.first, *(part.second or ()))))
    problems = {split: _problem(part, embedded) for split, part in parts.items()}
    if "all" in problems:
        return nested_folds(*problems["all"], classes, setting)
    if "dev" in problems:
        return given_dev(problems["train"], problems["dev"], problems["test"], classes, setting)
    return cross_validation(problems["train"], problems["test"], classes, setting)


def _problem(part: LabelledTexts, embedded: Embedded) -> Problem:
    """Features (N, D + 1) and classes (N,), sorted as SentEval sorts them: the folds depend on the order."""
    lengths = np.array([[len(s.split()) for s in texts] for texts in (part.first, part.second or part.first)])
    order = np.lexsort((part.labels, lengths[1], lengths[0]))  # stable; the last key decides first
    u = embedded([part.first[row] for row in order])
    if part.second is not None:
        v = embedded([part.second[row] for row in order])
        u = np.concatenate([np.abs(u - v), u * v], axis=1)  # (N, 2 D)
    return with_bias(u), torch.from_numpy(part.labels[order])


def _folds(y: Tensor, rows: Indices, count: int) -> list[TrainingSet]:
    """Stratified folds of some of the rows; each is the dev part of one."""
    cut = StratifiedKFold(n_splits=count, shuffle=True, random_state=SEED).split(rows, y[rows])
    return [TrainingSet(rows[train_part], rows[dev_part]) for train_part, dev_part in cut]


def _grid(sets: int) -> Matrix:
    return np.tile(PENALTIES, (sets, 1))


def _means(scores: Matrix) -> list[float]:
    """Mean over folds of accuracies (k, R), in percent with two decimals."""
    return [round(100 * float(np.mean(column)), 2) for column in scores.T]


def _percent(correct: npt.NDArray[np.bool_]) -> float:
    return round(100 * float(correct.mean()), 2)


def _result(test: float, dev: float, ntrain: int, correct: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """From percent, rounded as SentEval does, to fractions; correct (M,) says which test samples were classed right."""
    return {
        "accuracy": round(round(test, 2) / 100, 4),
        "dev_accuracy": round(round(dev, 2) / 100, 4),
        "ntrain": ntrain,
        "ntest": len(correct),
        "per_sample": {"correct": correct.astype(int).tolist()},
    }
