"""SentEval's protocol in plain torch: one classifier after another, one minibatch after another."""

import copy

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

SEED = 1111
PENALTIES = [10**t for t in range(-5, -1)]


class Classifier:
    """Linear softmax, trained until its dev accuracy has failed to improve once more than the
    tenacity.
    """

    def __init__(self, dimensions, classes, penalty, setting):
        self.shuffler, self.setting, self.epochs = np.random.RandomState(SEED), setting, 0
        with torch.random.fork_rng():
            torch.manual_seed(SEED)
            self.model = torch.nn.Linear(dimensions, classes)
        optimizer = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[setting.optimizer]
        self.optimizer = optimizer(self.model.parameters(), weight_decay=penalty)

    def fit(self, x, y, dev=None):
        if dev is None:
            order = self.shuffler.permutation(len(x))
            cut = int(0.05 * len(x))
            dev, x, y = (x[order[:cut]], y[order[:cut]]), x[order[cut:]], y[order[cut:]]
        best, misses, kept = -1.0, 0, None
        while self.epochs <= 200:
            for _ in range(self.setting.epoch_size):
                self.epoch(x, y)
            accuracy = self.score(*dev)
            if accuracy > best:
                best, kept = accuracy, copy.deepcopy(self.model)
            else:
                misses += 1
                if misses > self.setting.tenacity:
                    break
        self.model = kept
        return best

    def epoch(self, x, y):
        order = torch.from_numpy(self.shuffler.permutation(len(x)))
        for start in range(0, len(x), self.setting.batch_size):
            rows = order[start : start + self.setting.batch_size]
            loss = torch.nn.functional.cross_entropy(self.model(x[rows]), y[rows])
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.epochs += 1

    @torch.no_grad()
    def predict(self, x):
        return self.model(x).argmax(dim=1)

    def score(self, x, y):
        return (self.predict(x) == y).sum().item() / len(y)

    def weights(self):
        return torch.cat([self.model.weight, self.model.bias[:, None]], dim=1).detach()


def folds(y, count):
    return list(StratifiedKFold(count, shuffle=True, random_state=SEED).split(np.zeros(len(y)), y))


def grid(x, y, classes, setting):
    """Mean dev accuracy over folds, for each penalty, in percent with two decimals."""
    means = []
    for penalty in PENALTIES:
        scores = []
        for train, dev in folds(y, setting.folds):
            classifier = Classifier(x.shape[1], classes, penalty, setting)
            scores.append(classifier.fit(x[train], y[train], (x[dev], y[dev])))
        means.append(round(100 * np.mean(scores), 2))
    return means


def nested(x, y, classes, setting):
    """(test accuracy, dev accuracy) in percent."""
    tests, devs = [], []
    for train, test in folds(y, setting.folds):
        means = grid(x[train], y[train], classes, setting)
        classifier = Classifier(x.shape[1], classes, PENALTIES[int(np.argmax(means))], setting)
        classifier.fit(x[train], y[train])
        tests.append(round(100 * classifier.score(x[test], y[test]), 2))
        devs.append(max(means))
    return round(np.mean(tests), 2), round(np.mean(devs), 2)


def cross_validation(train, test, classes, setting):
    means = grid(*train, classes, setting)
    classifier = Classifier(train[0].shape[1], classes, PENALTIES[int(np.argmax(means))], setting)
    classifier.fit(*train)
    return round(100 * classifier.score(*test), 2), max(means)


def given_dev(train, dev, test, classes, setting):
    means = [
        round(100 * Classifier(train[0].shape[1], classes, p, setting).fit(*train, dev), 2)
        for p in PENALTIES
    ]
    classifier = Classifier(train[0].shape[1], classes, PENALTIES[int(np.argmax(means))], setting)
    classifier.fit(*train, dev)
    return round(100 * classifier.score(*test), 2), max(means)
