"""How fast models read and are trained on this machine, from short measurements."""

from collections.abc import Sequence

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import batch_to_device

from isotrope.encoder.embed import vectors_of
from isotrope.encoder.fast.products import fast_products
from isotrope.encoder.length import limit_length
from isotrope.improvement.clock import Clock
from isotrope.improvement.tasks import JUDGED_LENGTH, count_words
from isotrope.text.permutation import evenly

READ = 32  # texts that are encoded
PAIRS = 32  # pairs of a training step
STEPS = 2  # training steps that are timed
PAIR_WORDS = 32  # of two crops
STEP_COST = 4  # a training step of a model without gradients counts as so many encodings


def reading_speed(model: SentenceTransformer, texts: Sequence[str]) -> float:
    """Words that a model reads in a second."""
    sample = [texts[row] for row in evenly(len(texts), READ)]
    with limit_length(model, JUDGED_LENGTH):
        vectors_of(model, sample[:2])  # the first call is slower
        began = Clock.now()
        vectors_of(model, sample, batch_size=READ)
    return count_words(sample) / max(Clock.now() - began, 1e-6)


def training_speed(model: SentenceTransformer, texts: Sequence[str], reading: float) -> float:
    """Pairs that a model is trained on in a second. The model is left as it was.

    Args:
        model: a loaded model.
        texts: texts from which pairs of crops could be drawn.
        reading: words that it reads in a second, for a model that has no gradients.
    """
    if not any(weight.requires_grad for weight in model.parameters()):
        return reading / (PAIR_WORDS * STEP_COST)

    crops = [" ".join(text.split()[: PAIR_WORDS // 2]) for text in texts[: 2 * PAIRS]]
    features = model.preprocess(crops * -(-2 * PAIRS // len(crops)))
    features = batch_to_device(features, model.device)
    was_training = model.training
    model.train()
    _step(model, features)  # the first step is slower
    began = Clock.now()
    for _ in range(STEPS):
        _step(model, features)
    seconds = Clock.now() - began
    model.train(was_training)
    return STEPS * PAIRS / max(seconds, 1e-6)


def _step(model: SentenceTransformer, features: dict[str, torch.Tensor]) -> None:
    """A forward and a backward pass, without any change of the weights."""
    with fast_products():
        embeddings = model(dict(features))["sentence_embedding"]  # (2 N, D)
        (embeddings @ embeddings.T).square().mean().backward()
    model.zero_grad(set_to_none=True)
