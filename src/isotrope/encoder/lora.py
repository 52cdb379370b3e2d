"""LoRA: small matrices beside frozen ones are all of the encoder that is trained.

Hu et al., ICLR 2022, Eq. 3: h = W x + (α / r) · B A x, of which A (r, in) and B (out, r) are trained.
https://arxiv.org/abs/2106.09685. The computation is peft's.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

from isotrope.contract.features import language_model
from isotrope.encoder.adapters import merge_adapter
from isotrope.errors import UserError

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"  # peft's names
_NAME = "default"  # of the one adapter


def add_adapter(
    model: SentenceTransformer, rank: int, alpha: int, dropout: float, targets: Sequence[str] | None = None
) -> None:
    """Freeze a model, and put an adapter beside its linear layers, in place. B begins with zeros: no vector changes.

    A's first weights are drawn from torch's generator. An adapter is in float32; the frozen weights stay as they are.

    Args:
        model: begins with a Transformer.
        rank: r.
        alpha: α; the change is multiplied by α / r.
        dropout: of x, before A.
        targets: how the names of the layers end, or ``all-linear`` alone. None: what peft takes for the architecture.

    Raises:
        UserError: peft is not installed; no layer has such a name; peft knows none for this architecture.
    """
    if find_spec("peft") is None:
        raise UserError("encoder.lora needs peft, which is not installed", "pip install 'isotrope[lora]'")
    from peft import LoraConfig

    encoder: Any = language_model(model)
    if encoder is None:
        raise UserError("encoder.lora: the model has no linear layers", "choose a model that begins with a Transformer")
    asked = "all-linear" if list(targets or ()) == ["all-linear"] else list(targets) if targets else None
    settings = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=asked)
    model.requires_grad_(False)
    try:
        model.add_adapter(settings)
    except ValueError as error:
        kind = encoder.config.model_type
        problem = f"targets = {targets!r} are not layers of a {kind}" if asked else f"peft has no targets for a {kind}"
        layers = dict.fromkeys(name.rpartition(".")[2] for name, each in encoder.named_modules() if _linear(each))
        raise UserError(f"encoder.lora: {problem}", f"choose from: {', '.join(layers)}, or all-linear") from error
    for weight in adapter_weights(model).values():
        weight.data = weight.data.float()


def _linear(module: Any) -> bool:
    return hasattr(module, "in_features") and hasattr(module, "weight")


def adapter_weights(model: SentenceTransformer) -> dict[str, Tensor]:
    """All that is trained of a model with an adapter: name -> weights."""
    return {name: weight for name, weight in model.named_parameters() if weight.requires_grad}


def load_adapter(model: SentenceTransformer, checkpoint: Path) -> None:
    """Put the adapter that ``model.save_pretrained`` wrote back into the same model."""
    from peft import set_peft_model_state_dict

    weights = load_file(checkpoint / WEIGHTS)
    set_peft_model_state_dict(
        language_model(model), {name.removeprefix("base_model.model."): value for name, value in weights.items()}, _NAME
    )


def merge(model: SentenceTransformer) -> None:
    """Make the adapter part of the model, in place: the same vectors, and weights in float32.

    In half precision, most of what was learnt would be smaller than the rounding.
    """
    merge_adapter(model.float())


def name_base(model: SentenceTransformer, base: str) -> None:
    """Let the adapter's files name the folder or hub name that they change: a folder by its whole path.

    Raises:
        UserError: the folder does not hold a plain language model, which peft could load.
    """
    encoder: Any = language_model(model)
    folder = Path(base)
    if folder.is_dir() and ((folder / CONFIG).is_file() or not (folder / "config.json").is_file()):
        problem = "encoder.lora.save = 'adapter': the backbone is an adapter, or its config.json is in a folder within"
        raise UserError(problem, "set encoder.lora.save = 'merged'")
    encoder.peft_config[_NAME].base_model_name_or_path = str(folder.resolve()) if folder.is_dir() else base
