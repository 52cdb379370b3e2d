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
    shuffler = np.random.RandomState(SEED)
    order = rows[shuffler.permutation(len(rows))]
    dev_size = int(HOLDOUT * len(rows))
    return TrainingSet(order[dev_size:], order[:dev_size], shuffler)


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
    results = {}
    for task, parts in tasks.items():
        texts = [text for part in parts.values() for text in (*part.first, *(part.second or ()))]
        embeddings = Embeddings.of(encoder, texts)
        problems = {split: problem_of(part, embeddings) for split, part in parts.items()}
        results[task] = accuracies(problems, CLASSES[task], CLASSIFIER_SETTINGS[setting])
    return results


def problem_of(part: LabelledTexts, embeddings: Embeddings) -> Problem:
    """Features with a column of ones, and classes, sorted as SentEval sorts them: the folds depend
    on the order.
    """
    first_lengths = [len(text.split()) for text in part.first]
    second_lengths = [len(text.split()) for text in part.second or part.first]
    # Stable; the last key decides first.
    order = np.lexsort(np.array([part.labels, second_lengths, first_lengths]))

    features = embeddings.encode([part.first[row] for row in order])  # (N, D)
    if part.second is not None:
        others = embeddings.encode([part.second[row] for row in order])
        distances = np.abs(features - others)
        features = np.concatenate([distances, features * others], axis=1)  # (N, 2 D)

    with_ones = F.pad(torch.from_numpy(features).float(), (0, 1), value=1.0)
    return with_ones, torch.from_numpy(part.labels[order])


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The classifiers that predict the test samples of each outer fold, and what chose them."""

    weights: Tensor  # (F, K, D + 1)
    dev_percents: list[float]  # of each outer fold, or of the dev set


def accuracies(
    parts: Mapping[str, Problem], classes: int, setting: ClassifierSetting
) -> dict[str, Any]:
    """One task's result: the part "all" is cut into nested folds; else "train" and "test", perhaps
    with "dev".
    """
    x = torch.cat([features for features, _ in parts.values()])
    y = torch.cat([labels for _, labels in parts.values()])
    rows = _rows_of_parts(parts)
    train = rows["all"] if "all" in parts else rows["train"]
    test = rows["all"] if "all" in parts else rows["test"]
    folds = folds_of(y, test, setting.folds) if "all" in parts else [TrainingSet(train, test)]

    if "dev" in parts:
        chosen = _choose_by_dev(x, y, TrainingSet(train, rows["dev"]), classes, setting)
    else:
        chosen = _choose_by_folds(x, y, folds, classes, setting)

    predicted = np.zeros(len(y), dtype=np.int64)
    for fold, weights in zip(folds, chosen.weights, strict=True):
        predicted[fold.dev] = predictions(x[fold.dev], weights[None])[:, 0].numpy()
    correct = predicted == y.numpy()

    result: dict[str, Any] = {
        "accuracy": _mean_fraction([_percent(correct[fold.dev]) for fold in folds]),
        "dev_accuracy": _mean_fraction(chosen.dev_percents),
        "ntrain": len(train),
        "ntest": len(test),
        "per_sample": {"correct": correct[test].astype(int).tolist()},
    }
    if classes == 2 and parts.keys() == {"train", "test"}:
        result["f1"] = round(float(f1_score(y[test], predicted[test])), 4)
    return result


def _rows_of_parts(parts: Mapping[str, Problem]) -> dict[str, Indices]:
    """The rows of each part, if all parts are one below the other."""
    rows = {}
    start = 0
    for name, (_, labels) in parts.items():
        rows[name] = np.arange(start, start + len(labels))
        start += len(labels)
    return rows


def _choose_by_dev(
    x: Tensor, y: Tensor, split: TrainingSet, classes: int, setting: ClassifierSetting
) -> _Chosen:
    """The classifier whose penalty is best on the dev set.

    SentEval trains it again from the same seed, which gives the same classifier.
    """
    trained = train_classifiers(x, y, [split], np.array([PENALTIES]), classes, setting)
    percents = [_percent(accuracy) for accuracy in trained.accuracy[0]]
    best = int(np.argmax(percents))
    return _Chosen(trained.weights[:, best], [percents[best]])


def _choose_by_folds(
    x: Tensor, y: Tensor, folds: Sequence[TrainingSet], classes: int, setting: ClassifierSetting
) -> _Chosen:
    """The classifier of each outer fold whose penalty is best on its inner folds."""
    inner = [split for fold in folds for split in folds_of(y, fold.train, setting.folds)]
    penalties = np.tile(PENALTIES, (len(inner), 1))
    scores = train_classifiers(x, y, inner, penalties, classes, setting).accuracy

    best_penalties = []
    dev_percents = []
    for fold_scores in np.split(scores, len(folds)):  # (inner folds, R)
        percents = [_percent(column) for column in fold_scores.T]
        best_penalties.append([PENALTIES[int(np.argmax(percents))]])
        dev_percents.append(max(percents))

    splits = [split_dev(fold.train) for fold in folds]
    trained = train_classifiers(x, y, splits, np.array(best_penalties), classes, setting)
    return _Chosen(trained.weights[:, 0], dev_percents)


def _mean_fraction(percents: Sequence[float]) -> float:
    """The mean of percents as a fraction, rounded as SentEval rounds."""
    return round(round(float(np.mean(percents)), 2) / 100, 4)


def folds_of(y: Tensor, rows: Indices, count: int) -> list[TrainingSet]:
    """Stratified folds of some of the rows; each is the dev part of one."""
    folds = StratifiedKFold(n_splits=count, shuffle=True, random_state=SEED)
    return [TrainingSet(rows[train], rows[dev]) for train, dev in folds.split(rows, y[rows])]


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
    # Sets with equally many steps an epoch are trained together.
    steps = np.array([-(-len(split.train) // setting.batch_size) for split in sets])
    for count in np.unique(steps):
        group = np.flatnonzero(steps == count)
        together = [sets[int(place)] for place in group]
        accuracy, weights = _train_together(x, y, together, penalties[group], classes, setting)
        trained.accuracy[group] = accuracy
        trained.weights[group] = weights
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
    optimizer = _optimizer(weights, setting.optimizer)
    shufflers = [deepcopy(split.shuffler) for split in sets]

    best_weights = weights.clone()
    best_accuracy = np.full(penalties.shape, -1.0)
    misses = np.zeros(penalties.shape, dtype=np.int64)  # (b, R) checks without a better accuracy
    for epoch in range(0, MAX_EPOCH + 1, setting.epoch_size):
        tell("trained for", epoch, MAX_EPOCH, "epochs")
        for _ in range(setting.epoch_size):
            orders = [
                shuffler.permutation(split.train)
                for shuffler, split in zip(shufflers, sets, strict=True)
            ]
            rows, shares = _minibatches(orders, setting.batch_size)
            _descend(x, y, rows, shares, weights, decay, optimizer)

        accuracy = _dev_accuracy(x, y, sets, weights)  # (b, R)
        is_better = (misses <= setting.tenacity) & (accuracy > best_accuracy)
        misses += ~is_better
        best_accuracy[is_better] = accuracy[is_better]
        best_weights[is_better] = weights[is_better]
        if (misses > setting.tenacity).all():
            break
    return best_accuracy, best_weights


def _optimizer(weights: Tensor, name: str) -> Optimizer:
    """Adam or RMSprop with its default learning rate; "fused" is one pass over memory."""
    if name == "adam":
        return torch.optim.Adam([weights], fused=True)
    return torch.optim.RMSprop([weights])


def _dev_accuracy(x: Tensor, y: Tensor, sets: Sequence[TrainingSet], weights: Tensor) -> Matrix:
    """Accuracies (b, R) on the dev part of b sets by their classifiers (b, R, K, D + 1)."""
    accuracy = []
    for split, classifiers in zip(sets, weights, strict=True):
        is_right = predictions(x[split.dev], classifiers) == y[split.dev, None]  # (n, R)
        accuracy.append(is_right.numpy().mean(axis=0))
    return np.stack(accuracy)


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
        chances = _chances(odds)
        errors = chances.sub_(targets[step]).mul_(shares[step])
        slopes = torch.bmm(errors.flatten(1, 2), batch).view(sets, classifiers, classes - 1, -1)
        torch.mul(weights, penalties, out=gradient)
        gradient[:, :, 1:] += slopes
        gradient[:, :, 0] -= slopes.sum(dim=2)
        optimizer.step()


def _chances(odds: Tensor) -> Tensor:
    """Probabilities of the classes but class 0, whose logit is 0: (b, R, K - 1, B), in place."""
    if odds.shape[2] == 1:
        return odds.sigmoid_()
    return F.pad(odds, (0, 0, 1, 0)).softmax(dim=2)[:, :, 1:]


def _minibatches(orders: Sequence[Indices], size: int) -> tuple[Tensor, Tensor]:
    """Rows of the minibatches (S, b, B) and their shares in the mean loss (S, b, 1, 1, B); 0 fills
    up the last ones.
    """
    steps = -(-len(orders[0]) // size)
    rows = torch.zeros(len(orders), steps * size, dtype=torch.int64)
    shares = torch.zeros(len(orders), steps * size)
    last_start = (steps - 1) * size
    for place, order in enumerate(orders):
        count = len(order)
        rows[place, :count] = torch.from_numpy(order)
        shares[place, :last_start] = 1 / size
        shares[place, last_start:count] = 1 / (count - last_start)

    by_step = rows.view(-1, steps, size).transpose(0, 1).contiguous()
    shares_by_step = shares.view(-1, steps, size).transpose(0, 1).contiguous()
    return by_step, shares_by_step[:, :, None, None]


def _initial(classes: int, width: int) -> Tensor:
    """Weights (K, D + 1) of torch's Linear right after seeding: uniform within 1 / sqrt(D), the
    bias drawn last.
    """
    generator = torch.Generator().manual_seed(SEED)
    bound = 1 / math.sqrt(width - 1)
    weights = torch.empty(classes, width - 1).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(classes, 1).uniform_(-bound, bound, generator=generator)
    return torch.cat([weights, bias], dim=1)
