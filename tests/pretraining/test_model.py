"""The encoder and its head before training."""

import numpy as np
import torch

from isotrope.pretraining.model import begin_from, build_model
from toy import TOY


def test_the_same_seed_gives_the_same_weights(tokenizer):
    one, again, other = (build_model(TOY, tokenizer, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[name], again[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)


def test_training_begins_from_vectors_and_log_frequencies(tokenizer):
    model = build_model(TOY, tokenizer, 0)
    vectors = np.random.default_rng(0).normal(size=(len(tokenizer), TOY.width)).astype(np.float32)
    counts = np.arange(len(tokenizer))
    begin_from(model, vectors, counts)
    assert np.array_equal(model.model.embeddings.tok_embeddings.weight.detach().numpy(), vectors)
    assert np.allclose(model.decoder.bias.detach().numpy(), np.log((counts + 1) / (counts + 1).sum()), atol=1e-6)
