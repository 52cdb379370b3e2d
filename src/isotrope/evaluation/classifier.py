"""SentEval's linear softmax classifier, hundreds at a time.

SentEval trains one small classifier after another: its time goes into launching operations on matrices of 64 rows. Here
all classifiers of a task take their steps together. F training sets share one matrix of features; each set has R
classifiers that differ in the L2 penalty alone, so that they share its minibatches:

    features (N, D) -> minibatches (F, B, D) -> log-odds (F, R, K - 1, B) -> gradients (F, R, K, D)

Softmax over K classes needs K - 1 logits, those against class 0; the gradient of class 0 is minus the sum of the
others. Adam and RMSprop are torch's own, on one tensor for all. Training sets go through in blocks that fit into the
cache, one thread a block: the numbers do not depend on how many threads there are.

Every fit starts from the seed 1111, as in SentEval, which reseeds numpy's and torch's global generators for it. Here
generators of the same kind, but our own, are used: the same initial weights, the same minibatches in the same order,
and the global ones stay untouched. What differs from the original on a CPU is rounding, which over thousands of steps
now and then moves one sample across the boundary.

Source: SentEval, Conneau and Kiela (2018), https://arxiv.org/abs/1803.05449.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim import Optimizer

from isotrope.console.progress import tell
from isotrope.types import Matrix

SEED = 1111  # SentEval's
MAX_EPOCH = 200
HOLDOUT = 0.05  # share of a training set that is its dev set where none is given
BLOCK = 1 << 18  # values in a block's minibatches (1 MiB): read twice in a step, they should stay in the cache

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ClassifierSetting:
    """How a classifier is trained, and in how many folds."""

    folds: int
    optimizer: str
    batch_size: int
    tenacity: int  # checks without a better dev accuracy that are forgiven, counted over the whole training
    epoch_size: int  # epochs between two checks


# SentEval's settings: the first for published numbers, the second for prototypes.
CLASSIFIER_SETTINGS = {
    "test": ClassifierSetting(10, "adam", 64, 5, 4),
    "fast": ClassifierSetting(5, "rmsprop", 128, 3, 2),
}

# Default learning rates; fused: one pass over memory.
_OPTIMIZERS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),
    "rmsprop": torch.optim.RMSprop,
}


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Rows of the feature matrix to train on and to check on."""

    train: Indices  # (n,)
    dev: Indices  # (m,)
    drawn: int = 0  # size of the permutation that split off the dev set: the minibatches' orders are drawn after it

    def orders(self) -> Iterator[Indices]:
        """A permutation of the n rows for each epoch."""
        generator = np.random.RandomState(SEED)
        generator.permutation(self.drawn)
        while True:
            yield generator.permutation(len(self.train))


def split_dev(rows: Indices) -> TrainingSet:
    """A random twentieth of the rows becomes the dev set."""
    order = rows[np.random.RandomState(SEED).permutation(len(rows))]
    cut = int(HOLDOUT * len(rows))
    return TrainingSet(train=order[cut:], dev=order[:cut], drawn=len(rows))


@dataclass(frozen=True, slots=True)
class TrainedClassifiers:
    """The best state of each classifier by its dev accuracy, the earliest among equals, and that accuracy."""

    accuracy: Matrix  # (F, R)
    weights: Tensor  # (F, R, K, D + 1), the bias last

    def predict(self, x: Tensor, member: int, penalty: int = 0) -> Indices:
        """Classes (n,) of x (n, D + 1) by one of the classifiers."""
        return np.asarray((x @ self.weights[member, penalty].T).argmax(dim=1).numpy())


def with_bias(features: npt.NDArray[Any]) -> Tensor:
    """Features (N, D) in float32 with a column of ones, (N, D + 1)."""
    x = torch.ones(len(features), features.shape[1] + 1)
    x[:, :-1] = torch.from_numpy(features)
    return x


def train_classifiers(
    x: Tensor,  # (N, D + 1), as from with_bias
    y: Tensor,  # (N,) classes 0 … K - 1
    sets: Sequence[TrainingSet],  # F of them
    penalties: Matrix,  # (F, R)
    classes: int,  # K
    setting: ClassifierSetting,
) -> TrainedClassifiers:
    """Train F × R classifiers, each until its own early stop, and keep the best state of each."""
    trained = TrainedClassifiers(np.zeros(penalties.shape), torch.zeros(*penalties.shape, classes, x.shape[1]))
    steps = [-(-len(rows.train) // setting.batch_size) for rows in sets]  # in an epoch
    size = max(1, BLOCK // (setting.batch_size * x.shape[1]))
    blocks = []  # sets of a block take equally many steps
    for count in sorted(set(steps)):
        members = [member for member, other in enumerate(steps) if other == count]
        blocks += [members[start : start + size] for start in range(0, len(members), size)]

    def train(block: list[int]) -> tuple[Matrix, Tensor]:
        return _train_block(x, y, [sets[member] for member in block], penalties[block], classes, setting)

    done = 0
    with _workers() as workers:
        for block, (accuracy, weights) in zip(blocks, workers.map(train, blocks), strict=True):
            trained.accuracy[block], trained.weights[block] = accuracy, weights
            done += len(block)
            tell("trained", done, len(sets), "classifiers")
    return trained


@contextmanager
def _workers() -> Iterator[ThreadPoolExecutor]:
    """As many threads as torch has, each of them alone at its block."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
            yield workers
    finally:
        torch.set_num_threads(threads)


def _train_block(
    x: Tensor, y: Tensor, sets: list[TrainingSet], penalties: Matrix, classes: int, setting: ClassifierSetting
) -> tuple[Matrix, Tensor]:
    """Best accuracies (b, R) and weights (b, R, K, D + 1) of b sets with equally many steps an epoch."""
    decay = torch.tensor(penalties, dtype=torch.float32)[:, :, None, None]  # (A, R, 1, 1) of the A sets still active
    weights = _initial(classes, x.shape[1]).repeat(*penalties.shape, 1, 1)  # (A, R, K, D + 1)
    optimizer = _OPTIMIZERS[setting.optimizer]([weights])
    best, accuracy = weights.clone(), np.full(penalties.shape, -1.0)
    misses = np.zeros(penalties.shape, dtype=np.int64)  # (b, R) checks without a better accuracy
    active, orders, epoch = np.arange(len(sets)), [rows.orders() for rows in sets], 0
    while len(active) and epoch <= MAX_EPOCH:
        training = [sets[member] for member in active]
        for _ in range(setting.epoch_size):
            rows, shares = _minibatches(training, [next(orders[member]) for member in active], setting.batch_size)
            _descend(x, y, rows, shares, weights, decay, optimizer)
        epoch += setting.epoch_size
        scores = np.stack([_score(x, y, one.dev, own) for one, own in zip(training, weights, strict=True)])  # (A, R)
        running = misses[active] <= setting.tenacity
        better = running & (scores > accuracy[active])
        misses[active] += running & ~better
        for row, penalty in zip(*np.nonzero(better), strict=True):
            accuracy[active[row], penalty] = scores[row, penalty]
            best[active[row], penalty] = weights[row, penalty]
        left = (misses[active] <= setting.tenacity).any(axis=1)
        if not left.all():
            kept, known = torch.from_numpy(left), optimizer.state[weights]
            active, decay, weights = active[left], decay[kept], weights[kept]
            optimizer = _OPTIMIZERS[setting.optimizer]([weights])
            optimizer.state[weights] = {key: value[kept] if value.ndim else value for key, value in known.items()}
    return accuracy, best


def _score(x: Tensor, y: Tensor, dev: Indices, weights: Tensor) -> Matrix:
    """Accuracies (R,) of classifiers (R, K, D + 1)."""
    logits = (x[dev] @ weights.flatten(0, 1).T).view(len(dev), *weights.shape[:2])  # (m, R, K)
    return np.asarray((logits.argmax(dim=2) == y[dev][:, None]).sum(dim=0).numpy() / len(dev))


def _descend(
    x: Tensor, y: Tensor, rows: Tensor, shares: Tensor, weights: Tensor, penalties: Tensor, optimizer: Optimizer
) -> None:
    """One epoch: S steps on minibatches (S, b, B) with the weights (b, R, K, D + 1)."""
    steps, sets, size = rows.shape
    classifiers, classes = weights.shape[1:3]
    targets = (y[rows][:, :, None, None] == torch.arange(1, classes)[:, None]).to(x.dtype)  # (S, b, 1, K - 1, B)
    batch = torch.empty(sets, size, x.shape[1])
    gradient = weights.grad = torch.empty_like(weights)
    for step in range(steps):
        torch.index_select(x, 0, rows[step].flatten(), out=batch.view(-1, x.shape[1]))
        directions = (weights[:, :, 1:] - weights[:, :, :1]).flatten(1, 2)  # (b, R (K - 1), D + 1)
        odds = torch.bmm(directions, batch.mT).view(sets, classifiers, classes - 1, size)
        errors = _probabilities(odds).sub_(targets[step]).mul_(shares[step])
        slopes = torch.bmm(errors.flatten(1, 2), batch).view(sets, classifiers, classes - 1, -1)
        torch.mul(weights, penalties, out=gradient)
        gradient[:, :, 1:] += slopes
        gradient[:, :, 0] -= slopes.sum(dim=2)
        optimizer.step()


def _probabilities(odds: Tensor) -> Tensor:
    """Softmax over class 0, whose logit is 0, and the others, (b, R, K - 1, B); without class 0 again."""
    if odds.shape[2] == 1:
        return odds.sigmoid_()
    return F.pad(odds, (0, 0, 1, 0)).softmax(dim=2)[:, :, 1:]


def _minibatches(sets: Sequence[TrainingSet], orders: Sequence[Indices], size: int) -> tuple[Tensor, Tensor]:
    """Rows of the minibatches (S, b, B) and their shares in the mean loss (S, b, 1, 1, B); 0 fills up the last ones."""
    steps = -(-len(orders[0]) // size)
    rows = np.zeros((len(sets), steps * size), dtype=np.int64)
    shares = np.zeros((len(sets), steps * size), dtype=np.float32)
    for index, (members, order) in enumerate(zip(sets, orders, strict=True)):
        count, last = len(order), (steps - 1) * size
        rows[index, :count] = members.train[order]
        shares[index, :last], shares[index, last:count] = 1 / size, 1 / (count - last)
    by_step = [torch.from_numpy(a.reshape(len(sets), steps, size).swapaxes(0, 1).copy()) for a in (rows, shares)]
    return by_step[0], by_step[1][:, :, None, None]


def _initial(classes: int, width: int) -> Tensor:
    """Weights (K, D + 1) of torch's Linear right after seeding: uniform within 1 / sqrt(D), the bias drawn last."""
    generator = torch.Generator().manual_seed(SEED)
    weights, bound = torch.empty(classes, width), 1 / math.sqrt(width - 1)
    weights[:, :-1] = torch.empty(classes, width - 1).uniform_(-bound, bound, generator=generator)
    weights[:, -1] = torch.empty(classes).uniform_(-bound, bound, generator=generator)
    return weights
