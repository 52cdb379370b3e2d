"""Any encoder by its name: a folder, a hub name, or the model that isotrope ships."""

import re
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.util import get_device_name
from torch import nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedTokenizerBase

from isotrope.console.progress import tell
from isotrope.contract.features import language_model
from isotrope.encoder.adapters import base_model, merge_adapter
from isotrope.encoder.fast.half import AUTO, DTYPES, choose_dtype, multiply_in, why_not_bf16
from isotrope.encoder.fast.packed import BEHIND_PADDING_INDEX, pack, supports
from isotrope.encoder.faults import loading, missing_tensors, quiet, refuse_damaged
from isotrope.encoder.locate import check_hub, first_module, locate
from isotrope.encoder.pooling import check_pooling, freeze, join_layers, own_head, pooling_modules
from isotrope.encoder.prompts import Prompts, refuse_routes
from isotrope.errors import UserError, check_known

# the first module of a model that has an encoder for queries and another one for documents
_ROUTES = "Router"
# the first module of a model that has one vector a token, and no language model
_WORDS = "StaticEmbedding"
SHORTEST = 3  # tokens: the first mark, a word, the last mark
# What configurations call an encoder's dropout: hidden_dropout_prob, resid_pdrop, dropout_rate, …;
# and those of heads.
_DROPOUT, _HEADS = re.compile(r"dropout|pdrop"), re.compile(r"classif|summary|pooler|qa_")


def load(
    model: str | Path,
    pooling: str | None = None,
    *,
    max_length: int | None = None,
    dropout: float | None = None,
    normalize: bool | None = None,
    device: str | None = None,
    packed: bool = True,
    prompt: str | None = None,
    prompt_name: str | None = None,
    bidirectional: bool | None = None,
    frozen: bool = False,
    dtype: str = "float32",
) -> SentenceTransformer:
    """Load an encoder with ``encode(list[str]) -> (N, D)``: a plain sentence-transformers model.

    Args:
        model: a folder, a hub name such as ``bert-base-uncased``, ``isotrope/tiny`` (ours, shipped)
            or ``isotrope/minilm`` (all-MiniLM-L6-v2, with the extra ``minilm``). A folder may also
            hold one vector a token (`StaticEmbedding`), whose mean over the whole text is taken.
        pooling: ``cls``, ``mean``, ``embeddings`` (no layer at all), ``first_last`` (embeddings +
            last layer), ``first_layer_last``, ``last_two``, ``cls_head`` (the model's own head),
            ``new_head`` (a random one), ``lasttoken`` (for decoders), or ``mask`` (the mask token
            of a template around the text). By default a sentence-transformers model keeps its own
            pooling, prompts and normalisation, a bare encoder gets ``mean``, and a bare decoder
            (``…ForCausalLM``) ``lasttoken``. A pooling given here replaces whatever stood behind
            the encoder.
        max_length: tokens a sentence; longer ones are cut. By default the model's own.
        dropout: set every dropout probability of the encoder, where the two views of contrastive
            learning come from.
        normalize: end with unit rows or not; by default as the model has it (never, where
            ``pooling`` is given).
        device: by default CUDA, then MPS, then the CPU.
        packed: skip padding where the architecture is known (see `encoder.fast.packed`): the same
            embeddings, faster. Set False to trace the model or to export it to another format.
        prompt: words before every text, such as ``"query: "``; ``""`` for none. By default the
            model's default prompt.
        prompt_name: the same, by the name of one of the model's prompts. Either becomes the model's
            default prompt, and is saved with it.
        bidirectional: let the tokens of a decoder see those behind them (see `read_both_ways`). By
            default they do as the model's ``config.json`` says.
        frozen: the model will only encode. Embeddings of words that a local file stores in 16 bits
            stay so: less memory, the same vectors. To train or save it, load it without this.
        dtype: ``float32``; ``bf16``, for a frozen model on a CPU that has instructions for it: the
            layers multiply in 16 bits; or ``auto``: bf16 if it is possible and, measured once,
            faster and as good (`choose_dtype`).

    A LoRA adapter's changes are added to its base model's weights.

    Raises:
        UserError: there is no such model or prompt; its files are broken or incomplete; an option
            does not fit.
    """
    where, name = locate(str(model)), str(model)
    tell(f"loading {model}")
    check_hub(where)
    check_pooling(pooling)
    check_known("dtype =", dtype, DTYPES)
    prompts = Prompts(prompt, prompt_name)
    prompts.check(where, name)
    base = base_model(where, name)
    first = first_module(where)
    if first == _WORDS and (pooling, max_length) != (None, None):
        raise UserError(
            f"{model} takes the mean of one vector a token", "leave out pooling and max_length"
        )
    if first == _WORDS and not any(Path(where).rglob("*.safetensors")):
        raise UserError(
            f"{model} has no model.safetensors", "save it again: pickled files are not opened"
        )
    config, overrides = None, {}
    if first not in (_WORDS, _ROUTES):
        with loading(where, name):
            config = AutoConfig.from_pretrained(base or where, trust_remote_code=False)
        overrides = {} if dropout is None else dict.fromkeys(dropout_keys(config), dropout)
    if dropout and not overrides and first != _ROUTES:
        raise UserError(
            f"dropout = {dropout}: the configuration of {model} has no dropout", "leave it out"
        )
    if dtype == "bf16" and (why := why_not_bf16(config, device or get_device_name(), packed)):
        raise UserError(f"dtype = 'bf16' does not suit {model}: {why}", "leave it out")
    with loading(where, name), quiet(), missing_tensors() as missing:
        options = {"model_kwargs": {"use_safetensors": True}, "config_kwargs": overrides}
        encoder = SentenceTransformer(where, device=device, trust_remote_code=False, **options)
    if pooling is not None or (dropout and first == _ROUTES):
        refuse_routes(encoder, name)
    if base:
        merge_adapter(encoder)
    refuse_damaged(encoder, missing, name)
    _give_padding(encoder, name)
    if bidirectional:
        read_both_ways(encoder, name)
    join_layers(encoder)
    if pooling is not None:
        seen = all(module.include_prompt for module in encoder if isinstance(module, Pooling))
        # A saved model's pooler is that of before its training, or a random one.
        trained = not (
            (Path(where) / "modules.json").is_file()
            or any("pooler" in tensor for tensor in missing)
        )
        own = pooling == "cls_head"
        modules = (
            own_head(list(encoder), trained, name) if own else pooling_modules(encoder[0], pooling)
        )
        del encoder[1:]
        encoder.extend(modules).to(encoder.device).set_pooling_include_prompt(seen)
    freeze(encoder)
    prompts.apply(encoder, name)
    if normalize is True and not isinstance(encoder[-1], Normalize):
        encoder.append(Normalize())
    elif normalize is False and isinstance(encoder[-1], Normalize):
        del encoder[-1]
    _set_length(encoder, max_length, config, name)
    if frozen or dtype != "float32":
        encoder.requires_grad_(False)
        if supports(config):  # others look at the type of their weights
            _keep_16_bits(encoder)
    for module in encoder.modules() if packed else ():
        if isinstance(module, Transformer):
            pack(module.auto_model)
            if "message" not in module.modality_config and getattr(
                module.tokenizer, "is_fast", False
            ):
                module.preprocess = partial(_preprocess, module)
    if dtype == "bf16":
        multiply_in(encoder[0].auto_model, "bf16")
    elif dtype == AUTO and packed:
        choose_dtype(encoder)
    return encoder


def dropout_keys(config: PreTrainedConfig) -> list[str]:
    """The settings that hold a dropout probability of the encoder itself."""
    return [
        key
        for key, value in vars(config).items()
        if type(value) in (int, float) and _DROPOUT.search(key) and not _HEADS.search(key)
    ]


def _preprocess(
    module: Transformer, inputs: Sequence[Any], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """``Transformer.preprocess``: the same ids, in half the time (90 instead of 180 µs a sentence).

    `BatchEncoding.convert_to_tensors` flattens each list of ids in Python, only to see that it is
    not empty.
    """
    own = args or kwargs.get("processing_kwargs") or kwargs.get("task")
    if own or not all(type(text) is str for text in inputs):
        return type(module).preprocess(module, inputs, *args, **kwargs)  # type: ignore[no-any-return]
    found = type(module).preprocess(
        module, inputs, processing_kwargs={"common": {"return_tensors": None}}, **kwargs
    )
    return {
        key: torch.from_numpy(np.array(part)) if isinstance(part, list) else part
        for key, part in found.items()
    }


def _set_length(
    encoder: SentenceTransformer, asked: int | None, config: PreTrainedConfig | None, model: str
) -> None:
    """Cut texts at ``asked`` tokens, else where the model says so, but never behind its last
    position.
    """
    longest: int | None = getattr(config, "max_position_embeddings", None)
    own = getattr(encoder, "max_seq_length", None)
    for key, value in (("max_seq_length", own), ("config.json: max_position_embeddings", longest)):
        # one vector for all texts
        if value not in (None, inf) and (type(value) is not int or value < SHORTEST):
            raise UserError(
                f"{model}: {key} = {value!r} is impossible",
                "correct it, or download the model again",
            )
    if config and longest and config.model_type in BEHIND_PADDING_INDEX:  # MPNet's padding is fixed
        longest -= 2 if config.model_type == "mpnet" else config.pad_token_id + 1
    if asked is not None and not SHORTEST <= asked <= (longest or asked):
        choose = (
            f"choose {SHORTEST} to {longest} tokens"
            if longest
            else f"choose {SHORTEST} tokens or more"
        )
        raise UserError(f"max_length = {asked} does not fit {model}", choose)
    if asked is not None:
        encoder.max_seq_length = asked
    elif longest is not None and (encoder.max_seq_length or 0) > longest:
        # a tokenizer that promises too much
        encoder.max_seq_length = longest


def _keep_16_bits(encoder: SentenceTransformer) -> None:
    """Hold word embeddings in 16 bits if their file does, which loses nothing. Rows are widened
    when they are read.
    """
    table = encoder[0].auto_model.get_input_embeddings()
    weights = table.weight.data  # the parts of which need little memory to look at
    for kind in (torch.float16, torch.bfloat16) if weights.dtype == torch.float32 else ():
        if all(torch.equal(part.to(kind).float(), part) for part in weights.split(1024)):
            table.weight.data, encoder.widened = weights.to(kind), True
            table.register_forward_hook(lambda module, inputs, output: output.float())
            return


def sees_ahead(encoder: nn.Module) -> bool:
    """Whether the state of a text's first token depends on the tokens behind it."""
    ids = torch.tensor([[0, 1, 2], [0, 1, 3]], device=next(encoder.parameters()).device)
    with torch.no_grad():
        # (2, 3, H)
        states = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    first, other = states[:, 0].float()
    return bool((first - other).abs().max() > 1e-6 * first.abs().max())


def read_both_ways(model: SentenceTransformer, name: str) -> None:
    """Let every token of a decoder see the tokens behind it too, in place; a saved model says so in
    config.json.

    BehnamGhader et al., COLM 2024 (LLM2Vec), Sec. 2.1. https://arxiv.org/abs/2404.05961. Most
    decoders give worse vectors until they are trained so.
    """
    encoder: Any = language_model(model)
    already = encoder is None or sees_ahead(encoder.eval())
    if not already:
        encoder.config.is_causal = False
    if already or not sees_ahead(encoder):
        why = "sees all others already" if already else "cannot be told to look ahead"
        raise UserError(f"bidirectional = true: every token of {name} {why}", "leave it out")


def _give_padding(model: SentenceTransformer, name: str) -> None:
    """Let a tokenizer without a padding token, as many decoders have it, pad with its end token;
    the mask hides it.
    """
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    # transformers makes up an empty one for some
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_ids):
        raise UserError(
            f"{name} has no tokenizer", "put the tokenizer's files (tokenizer.json) into the folder"
        )
    if tokenizer.pad_token is None and tokenizer.eos_token is None:
        problem = f"the tokenizer of {name} has neither a padding token nor an end token"
        raise UserError(problem, "name a pad_token in tokenizer_config.json")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
