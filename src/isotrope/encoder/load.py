"""Any encoder by its name: a folder, a hub name, or the model that isotrope ships."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

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
from isotrope.encoder.fast.dtype import (
    AUTO,
    DTYPES,
    SAMPLE,
    Dtype,
    choose_dtype,
    multiply_in,
    quantise,
    why_not,
)
from isotrope.encoder.fast.packed import pack, supports
from isotrope.encoder.faults import loading, missing_tensors, refuse_damaged
from isotrope.encoder.length import set_length
from isotrope.encoder.locate import FirstModule, find_model, first_module, is_bare, is_trusted
from isotrope.encoder.pooling import check_pooling, freeze, join_layers, own_head, pooling_modules
from isotrope.encoder.prompts import Prompts, refuse_routes
from isotrope.errors import UserError, check_known

# What configurations call an encoder's dropout: hidden_dropout_prob, resid_pdrop, dropout_rate, …
_DROPOUT = re.compile(r"dropout|pdrop")
_HEADS = re.compile(r"classif|summary|pooler|qa_")  # whose dropout is not the encoder's


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
    sample: Sequence[str] = SAMPLE,
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
            (``…ForCausalLM``) ``lasttoken``. A pooling given here replaces all modules after the
            encoder.
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
        bidirectional: let the tokens of a decoder see those after them (see `read_both_ways`). By
            default they do as the model's ``config.json`` says.
        frozen: the model will only encode. Embeddings of words that a local file stores in 16 bits
            stay so: less memory, the same vectors. To train or save it, load it without this.
        dtype: ``float32``; ``bf16``, for a frozen model on a CPU that has instructions for it: the
            layers multiply in 16 bits; ``int8``, likewise, in 8 bits, which changes the vectors
            more; or ``auto``: bf16 or else int8 if it is possible and, measured once, faster and as
            good (`choose_dtype`).
        sample: texts like those to encode: for int8, they decide to what numbers are rounded, and
            for auto, the choice. From 40 texts on, auto considers int8. By default four short ones.

    A LoRA adapter's changes are added to its base model's weights. Several threads may load at the
    same time.

    Raises:
        UserError: there is no such model or prompt; its files are broken or incomplete; it has code
            of its own; an option does not fit.
    """
    name = str(model)
    tell(f"loading {name}")
    where = find_model(name)
    check_pooling(pooling)
    prompts = Prompts(prompt, prompt_name)
    prompts.check(where, name)

    first = first_module(where)
    base = base_model(where, name)
    _refuse_for_static(first, name, pooling, max_length)
    config = _read_config(where, base, first, name)
    overrides = _dropout_settings(dropout, first, config, name)
    _check_dtype(dtype, config, device, packed, name)

    encoder = _read_model(where, name, device, overrides)
    missing = missing_tensors(encoder)
    refuse_damaged(encoder, missing, name)
    if pooling is not None or (dropout and first.has_routes):
        refuse_routes(encoder, name)
    if base:
        merge_adapter(encoder)
    _give_padding(encoder, name)
    if bidirectional:
        read_both_ways(encoder, name)
    join_layers(encoder)
    if pooling is not None:
        _replace_pooling(encoder, pooling, missing, name)
    freeze(encoder)
    prompts.apply(encoder, name)
    _set_normalize(encoder, normalize)
    set_length(encoder, max_length, config, name)
    _make_fast(encoder, config, frozen, packed, dtype, sample)
    tell(f"loaded {name}")
    return encoder


def _read_model(
    where: str, model: str, device: str | None, overrides: dict[str, float]
) -> SentenceTransformer:
    """sentence-transformers' own loading; ``overrides`` change the transformer's configuration."""
    with loading(where, model):
        return SentenceTransformer(
            where,
            device=device,
            trust_remote_code=is_trusted(where),
            model_kwargs={"use_safetensors": True},
            config_kwargs=overrides,
        )


def _make_fast(
    encoder: SentenceTransformer,
    config: PreTrainedConfig | None,
    frozen: bool,
    packed: bool,
    dtype: str,
    sample: Sequence[str],
) -> None:
    """Skip padding, and let a frozen model hold or multiply numbers of fewer bits."""
    if frozen or dtype != "float32":
        encoder.requires_grad_(False)
        if supports(config):  # other architectures look at the type of their weights
            _keep_16_bits(encoder)
    if packed:
        _skip_padding(encoder)
    if dtype == "bf16":
        multiply_in(encoder[0].auto_model, "bf16")
    elif dtype == "int8":
        quantise(encoder, sample)
    elif dtype == AUTO and packed:
        choose_dtype(encoder, sample)


def _check_dtype(
    dtype: str, config: PreTrainedConfig | None, device: str | None, packed: bool, model: str
) -> None:
    """Refuse an unknown precision, and 16 or 8 bits where they are not possible."""
    check_known("dtype =", dtype, DTYPES)
    if dtype in ("bf16", "int8"):
        device = device or get_device_name()
        why = why_not(cast(Dtype, dtype), config, device, packed)
        if why:
            problem = f"dtype = {dtype!r} does not suit {model}: {why}"
            raise UserError(problem, "leave it out", code="dtype-does-not-suit")


def _refuse_for_static(
    first: FirstModule, model: str, pooling: str | None, max_length: int | None
) -> None:
    """Refuse options that one vector a token cannot follow, and weights that are not
    safetensors.
    """
    if not first.is_static:
        return
    if pooling is not None or max_length is not None:
        raise UserError(
            f"{model} takes the mean of one vector a token",
            "leave out pooling and max_length",
            "static-has-no-pooling",
        )
    if first.folder is not None and not any(first.folder.rglob("*.safetensors")):
        raise UserError(
            f"{model} has no model.safetensors",
            "save it again: pickled files are not opened",
            "no-safetensors",
        )


def _read_config(
    where: str, base: str | None, first: FirstModule, model: str
) -> PreTrainedConfig | None:
    """The configuration of the model's transformer; None if it has none, or one for each role."""
    if not first.is_transformer:
        return None
    with loading(where, model):
        return AutoConfig.from_pretrained(
            base or first.folder or where, trust_remote_code=is_trusted(where)
        )


def _dropout_settings(
    dropout: float | None, first: FirstModule, config: PreTrainedConfig | None, model: str
) -> dict[str, float]:
    """The configuration's settings that make ``dropout`` the probability everywhere."""
    if dropout is None:
        return {}
    keys = dropout_keys(config) if config is not None else []
    settings = dict.fromkeys(keys, dropout)
    if dropout > 0 and not settings and not first.has_routes:
        raise UserError(
            f"dropout = {dropout}: the configuration of {model} has no dropout",
            "leave it out",
            "no-dropout",
        )
    return settings


def dropout_keys(config: PreTrainedConfig) -> list[str]:
    """The settings that hold a dropout probability of the encoder itself."""
    keys = []
    for key, value in vars(config).items():
        is_number = type(value) in (int, float)
        if is_number and _DROPOUT.search(key) and not _HEADS.search(key):
            keys.append(key)
    return keys


def _give_padding(model: SentenceTransformer, name: str) -> None:
    """Let a tokenizer without a padding token, as many decoders have it, pad with its end token.

    The attention mask hides it.
    """
    tokenizer = getattr(model, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    # transformers makes up an empty one for some
    if len(tokenizer.get_vocab()) <= len(tokenizer.all_special_ids):
        raise UserError(
            f"{name} has no tokenizer",
            "put the tokenizer's files (tokenizer.json) into the folder",
            "no-tokenizer",
        )
    if tokenizer.pad_token is None and tokenizer.eos_token is None:
        raise UserError(
            f"the tokenizer of {name} has neither a padding token nor an end token",
            "name a pad_token in tokenizer_config.json",
            "no-padding-token",
        )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token


def read_both_ways(model: SentenceTransformer, name: str) -> None:
    """Let every token of a decoder see the tokens after it too, in place.

    A saved model says so in its config.json. BehnamGhader et al., COLM 2024 (LLM2Vec), Sec. 2.1.
    https://arxiv.org/abs/2404.05961. Most decoders give worse vectors until they are trained so.
    """
    encoder: Any = language_model(model)
    if encoder is not None and not sees_ahead(encoder.eval()):
        encoder.config.is_causal = False
        if sees_ahead(encoder):
            return
    raise UserError(
        f"bidirectional = true does not change what the tokens of {name} see",
        "leave it out",
        "bidirectional-has-no-effect",
    )


def sees_ahead(encoder: nn.Module) -> bool:
    """Whether the state of a text's first token depends on the tokens after it."""
    device = next(encoder.parameters()).device
    # Two texts that differ in their last token.
    ids = torch.tensor([[0, 1, 2], [0, 1, 3]], device=device)
    with torch.no_grad():
        states = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
    first_states = states[:, 0].float()  # (2, H) of (2, 3, H)
    difference = (first_states[0] - first_states[1]).abs().max()
    largest = first_states[0].abs().max()
    return bool(difference > 1e-6 * largest)


def _replace_pooling(
    encoder: SentenceTransformer, pooling: str, missing: list[str], model: str
) -> None:
    """Put the modules of a pooling in the place of all modules after the transformer.

    ``missing`` are the names of tensors that the model's files lack.
    """
    poolings = [module for module in encoder if isinstance(module, Pooling)]
    include_prompt = all(module.include_prompt for module in poolings)
    if pooling == "cls_head":
        # A saved model's pooler is that of before its training, or a random one.
        lacks_pooler = any("pooler" in tensor for tensor in missing)
        pooler_is_trained = is_bare(model) and not lacks_pooler
        modules = own_head(list(encoder), pooler_is_trained, model)
    else:
        modules = pooling_modules(encoder[0], pooling)
    del encoder[1:]
    encoder.extend(modules)
    encoder.to(encoder.device)
    encoder.set_pooling_include_prompt(include_prompt)


def _set_normalize(encoder: SentenceTransformer, normalize: bool | None) -> None:
    """End with unit rows or not; None leaves the model as it is."""
    ends_with_unit_rows = isinstance(encoder[-1], Normalize)
    if normalize is True and not ends_with_unit_rows:
        encoder.append(Normalize())
    elif normalize is False and ends_with_unit_rows:
        del encoder[-1]


def _keep_16_bits(encoder: SentenceTransformer) -> None:
    """Hold word embeddings in 16 bits if their file does, which loses nothing.

    Rows are widened when they are read.
    """
    table = encoder[0].auto_model.get_input_embeddings()
    weights = table.weight.data
    if weights.dtype != torch.float32:
        return
    for narrow in (torch.float16, torch.bfloat16):
        parts = weights.split(1024)  # which need little memory
        if all(torch.equal(part.to(narrow).float(), part) for part in parts):
            table.weight.data = weights.to(narrow)
            encoder.widened = True  # for its checksum
            table.register_forward_hook(lambda module, inputs, output: output.float())
            return


def _skip_padding(encoder: SentenceTransformer) -> None:
    """Pack the transformers within a model, and speed up their tokenizers."""
    for module in encoder.modules():
        if not isinstance(module, Transformer):
            continue
        pack(module.auto_model)
        reads_chats = "message" in module.modality_config
        if getattr(module.tokenizer, "is_fast", False) and not reads_chats:
            module.preprocess = partial(_preprocess, module)


def _preprocess(
    module: Transformer, inputs: Sequence[Any], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """``Transformer.preprocess``: the same ids, in half the time (90 instead of 180 µs a sentence).

    `BatchEncoding.convert_to_tensors` flattens each list of ids in Python, only to see that it is
    not empty. So lists are asked for, and NumPy makes the tensors.
    """
    preprocess = type(module).preprocess
    needs_more = args or kwargs.get("processing_kwargs") or kwargs.get("task")
    are_strings = all(type(text) is str for text in inputs)
    if needs_more or not are_strings:
        return preprocess(module, inputs, *args, **kwargs)  # type: ignore[no-any-return]

    as_lists = {"common": {"return_tensors": None}}
    features: dict[str, Any] = preprocess(module, inputs, processing_kwargs=as_lists, **kwargs)
    for key, value in features.items():
        if isinstance(value, list):
            features[key] = torch.from_numpy(np.array(value))
    return features
