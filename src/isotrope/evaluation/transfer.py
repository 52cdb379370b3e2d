"""Transfer by SentEval's protocol: how well a linear classifier on frozen sentence vectors does
eight tasks.

- MR, CR, SUBJ, MPQA: nested stratified k-fold. In each outer fold, an inner k-fold chooses the L2 penalty. Then a
  classifier with this penalty is trained on the training part of the fold. A random 5 % of that
part is the dev set.
- TREC, MRPC: the same, where the given training and test sets are the only outer fold.
- SST2, SST5: the given dev set chooses the penalty. SentEval trains that classifier again from the same seed, which
  gives the same classifier. So we test the first one.

Samples are sorted by number of words and class before they are cut into folds. Accuracies are
rounded to two decimals of percent before they are compared. The first of equal penalties wins.

SentEval trains one small classifier after another. Here all classifiers of a task take their steps
together: F training sets share one matrix of features, and the R classifiers of a set, which differ
in the L2 penalty, its minibatches:

    features (N, D) -> minibatches (F, B, D) -> log-odds (F, R, K - 1, B) -> gradients (F, R, K, D)

Softmax over K classes needs K - 1 logits, those against class 0; the gradient of class 0 is minus
the sum of the others. Every fit starts from SentEval's seed. Only rounding differs, which over
thousands of steps now and then moves one sample across the boundary.

Source: SentEval, Conneau and Kiela (2018), https://arxiv.org/abs/1803.05449.
"""

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from sklearn.model_selection import StratifiedKFold
from torch import Tensor
from torch.optim import Optimizer

from isotrope.console.progress import tell
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.senteval import CLASSES, LabelledTexts
from isotrope.types import Encoder, Matrix

SEED = 1111  # SentEval's
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)  # weight decay of the optimizer
MAX_EPOCH = 200
HOLDOUT = 0.05  # share of a training set that is its dev set where none is given

Indices = npt.NDArray[np.int64]
Problem = tuple[Tensor, Tensor]  # features (N, D + 1) and classes (N,)


@dataclass(frozen=True, slots=True)
class ClassifierSetting:
    """How a classifier is trained, and in how many folds."""

    folds: int
    optimizer: str
    batch_size: int
    # checks without a better dev accuracy that are forgiven, counted over the whole training
    tenacity: int
    epoch_size: int  # epochs between two checks


CLASSIFIER_SETTINGS = {
    "test": ClassifierSetting(10, "adam", 64, 5, 4),  # SentEval's for published numbers
    "fast": ClassifierSetting(5, "rmsprop", 128, 3, 2),  # and for prototypes
}


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Rows of the feature matrix to train on and to check on."""

    train: Indices  # (n,)
    dev: Indices  # (m,)
    # of each epoch
    shuffler: np.random.RandomState = field(default_factory=lambda: np.random.RandomState(SEED))


def split_dev(rows: Indices) -> TrainingSet:
    """A random twentieth of the rows becomes the dev set. The epochs go on with the same generator,
    as SentEval's.
    """
    shuffler, cut = np.random.RandomState(SEED), int(HOLDOUT * len(rows))
    order = rows[shuffler.permutation(len(rows))]
    return TrainingSet(order[cut:], order[:cut], shuffler)


class TrainedClassifiers(NamedTuple):
    """The best state of each classifier by its dev accuracy, the earliest among equals, and that
    accuracy.
    """

    accuracy: Matrix  # (F, R)
    weights: Tensor  # (F, R, K, D + 1), the bias last


def evaluate_transfer(
    encoder: Encoder, tasks: Mapping[str, Mapping[str, LabelledTexts]], setting: str = "test"
) -> dict[str, Any]:
    """Evaluate transfer tasks: name → what `load_transfer` gives.

    Gives for each task the fractions "accuracy" and "dev_accuracy", and for MRPC "f1".
    "dev_accuracy" chose the penalty; with folds it is a mean over them. "ntrain" and "ntest" are
    counts. With nested folds, every sample is in both. `["per_sample"]["correct"]` is 1 or 0 for
    each test sample, in the same order for all encoders.
    """
    found = {}
    for task, parts in tasks.items():
        known = Embeddings.of(
            encoder, (s for part in parts.values() for s in (*part.first, *(part.second or ())))
        )
        problems = {split: problem_of(part, known) for split, part in parts.items()}
        found[task] = accuracies(problems, CLASSES[task], CLASSIFIER_SETTINGS[setting])
    return found


def problem_of(part: LabelledTexts, known: Embeddings) -> Problem:
    """Features with a column of ones, and classes, sorted as SentEval sorts them: the folds depend
    on the order.
    """
    lengths = np.array(
        [[len(s.split()) for s in texts] for texts in (part.first, part.second or part.first)]
    )
    order = np.lexsort((part.labels, lengths[1], lengths[0]))  # stable; the last key decides first
    u = known.encode([part.first[row] for row in order])
    if part.second is not None:
        v = known.encode([part.second[row] for row in order])
        u = np.concatenate([np.abs(u - v), u * v], axis=1)  # (N, 2 D)
    return F.pad(torch.from_numpy(u).float(), (0, 1), value=1.0), torch.from_numpy(
        part.labels[order]
    )


def accuracies(
    parts: Mapping[str, Problem], classes: int, setting: ClassifierSetting
) -> dict[str, Any]:
    """One task's result: the part "all" is cut into nested folds; else "train" and "test", perhaps
    with "dev".
    """
    x, y = (torch.cat(each) for each in zip(*parts.values(), strict=True))
    ends = np.cumsum([len(labels) for _, labels in parts.values()])
    rows = dict(zip(parts, np.split(np.arange(len(y)), ends[:-1]), strict=True))
    train, test = (rows["all"], rows["all"]) if "all" in parts else (rows["train"], rows["test"])
    outer = folds_of(y, test, setting.folds) if "all" in parts else [TrainingSet(train, test)]
    if "dev" in parts:
        known = [TrainingSet(train, rows["dev"])]
        trained = train_classifiers(x, y, known, np.array([PENALTIES]), classes, setting)
        percents = [[_percent(column) for column in trained.accuracy.T]]
        chosen = int(np.argmax(percents))
    else:
        inner = [fold for one in outer for fold in folds_of(y, one.train, setting.folds)]
        scores = train_classifiers(
            x, y, inner, np.tile(PENALTIES, (len(inner), 1)), classes, setting
        ).accuracy
        percents = [
            [_percent(column) for column in part.T] for part in np.split(scores, len(outer))
        ]
        best = np.array([[PENALTIES[int(np.argmax(each))]] for each in percents])
        trained = train_classifiers(
            x, y, [split_dev(one.train) for one in outer], best, classes, setting
        )
        chosen = 0  # the only one
    predicted = np.zeros(len(y), dtype=np.int64)
    for fold, one in enumerate(outer):
        predicted[one.dev] = predictions(x[one.dev], trained.weights[fold])[:, chosen].numpy()
    correct = predicted == y.numpy()
    means = (
        np.mean(each)
        for each in ([_percent(correct[one.dev]) for one in outer], [*map(max, percents)])
    )
    accuracy, dev_accuracy = (round(round(float(percent), 2) / 100, 4) for percent in means)
    result: dict[str, Any] = {"accuracy": accuracy, "dev_accuracy": dev_accuracy}
    result |= {"ntrain": len(train), "ntest": len(test)}
    result["per_sample"] = {"correct": correct[test].astype(int).tolist()}
    if classes == 2 and parts.keys() == {"train", "test"}:
        result["f1"] = round(float(f1_score(y[test], predicted[test])), 4)
    return result


def folds_of(y: Tensor, rows: Indices, count: int) -> list[TrainingSet]:
    """Stratified folds of some of the rows; each is the dev part of one."""
    cut = StratifiedKFold(n_splits=count, shuffle=True, random_state=SEED).split(rows, y[rows])
    return [TrainingSet(rows[train_part], rows[dev_part]) for train_part, dev_part in cut]


def _percent(values: npt.NDArray[Any]) -> float:
    return round(100 * float(values.mean()), 2)


def train_classifiers(
    x: Tensor,
    y: Tensor,
    sets: Sequence[TrainingSet],
    penalties: Matrix,
    classes: int,
    setting: ClassifierSetting,
) -> TrainedClassifiers:
    """Train a classifier for each set and penalty (F, R), each until its own early stop, and keep
    its best state.
    """
    trained = TrainedClassifiers(
        np.zeros(penalties.shape), torch.zeros(*penalties.shape, classes, x.shape[1])
    )
    steps = np.array([-(-len(rows.train) // setting.batch_size) for rows in sets])  # in an epoch
    for count in np.unique(steps):
        group = np.flatnonzero(steps == count)
        found = _train_together(
            x, y, [sets[int(place)] for place in group], penalties[group], classes, setting
        )
        trained.accuracy[group], trained.weights[group] = found
    return trained


def _train_together(
    x: Tensor,
    y: Tensor,
    sets: list[TrainingSet],
    penalties: Matrix,
    classes: int,
    setting: ClassifierSetting,
) -> tuple[Matrix, Tensor]:
    """Best accuracies (b, R) and weights (b, R, K, D + 1) of b sets with equally many steps an
    epoch.
    """
    decay = torch.tensor(penalties, dtype=torch.float32)[:, :, None, None]
    weights = _initial(classes, x.shape[1]).repeat(*penalties.shape, 1, 1)  # (b, R, K, D + 1)
    # both have their default learning rates; "fused" is one pass over memory
    adam = setting.optimizer == "adam"
    optimizer = torch.optim.Adam([weights], fused=True) if adam else torch.optim.RMSprop([weights])
    best, accuracy = weights.clone(), np.full(penalties.shape, -1.0)
    misses = np.zeros(penalties.shape, dtype=np.int64)  # (b, R) checks without a better accuracy
    shufflers = [deepcopy(one.shuffler) for one in sets]
    for epoch in range(0, MAX_EPOCH + 1, setting.epoch_size):
        tell("trained for", epoch, MAX_EPOCH, "epochs")
        for _ in range(setting.epoch_size):
            orders = [own.permutation(one.train) for own, one in zip(shufflers, sets, strict=True)]
            rows, shares = _minibatches(orders, setting.batch_size)
            _descend(x, y, rows, shares, weights, decay, optimizer)
        found = (
            predictions(x[one.dev], own) == y[one.dev, None]
            for one, own in zip(sets, weights, strict=True)
        )
        scores = np.stack([right.numpy().mean(axis=0) for right in found])  # (b, R)
        better = (misses <= setting.tenacity) & (scores > accuracy)
        misses += ~better
        accuracy[better], best[better] = scores[better], weights[better]
        if (misses > setting.tenacity).all():
            break
    return accuracy, best


def predictions(x: Tensor, weights: Tensor) -> Tensor:
    """Classes (n, R) of x (n, D + 1) by classifiers (R, K, D + 1)."""
    return (x @ weights.flatten(0, 1).T).view(len(x), *weights.shape[:2]).argmax(dim=2)


def _descend(
    x: Tensor,
    y: Tensor,
    rows: Tensor,
    shares: Tensor,
    weights: Tensor,
    penalties: Tensor,
    optimizer: Optimizer,
) -> None:
    """One epoch: S steps on minibatches (S, b, B) with the weights (b, R, K, D + 1)."""
    steps, sets, size = rows.shape
    classifiers, classes = weights.shape[1:3]
    # (S, b, 1, K - 1, B)
    targets = (y[rows][:, :, None, None] == torch.arange(1, classes)[:, None]).to(x.dtype)
    batch = torch.empty(sets, size, x.shape[1])
    gradient = weights.grad = torch.empty_like(weights)
    for step in range(steps):
        torch.index_select(x, 0, rows[step].flatten(), out=batch.view(-1, x.shape[1]))
        directions = (weights[:, :, 1:] - weights[:, :, :1]).flatten(1, 2)  # (b, R (K - 1), D + 1)
        odds = torch.bmm(directions, batch.mT).view(sets, classifiers, classes - 1, size)
        # Softmax over class 0, whose logit is 0, and the others; of two classes it is a sigmoid.
        chances = (
            odds.sigmoid_() if classes == 2 else F.pad(odds, (0, 0, 1, 0)).softmax(dim=2)[:, :, 1:]
        )
        errors = chances.sub_(targets[step]).mul_(shares[step])
        slopes = torch.bmm(errors.flatten(1, 2), batch).view(sets, classifiers, classes - 1, -1)
        torch.mul(weights, penalties, out=gradient)
        gradient[:, :, 1:] += slopes
        gradient[:, :, 0] -= slopes.sum(dim=2)
        optimizer.step()


def _minibatches(orders: Sequence[Indices], size: int) -> tuple[Tensor, Tensor]:
    """Rows of the minibatches (S, b, B) and their shares in the mean loss (S, b, 1, 1, B); 0 fills
    up the last ones.
    """
    steps = -(-len(orders[0]) // size)
    rows, shares = (
        torch.zeros(len(orders), steps * size, dtype=torch.int64),
        torch.zeros(len(orders), steps * size),
    )
    for own, share, order in zip(rows, shares, orders, strict=True):
        count, last = len(order), (steps - 1) * size
        own[:count] = torch.from_numpy(order)
        share[:last], share[last:count] = 1 / size, 1 / (count - last)
    by_step = [each.view(-1, steps, size).transpose(0, 1).contiguous() for each in (rows, shares)]
    return by_step[0], by_step[1][:, :, None, None]


def _initial(classes: int, width: int) -> Tensor:
    """Weights (K, D + 1) of torch's Linear right after seeding: uniform within 1 / sqrt(D), the
    bias drawn last.
    """
    generator = torch.Generator().manual_seed(SEED)
    bound = 1 / math.sqrt(width - 1)
    parts = [
        torch.empty(classes, each).uniform_(-bound, bound, generator=generator)
        for each in (width - 1, 1)
    ]
    return torch.cat(parts, dim=1)
