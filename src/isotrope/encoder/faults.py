"""One line for a model that cannot be loaded, where the libraries say it in many."""

from __future__ import annotations

import json
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError

from isotrope.errors import UserError

TOKENIZER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)


def loading_fault(error: Exception, where: str, model: str) -> UserError:
    """What is wrong with a model, from what transformers and safetensors say of it."""
    text = str(error)
    if not Path(where).is_dir():
        return UserError(
            f"{model} is neither a folder here nor a model that the hub gave ({type(error).__name__})",
            "check the name and the network, or name a local folder or isotrope/small",
        )
    if isinstance(error, StrictDataclassError):
        found = text.splitlines()[-1].strip().removeprefix("TypeError: ").partition(" Errors: ")[0]
        return UserError(f"{model}: config.json: {found}", "correct it, or download the model again")
    if (kind := first_module(Path(where))) not in ("Transformer", "StaticEmbedding"):
        return UserError(
            f"{model} begins with a {kind}, not with a Transformer", "name a model that is a language model"
        )
    if isinstance(error, SafetensorError) or ("safetensor" in text.lower() and "header" in text.lower()):
        return UserError(f"{model}: model.safetensors is broken ({text})", "copy or download the model again")
    if not any((Path(where) / name).is_file() for name in TOKENIZER_FILES):
        return no_tokenizer(model)
    if "mismatched" in text:
        return UserError(f"{model}: model.safetensors does not fit config.json", "take both from the same model")
    if "safetensors" in text:
        return UserError(f"{model} has no model.safetensors", "convert its weights: pickled files are not opened")
    return UserError(
        f"{model} cannot be loaded ({text.splitlines()[0] if text else type(error).__name__})", "check its files"
    )


def first_module(folder: Path) -> str:
    """The kind of the first module of a sentence-transformers model."""
    try:
        first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]
        return str(first["type"]).rsplit(".", 1)[-1]
    except (OSError, ValueError, LookupError, TypeError):
        return "Transformer"


def no_tokenizer(model: str) -> UserError:
    """A model without a tokenizer."""
    return UserError(f"{model} has no tokenizer", f"put the tokenizer's files ({TOKENIZER_FILES[0]}) into the folder")
