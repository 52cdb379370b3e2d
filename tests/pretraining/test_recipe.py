"""The sizes."""

import pytest
import torch

from isotrope.errors import UserError
from isotrope.pretraining.model import build_model
from isotrope.pretraining.recipe import RECIPES, recipe_of


@pytest.mark.parametrize("name", RECIPES)
def test_every_size_is_one_that_transformers_can_build(name):
    recipe = recipe_of(name)
    with torch.device("meta"):
        model = build_model(recipe, _Vocabulary(recipe.vocabulary), seed=0)
    assert model.config.num_hidden_layers == recipe.layers
    if name == "tiny":  # what is shipped has to fit
        assert 2 * model.model.num_parameters() < 20e6


def test_an_unknown_size_is_named_with_those_that_there_are():
    with pytest.raises(UserError, match="'huge' is not known: choose one of tiny, mini, small"):
        recipe_of("huge")


class _Vocabulary:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def convert_tokens_to_ids(self, token: str) -> int:
        return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].index(token)
