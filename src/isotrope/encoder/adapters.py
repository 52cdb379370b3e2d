"""LoRA adapters: changes to another model's weights, as sentence-transformers and peft save them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from sentence_transformers import SentenceTransformer
from transformers.utils import find_adapter_config_file

from isotrope.contract.features import language_model
from isotrope.errors import UserError


def base_model(where: str, model: str) -> str | None:
    """The folder or hub name of the model that an adapter changes; None for a model that is no adapter.

    Raises:
        UserError: peft is not installed, or the adapter's files are incomplete or pickled.
    """
    try:
        path = find_adapter_config_file(where)
    except (OSError, ValueError):  # no such model: what looks for its configuration says so
        return None
    if path is None:
        return None
    if find_spec("peft") is None:
        raise UserError(f"{model} is a LoRA adapter, and peft is not installed", "pip install 'isotrope[lora]'")
    if Path(where).is_dir() and not (Path(where) / "adapter_model.safetensors").is_file():
        raise UserError(f"{model} has no adapter_model.safetensors", "save the adapter again: pickles are not opened")
    try:
        base = json.loads(Path(path).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"{model}: adapter_config.json names no base model ({type(error).__name__})"
        raise UserError(problem, "copy or save the adapter again") from error
    return str(base)


def has_adapter(model: SentenceTransformer) -> bool:
    """Whether an adapter lies beside the model's layers, and is not yet part of them."""
    return bool(getattr(language_model(model), "_hf_peft_config_loaded", False))


def merge_adapter(encoder: SentenceTransformer) -> None:
    """Add an adapter's changes to the weights: what remains is a plain model, whole wherever it is saved.

    Hu et al., ICLR 2022 (LoRA), Section 4.1: https://arxiv.org/abs/2106.09685
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(encoder.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge(safe_merge=True)
            encoder.set_submodule(name, layer.get_base_layer())
    for trace in ("_hf_peft_config_loaded", "peft_config", "_weight_conversions"):  # what else makes it save an adapter
        vars(encoder[0].auto_model).pop(trace, None)
    encoder.requires_grad_(True)
