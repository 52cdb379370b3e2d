"""Transfer by SentEval's protocol: how well a linear classifier on frozen sentence vectors does
eight tasks.

- MR, CR, SUBJ, MPQA: nested stratified k-fold. In each outer fold, an inner k-fold chooses the L2
  penalty. Then a classifier with this penalty is trained on the training part of the fold. A random
  5 % of that part is the dev set.
- TREC, MRPC: the same, but the given training and test sets are the only outer fold.
- SST2, SST5: the given dev set chooses the penalty. SentEval trains that classifier again from the
  same seed, which gives the same classifier. So we test the first one.

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
from isotrope.evaluation.results import Indices, Result, Results
from isotrope.evaluation.sets.senteval import CLASSES, LabelledTexts
from isotrope.types import Encoder, Matrix

SEED = 1111  # SentEval's
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2)  # weight decay of the optimizer
MAX_EPOCH = 200
HOLDOUT = 0.05  # share of a training set that is its dev set if none is given


class Problem(NamedTuple):
    """N samples of K classes."""

    features: Tensor  # (N, D + 1), the last column ones
    labels: Tensor  # (N,) 0 … K − 1


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
    shuffled = shuffler.permutation(rows)
    dev_size = int(HOLDOUT * len(rows))
    return TrainingSet(shuffled[dev_size:], shuffled[:dev_size], shuffler)


class TrainedClassifiers(NamedTuple):
    """The best state of each classifier by its dev accuracy, the earliest among equals, and that
    accuracy.
    """

    accuracy: Matrix  # (F, R)
    weights: Tensor  # (F, R, K, D + 1), the bias last


def evaluate_transfer(
    encoder: Encoder, tasks: Mapping[str, Mapping[str, LabelledTexts]], setting: str = "test"
) -> Results:
    """Evaluate transfer tasks: name → what `load_transfer` gives.

    Gives for each task the fractions "accuracy" and "dev_accuracy", and for MRPC "f1".
    "dev_accuracy" chose the penalty; with folds it is a mean over them. "ntrain" and "ntest" are
    counts. With nested folds, every sample is in both. `["per_sample"]["correct"]` is 1 or 0 for
    each test sample, in the same order for all encoders.
    """
    results = {}
    for task, parts in tasks.items():
        texts: list[str] = []
        for part in parts.values():
            texts += part.texts
        embeddings = Embeddings.of(encoder, texts)

        problems = {}
        for split, part in parts.items():
            problems[split] = problem_of(part, embeddings)
        results[task] = accuracies(problems, CLASSES[task], CLASSIFIER_SETTINGS[setting])
    return results


def problem_of(part: LabelledTexts, embeddings: Embeddings) -> Problem:
    """Features with a column of ones, and classes, sorted as SentEval sorts them: the folds depend
    on the order.
    """
    features = torch.from_numpy(embeddings.encode(part.first))  # (N, D)
    lengths = [_word_counts(part.first)]
    if part.second is not None:
        second = torch.from_numpy(embeddings.encode(part.second))
        distances = (features - second).abs()
        products = features * second
        features = torch.cat([distances, products], dim=1)  # (N, 2 D)
        lengths.insert(0, _word_counts(part.second))

    order = np.lexsort(np.array([part.labels, *lengths]))  # stable; the last key decides first
    with_ones = F.pad(features.float(), (0, 1), value=1.0)
    return Problem(with_ones[order], torch.from_numpy(part.labels[order]))


def _word_counts(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def accuracies(parts: Mapping[str, Problem], classes: int, setting: ClassifierSetting) -> Result:
    """One task's result: the part "all" is cut into nested folds; else "train" and "test", perhaps
    with "dev".
    """
    # All parts are one below the other.
    features = torch.cat([part.features for part in parts.values()])
    labels = torch.cat([part.labels for part in parts.values()])
    problem = Problem(features, labels)
    rows = {}
    end = 0
    for name, part in parts.items():
        start = end
        end += len(part.labels)
        rows[name] = np.arange(start, end)

    if "all" in parts:
        train = test = rows["all"]
        folds = folds_of(labels, test, setting.folds)
    else:
        train = rows["train"]
        test = rows["test"]
        folds = [TrainingSet(train, test)]
    weights, dev_percents = _best_classifiers(problem, folds, rows.get("dev"), classes, setting)

    predicted = torch.zeros_like(labels)
    for fold, classifier in zip(folds, weights, strict=True):
        classes_of_fold = predictions(features[fold.dev], classifier[None])  # (n, 1)
        predicted[fold.dev] = classes_of_fold[:, 0]
    is_correct = (predicted == labels).numpy()
    percents = [_percent(is_correct[fold.dev]) for fold in folds]

    result: Result = {
        "accuracy": _mean_fraction(percents),
        "dev_accuracy": _mean_fraction(dev_percents),
        "ntrain": len(train),
        "ntest": len(test),
        "per_sample": {"correct": is_correct[test].astype(int).tolist()},
    }
    if classes == 2 and parts.keys() == {"train", "test"}:
        f1 = f1_score(labels[test].numpy(), predicted[test].numpy())
        result["f1"] = round(float(f1), 4)
    return result


def _best_classifiers(
    problem: Problem,
    folds: Sequence[TrainingSet],
    dev: Indices | None,
    classes: int,
    setting: ClassifierSetting,
) -> tuple[Tensor, list[float]]:
    """The classifier of each outer fold (F, K, D + 1), and the dev accuracy that chose its penalty.

    The rows ``dev`` choose it, or else inner folds.
    """
    inner_folds: list[TrainingSet] = []
    for fold in folds:
        if dev is None:
            inner_folds += folds_of(problem.labels, fold.train, setting.folds)
        else:
            inner_folds.append(TrainingSet(fold.train, dev))
    penalties = np.tile(PENALTIES, (len(inner_folds), 1))
    trained = train_classifiers(problem, inner_folds, penalties, classes, setting)

    best_columns = []
    dev_percents = []
    for fold_scores in np.split(trained.accuracy, len(folds)):  # (inner folds, R)
        percents = [_percent(column) for column in fold_scores.T]
        best_columns.append(percents.index(max(percents)))
        dev_percents.append(max(percents))

    # SentEval trains it again from the same seed, which gives the same classifier.
    if dev is not None:
        return trained.weights[:, best_columns[0]], dev_percents

    splits = [split_dev(fold.train) for fold in folds]
    best_penalties = np.take(PENALTIES, best_columns)[:, None]
    trained = train_classifiers(problem, splits, best_penalties, classes, setting)
    return trained.weights[:, 0], dev_percents


def _mean_fraction(percents: Sequence[float]) -> float:
    """The mean of percents as a fraction, rounded as SentEval rounds."""
    percent = round(float(np.mean(percents)), 2)
    return round(percent / 100, 4)


def folds_of(labels: Tensor, rows: Indices, count: int) -> list[TrainingSet]:
    """Stratified folds of some of the rows; each is the dev part of one."""
    splitter = StratifiedKFold(n_splits=count, shuffle=True, random_state=SEED)
    folds = []
    for train, dev in splitter.split(rows, labels[rows]):
        folds.append(TrainingSet(rows[train], rows[dev]))
    return folds


def _percent(values: npt.NDArray[Any]) -> float:
    return round(100 * float(values.mean()), 2)


def train_classifiers(
    problem: Problem,
    sets: Sequence[TrainingSet],
    penalties: Matrix,
    classes: int,
    setting: ClassifierSetting,
) -> TrainedClassifiers:
    """Train a classifier for each of F training sets and each of its R penalties (F, R).

    Each stops early by the accuracy on its own development set, and its best weights are kept.
    """
    width = problem.features.shape[1]
    accuracy = np.zeros(penalties.shape)
    weights = torch.zeros(*penalties.shape, classes, width)

    # Sets with equally many steps an epoch are trained together.
    steps = np.array([math.ceil(len(split.train) / setting.batch_size) for split in sets])
    for count in np.unique(steps):
        group = np.flatnonzero(steps == count)
        together = [sets[int(place)] for place in group]
        accuracy[group], weights[group] = _train_together(
            problem, together, penalties[group], classes, setting
        )
    return TrainedClassifiers(accuracy, weights)


def _train_together(
    problem: Problem,
    sets: Sequence[TrainingSet],
    penalties: Matrix,
    classes: int,
    setting: ClassifierSetting,
) -> TrainedClassifiers:
    """`train_classifiers` for b sets with equally many steps an epoch."""
    decay = torch.tensor(penalties, dtype=torch.float32)[:, :, None, None]
    initial = _initial_weights(classes, problem.features.shape[1])  # (K, D + 1)
    weights = initial.repeat(*penalties.shape, 1, 1)  # (b, R, K, D + 1)
    optimizer: Optimizer = torch.optim.RMSprop([weights])
    if setting.optimizer == "adam":
        optimizer = torch.optim.Adam([weights], fused=True)  # one pass over memory
    shufflers = [deepcopy(split.shuffler) for split in sets]

    shares = _shares_in_loss(sets, setting.batch_size)  # (b, S, B)
    minibatches = torch.zeros(shares.shape, dtype=torch.int64)
    rows = minibatches.flatten(1).numpy()  # the same memory
    best_weights = weights.clone()
    best_accuracy = np.full(penalties.shape, -1.0)
    misses = np.zeros(penalties.shape, dtype=np.int64)  # (b, R) checks without a better accuracy
    for epoch in range(0, MAX_EPOCH + 1, setting.epoch_size):
        tell("trained for", epoch, MAX_EPOCH, "epochs")
        for _ in range(setting.epoch_size):
            for order, shuffler, split in zip(rows, shufflers, sets, strict=True):
                order[: len(split.train)] = shuffler.permutation(split.train)
            _train_epoch(problem, minibatches, shares, weights, decay, optimizer)

        accuracy = _dev_accuracy(problem, sets, weights)  # (b, R)
        is_better = (misses <= setting.tenacity) & (accuracy > best_accuracy)
        misses += ~is_better
        best_accuracy[is_better] = accuracy[is_better]
        best_weights[is_better] = weights[is_better]
        if (misses > setting.tenacity).all():
            break
    return TrainedClassifiers(best_accuracy, best_weights)


def _shares_in_loss(sets: Sequence[TrainingSet], size: int) -> Tensor:
    """The share of each row in the mean loss of its minibatch (b, S, B); 0 for what fills up the
    last one.
    """
    counts = torch.tensor([len(split.train) for split in sets])
    steps = math.ceil(counts[0] / size)
    is_filled = torch.arange(steps * size) < counts[:, None]
    is_filled = is_filled.view(-1, steps, size)
    shares = is_filled.double() / is_filled.sum(dim=2, keepdim=True)
    return shares.float()


def _dev_accuracy(problem: Problem, sets: Sequence[TrainingSet], weights: Tensor) -> Matrix:
    """Accuracies (b, R) on the dev part of b sets by their classifiers (b, R, K, D + 1)."""
    accuracy = []
    for split, classifiers in zip(sets, weights, strict=True):
        features = problem.features[split.dev]
        is_correct = predictions(features, classifiers) == problem.labels[split.dev, None]  # (n, R)
        accuracy.append(is_correct.numpy().mean(axis=0))
    return np.stack(accuracy)


def predictions(features: Tensor, weights: Tensor) -> Tensor:
    """Classes (n, R) of features (n, D + 1) by classifiers (R, K, D + 1)."""
    classifiers, classes, _ = weights.shape
    logits = features @ weights.flatten(0, 1).T  # (n, R K)
    by_classifier = logits.view(len(features), classifiers, classes)
    return by_classifier.argmax(dim=2)


def _train_epoch(
    problem: Problem,
    minibatches: Tensor,
    shares: Tensor,
    weights: Tensor,
    penalties: Tensor,
    optimizer: Optimizer,
) -> None:
    """Update the weights (b, R, K, D + 1) by one step for each of S minibatches (b, S, B).

    ``shares`` (b, S, B) are those of each row in the mean loss.
    """
    sets, steps, size = minibatches.shape
    _, classifiers, classes, width = weights.shape
    labels = problem.labels[minibatches]
    is_class = labels[..., None, :] == torch.arange(1, classes)[:, None]  # (b, S, K - 1, B)
    targets = is_class.float()

    # Both are written into again in each step, because new memory would cost more than the sums.
    batch = torch.empty(sets, size, width)
    gradient = torch.empty_like(weights)
    weights.grad = gradient
    for step in range(steps):
        rows = minibatches[:, step].flatten()
        torch.index_select(problem.features, 0, rows, out=batch.view(-1, width))

        directions = weights[:, :, 1:] - weights[:, :, :1]  # (b, R, K - 1, D + 1)
        log_odds = torch.bmm(directions.flatten(1, 2), batch.mT)
        log_odds = log_odds.view(sets, classifiers, classes - 1, size)
        if classes == 2:
            probabilities = log_odds.sigmoid_()
        else:
            logits = F.pad(log_odds, (0, 0, 1, 0))  # that of class 0 is 0
            probabilities = logits.softmax(dim=2)[:, :, 1:]

        errors = probabilities.sub_(targets[:, None, step])
        errors = errors.mul_(shares[:, None, None, step])
        slopes = torch.bmm(errors.flatten(1, 2), batch).view_as(directions)
        torch.mul(weights, penalties, out=gradient)
        gradient[:, :, 1:] += slopes
        gradient[:, :, 0] -= slopes.sum(dim=2)
        optimizer.step()


def _initial_weights(classes: int, width: int) -> Tensor:
    """Weights (K, D + 1) of torch's Linear right after seeding: uniform within 1 / sqrt(D), the
    bias drawn last.
    """
    generator = torch.Generator().manual_seed(SEED)
    bound = 1 / math.sqrt(width - 1)
    weights = torch.empty(classes, width - 1).uniform_(-bound, bound, generator=generator)
    bias = torch.empty(classes, 1).uniform_(-bound, bound, generator=generator)
    return torch.cat([weights, bias], dim=1)
