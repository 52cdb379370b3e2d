"""A student with fewer tokens in its vocabulary, and fewer units within its layers, than its teacher.

The vocabularies of BERT and its kin begin with their most common tokens. A word without a token of its own is read in
pieces, as rare words always are. Units that neither read nor write much are those to leave out: Li et al., Pruning
Filters for Efficient ConvNets, ICLR 2017, https://arxiv.org/abs/1608.08710, Sec. 3.1, there for channels.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from isotrope.errors import UserError


def keep_tokens(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """The given model, which from now on knows the first ``count`` tokens of its vocabulary alone.

    Tokens keep their numbers.

    Raises:
        UserError: there are not more tokens; the tokenizer is no WordPiece; a special token, or the letters, go.
    """
    what = f"vocabulary:{count}"
    whole: Any = _language_model(model, what).tokenizer
    state = json.loads(whole.backend_tokenizer.to_str()) if hasattr(whole, "backend_tokenizer") else {}
    kind = state.get("model", {}).get("type", "")
    if kind != "WordPiece":
        raise UserError(
            f"{what}: the tokenizer is a {kind or type(whole).__name__}", "this needs a WordPiece: leave it out"
        )
    tokens: dict[str, int] = state["model"]["vocab"]
    if not 1 <= count < len(tokens):
        raise UserError(
            f"{what}: the model has {len(tokens)} tokens", f"choose fewer than {len(tokens)}, or leave it out"
        )
    lost = [
        token for token, number in whole.get_vocab().items() if number >= count and token in whole.all_special_tokens
    ]
    lost += [letter for letter in "abcdefghijklmnopqrstuvwxyz" if tokens.get(letter, 0) >= count]
    if lost:
        raise UserError(f"{what}: {lost[0]} is behind them", "choose more tokens")
    state["model"]["vocab"] = {token: number for token, number in tokens.items() if number < count}
    special = {name: str(token) for name, token in whole.special_tokens_map.items() if isinstance(token, str)}
    model[0].processor = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), model_max_length=whole.model_max_length,
        model_input_names=whole.model_input_names, **special,
    )  # fmt: skip
    model[0].auto_model.resize_token_embeddings(count)
    return model


def unit_norms(reads: Tensor, writes: Tensor) -> Tensor:
    """How much each of U inner units does: ‖what it reads‖ · ‖what it writes‖. (U, D), (D, U) -> (U,)."""
    return torch.mul(torch.linalg.vector_norm(reads, dim=1), torch.linalg.vector_norm(writes, dim=0))


@torch.no_grad()
def keep_units(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """The given model, which from now on has ``count`` inner units in each layer: those with the largest `unit_norms`.

    Inner units stand between the two matrices of a layer's feed-forward part.

    Raises:
        UserError: there are not more units; the architecture has no two such matrices in each layer.
    """
    what = f"inner:{count}"
    whole = _language_model(model, what).auto_model
    config = whole.config
    key = "hidden_dim" if config.model_type == "distilbert" else "intermediate_size"
    total, width = getattr(config, key, 0), config.hidden_size
    if not 1 <= count < total:
        raise UserError(f"{what}: the model has {total} inner units", f"choose fewer than {total}, or leave it out")
    linear = [module for module in whole.modules() if isinstance(module, nn.Linear)]
    reading = [module for module in linear if (module.in_features, module.out_features) == (width, total)]
    writing = [module for module in linear if (module.in_features, module.out_features) == (total, width)]
    if not len(reading) == len(writing) == config.num_hidden_layers:
        raise UserError(f"{what}: a {config.model_type} has no two matrices of {total} units a layer", "leave it out")
    for up, down in zip(reading, writing, strict=True):
        kept = unit_norms(up.weight, down.weight).topk(count).indices.sort().values
        up.weight, down.weight = nn.Parameter(up.weight[kept]), nn.Parameter(down.weight[:, kept])
        if up.bias is not None:
            up.bias = nn.Parameter(up.bias[kept])
        up.out_features = down.in_features = count
    setattr(config, key, count)
    return model


def _language_model(model: SentenceTransformer, what: str) -> Any:
    if not isinstance(model[0], Transformer):
        raise UserError(f"{what}: a {type(model[0]).__name__} has no layers", "name a language model")
    return model[0]
