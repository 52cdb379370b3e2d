"""LoRA: only small matrices beside the frozen ones are trained. peft computes and saves them.

Hu et al., ICLR 2022, Eq. 3: h = W x + (α / r) · B A x, of which A (r, in) and B (out, r) are
trained. https://arxiv.org/abs/2106.09685
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers.utils import find_adapter_config_file

from isotrope.contract.features import language_model
from isotrope.encoder.locate import locate
from isotrope.errors import UserError, needs

# peft's names.
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"


def base_model(where: str, model: str) -> str | None:
    """The folder or hub name of the model that an adapter changes; None for other models.

    Raises:
        UserError: the adapter lacks its weights, or its base model is not there.
    """
    try:
        path = find_adapter_config_file(where)
    except (OSError, ValueError):  # no such model: what looks for its configuration says so
        return None
    if path is None:
        return None

    needs("lora", "peft")
    folder = Path(where)
    if folder.is_dir() and not (folder / WEIGHTS).is_file():
        raise UserError(
            f"{model} has no {WEIGHTS}",
            "save the adapter again: pickles are not opened",
            "no-safetensors",
        )
    try:
        config = json.loads(Path(path).read_text(encoding="utf-8"))
        return locate(config["base_model_name_or_path"])
    except UserError as error:
        raise _no_base(model, error.problem) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _no_base(model, f"is not named ({type(error).__name__})") from error


def _no_base(model: str, why: str) -> UserError:
    return UserError(
        f"{model} is an adapter, and its base model {why}",
        "correct base_model_name_or_path in adapter_config.json",
        "adapter-base-missing",
    )


def has_adapter(model: SentenceTransformer) -> bool:
    """Whether an adapter lies beside the model's layers."""
    return bool(getattr(language_model(model), "_hf_peft_config_loaded", False))


def merge_adapter(encoder: SentenceTransformer) -> None:
    """Add an adapter's changes to the weights, in place: what remains is a plain model.

    LoRA, Sec. 4.1.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    for name, layer in list(encoder.named_modules()):
        if isinstance(layer, BaseTunerLayer):
            layer.merge(safe_merge=True)
            encoder.set_submodule(name, layer.get_base_layer())
    # What else makes it save an adapter.
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
    """Freeze a model, and put an adapter beside its linear layers, in place.

    B begins with zeros, so no vector changes. A, drawn from torch's generator, and B are in
    float32.

    Args:
        model: begins with a transformer.
        rank: r, of the two matrices.
        alpha: α; what the adapter adds is multiplied by α / r.
        dropout: of x, before A.
        targets: how the names of the layers end, or only ``all-linear``; None: what peft takes for
            the architecture.

    Raises:
        UserError: the model has no linear layers, or no layers with these names.
    """
    peft = needs("lora", "peft")
    encoder = language_model(model)
    if encoder is None:
        raise UserError(
            "encoder.lora: the model has no linear layers",
            "choose a model that begins with a Transformer",
            "no-linear-layers",
        )
    names: Any = list(targets or ()) or None
    if names == ["all-linear"]:
        names = "all-linear"
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=names)

    model.requires_grad_(False)
    try:
        model.add_adapter(config)
    except ValueError as error:
        layers = ", ".join(_linear_names(encoder))
        raise UserError(
            f"encoder.lora: {error}",
            f"choose targets from: {layers}, or all-linear",
            "impossible-targets",
        ) from error
    for weight in adapter_weights(model).values():
        weight.data = weight.data.float()


def _linear_names(encoder: nn.Module) -> list[str]:
    """The last words of the names of all linear layers, each once."""
    names = dict[str, None]()
    for name, module in encoder.named_modules():
        if hasattr(module, "in_features") and hasattr(module, "weight"):
            names[name.rpartition(".")[2]] = None
    return list(names)


def adapter_weights(model: SentenceTransformer) -> dict[str, Tensor]:
    """What is trained of a model with an adapter: name -> weights."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def load_adapter(model: SentenceTransformer, checkpoint: Path) -> None:
    """Put the adapter that ``model.save_pretrained`` wrote back into the same model."""
    from peft import set_peft_model_state_dict

    weights = {}
    for name, weight in load_file(checkpoint / WEIGHTS).items():
        weights[name.removeprefix("base_model.model.")] = weight
    set_peft_model_state_dict(language_model(model), weights)


def name_base(model: SentenceTransformer, base: str) -> None:
    """Let the adapter's files name the folder or hub name that they change.

    A folder is named by its whole path.
    """
    encoder: Any = language_model(model)
    folder = Path(base)
    if folder.is_dir():
        has_own_config = (folder / "config.json").is_file()
        if (folder / CONFIG).is_file() or not has_own_config:
            raise UserError(
                "encoder.lora.save = 'adapter': the backbone is an adapter, or its config.json is "
                "in a folder within",
                "set encoder.lora.save = 'merged'",
                "adapter-of-an-adapter",
            )
        base = str(folder.resolve())
    encoder.peft_config["default"].base_model_name_or_path = base
