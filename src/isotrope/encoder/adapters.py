"""LoRA: small matrices beside frozen ones are all of the encoder that is trained; peft's
computation and files.

Hu et al., ICLR 2022, Eq. 3: h = W x + (α / r) · B A x, of which A (r, in) and B (out, r) are
trained. https://arxiv.org/abs/2106.09685
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers.utils import find_adapter_config_file

from isotrope.contract.features import language_model
from isotrope.encoder.locate import locate
from isotrope.errors import UserError, needs

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # peft's names


def base_model(where: str, model: str) -> str | None:
    """The folder or hub name of the model that an adapter changes; None for a model that is no
    adapter.
    """
    try:
        path = find_adapter_config_file(where)
    except (OSError, ValueError):  # no such model: what looks for its configuration says so
        return None
    if path is None:
        return None
    needs("lora", "peft")
    if Path(where).is_dir() and not (Path(where) / WEIGHTS).is_file():
        raise UserError(
            f"{model} has no {WEIGHTS}",
            "save the adapter again: pickles are not opened",
            "no-safetensors",
        )
    try:
        return locate(json.loads(Path(path).read_text(encoding="utf-8"))["base_model_name_or_path"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = (
            error.problem
            if isinstance(error, UserError)
            else f"is not named ({type(error).__name__})"
        )
        remedy = "correct base_model_name_or_path in adapter_config.json"
        raise UserError(
            f"{model} is an adapter, and its base model {why}", remedy, "adapter-base-missing"
        ) from error


def has_adapter(model: SentenceTransformer) -> bool:
    """Whether an adapter lies beside the model's layers."""
    return bool(getattr(language_model(model), "_hf_peft_config_loaded", False))


def merge_adapter(encoder: SentenceTransformer) -> None:
    """Add an adapter's changes to the weights, in place (LoRA, Sec. 4.1): what remains is a plain
    model.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(encoder.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge(safe_merge=True)
            encoder.set_submodule(name, layer.get_base_layer())
    # what else makes it save an adapter
    for trace in ("_hf_peft_config_loaded", "peft_config", "_weight_conversions"):
        vars(encoder[0].auto_model).pop(trace, None)
    encoder.requires_grad_(True)


def add_adapter(
    model: SentenceTransformer,
    rank: int,
    alpha: int,
    dropout: float,
    targets: Sequence[str] | None = None,
) -> None:
    """Freeze a model, and put an adapter beside its linear layers, in place. B begins with zeros:
    no vector changes.

    A, drawn from torch's generator, and B are in float32. ``dropout`` is that of x, before A.
    ``targets`` are how the names of the layers end, or ``all-linear`` alone; None: what peft takes
    for the architecture.
    """
    peft = needs("lora", "peft")
    encoder: Any = language_model(model)
    if encoder is None:
        raise UserError(
            "encoder.lora: the model has no linear layers",
            "choose a model that begins with a Transformer",
            "no-linear-layers",
        )
    asked = list(targets) if targets else None
    options = {"target_modules": "all-linear" if asked == ["all-linear"] else asked}
    model.requires_grad_(False)
    try:
        model.add_adapter(
            peft.LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, **options)
        )
    except ValueError as error:
        linear = (
            name
            for name, m in encoder.named_modules()
            if hasattr(m, "in_features") and hasattr(m, "weight")
        )
        layers = dict.fromkeys(name.rpartition(".")[2] for name in linear)
        raise UserError(
            f"encoder.lora: {error}",
            f"choose targets from: {', '.join(layers)}, or all-linear",
            "impossible-targets",
        ) from error
    for weight in adapter_weights(model).values():
        weight.data = weight.data.float()


def adapter_weights(model: SentenceTransformer) -> dict[str, Tensor]:
    """All that is trained of a model with an adapter: name -> weights."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def load_adapter(model: SentenceTransformer, checkpoint: Path) -> None:
    """Put the adapter that ``model.save_pretrained`` wrote back into the same model."""
    from peft import set_peft_model_state_dict

    weights = load_file(checkpoint / WEIGHTS).items()
    set_peft_model_state_dict(
        language_model(model), {k.removeprefix("base_model.model."): v for k, v in weights}
    )


def name_base(model: SentenceTransformer, base: str) -> None:
    """Let the adapter's files name the folder or hub name that they change: a folder by its whole
    path.
    """
    encoder: Any = language_model(model)
    folder = Path(base)
    if folder.is_dir() and ((folder / CONFIG).is_file() or not (folder / "config.json").is_file()):
        problem = "encoder.lora.save = 'adapter': the backbone is an adapter, or its config.json is in a folder within"
        raise UserError(problem, "set encoder.lora.save = 'merged'", "adapter-of-an-adapter")
    encoder.peft_config["default"].base_model_name_or_path = (
        str(folder.resolve()) if folder.is_dir() else base
    )
