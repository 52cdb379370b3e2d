"""What the card says of the encoder."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from isotrope.evaluation.geometry import mean_cosine
from isotrope.pretraining.card import sentence_sums


def test_mean_cosine_is_that_of_sentences_encoded_one_by_one(finished):
    folder = finished / "model"
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    texts = ["the cat sees a dog .", "a red bird .", "the", "old tree in a house"]
    alone = [tokenizer(text)["input_ids"] for text in texts]
    with torch.no_grad():
        means = torch.cat([model(input_ids=torch.tensor([ids])).last_hidden_state.mean(1) for ids in alone])
    unit = torch.nn.functional.normalize(means, dim=1)
    expected = (unit @ unit.T)[~torch.eye(4, dtype=torch.bool)].mean()
    block = np.array([[id for ids in alone for id in ids]], dtype=np.uint16)
    assert mean_cosine(sentence_sums(model, block)) == pytest.approx(float(expected), abs=1e-4)
