"""Toy classes for the linear classifiers, and small settings to train them with."""

import torch

from isotrope.evaluation.classifier import ClassifierSetting, with_bias

SMALL = {
    "adam": ClassifierSetting(folds=3, optimizer="adam", batch_size=16, tenacity=1, epoch_size=2),
    "rmsprop": ClassifierSetting(folds=3, optimizer="rmsprop", batch_size=20, tenacity=1, epoch_size=1),
}


def toy(count=120, dimensions=7, classes=2, seed=0):
    """Features (N, D) and classes (N,) that a linear classifier gets mostly right."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % classes
    centres = torch.randn(classes, dimensions, generator=generator)
    return centres[y] * 0.6 + torch.randn(count, dimensions, generator=generator), y


def problem(x, y):
    return with_bias(x.numpy()), y
