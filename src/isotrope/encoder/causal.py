"""Decoders as encoders: language models that read from left to right, such as Qwen3, Llama and Gemma."""

from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedTokenizerBase

from isotrope.contract.features import language_model
from isotrope.errors import UserError


def sees_ahead(encoder: nn.Module) -> bool:
    """Whether the state of a text's first token depends on the tokens behind it."""
    ids = torch.tensor([[0, 1, 2], [0, 1, 3]], device=next(encoder.parameters()).device)
    with torch.no_grad():
        states = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state  # (2, 3, H)
    first, other = states[:, 0].float()
    return bool((first - other).abs().max() > 1e-6 * first.abs().max())


def read_both_ways(model: SentenceTransformer, name: str) -> None:
    """Let every token of a decoder see the tokens behind it too, in place; a saved model says so in config.json.

    BehnamGhader et al., COLM 2024 (LLM2Vec), Sec. 2.1. https://arxiv.org/abs/2404.05961. Most decoders give worse
    vectors until they are trained so.
    """
    encoder: Any = language_model(model)
    already = encoder is None or sees_ahead(encoder.eval())
    if not already:
        encoder.config.is_causal = False
    if already or not sees_ahead(encoder):
        why = "sees all others already" if already else "cannot be told to look ahead"
        raise UserError(f"bidirectional = true: every token of {name} {why}", "leave it out")


def give_padding(model: SentenceTransformer, name: str) -> None:
    """Let a tokenizer without a padding token, as many decoders have it, pad with its end token; the mask hides it."""
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase) or tokenizer.pad_token is not None:
        return
    if tokenizer.eos_token is None:
        problem = f"the tokenizer of {name} has neither a padding token nor an end token"
        raise UserError(problem, "name a pad_token in tokenizer_config.json")
    tokenizer.pad_token = tokenizer.eos_token
