"""What is wrong with a model's files, in one line, where the libraries say it in many or not at
all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from isotrope.encoder.locate import not_on_hub
from isotrope.errors import UserError

# What transformers says if a model's code is not its own, in each of its versions.
_ASKS_FOR_TRUST = ("trust_remote_code", "custom code")


@contextmanager
def loading(where: str, model: str) -> Iterator[None]:
    """Load a model quietly, and turn whatever the libraries raise into one UserError."""
    try:
        with quiet():
            yield
    except Exception as error:
        raise _in_one_line(where, model, error) from error


def _in_one_line(where: str, model: str, error: Exception) -> UserError:
    message = f"{type(error).__name__}: {error}"
    if not Path(where).is_dir():
        return not_on_hub(model, error)

    if any(phrase in message for phrase in _ASKS_FOR_TRUST):
        return UserError(
            f"{model} has code of its own, which isotrope does not run unasked",
            "read that code; if you trust it, load the model in Python with "
            "SentenceTransformer(name, trust_remote_code=True) and give isotrope the loaded model",
            "needs-remote-code",
        )
    if "no file named model.safetensors" in message:
        return UserError(
            f"{model} has no model.safetensors",
            "convert its weights: pickled files are not opened",
            "no-safetensors",
        )
    return UserError(
        f"{model} cannot be loaded ({message:.400})",
        "mend its files, or install what it asks for",
        "model-not-loadable",
    )


# transformers changes settings of the whole process while it loads (the type of new tensors, the
# functions that fill them), so two loadings at once would disturb each other.
_one_at_a_time = RLock()


@contextmanager
def quiet(reports: bool = True) -> Iterator[None]:
    """Hide transformers' progress bars, which would break into ours; and its warnings without
    ``reports``. One thread after the other, since these are settings of the whole process.
    """
    with _one_at_a_time:
        bars_were_shown = logging.is_progress_bar_enabled()
        level_before = logging.get_verbosity()
        logging.disable_progress_bar()
        if not reports:
            logging.set_verbosity_error()
        try:
            yield
        finally:
            logging.set_verbosity(level_before)
            if bars_were_shown:
                logging.enable_progress_bar()


def missing_tensors(model: nn.Module) -> list[str]:
    """The weights of freshly loaded transformers models that their files lack, by name.

    transformers marks each weight that it reads from a file, and makes the others up at random. A
    model that it did not load has no marks and is left out.
    """
    missing = []
    for part in model.modules():
        if not isinstance(part, PreTrainedModel):
            continue
        weights = dict(part.named_parameters())
        lacking = []
        for name, weight in weights.items():
            if not getattr(weight, "_is_hf_initialized", False):
                lacking.append(name)
        if len(lacking) < len(weights):
            missing += lacking
    return missing


def refuse_damaged(encoder: SentenceTransformer, missing: list[str], model: str) -> None:
    """Refuse missing tensors, and weights that are NaN or infinite.

    A spoilt weight may belong to a word that only a later text contains. Tensors of the pooler do
    not matter: raw checkpoints often lack them.
    """
    remedy = "copy or download the model again, and its config.json with it"
    lacking = [name for name in missing if "pooler" not in name.split(".")]
    if lacking:
        names = ", ".join(lacking[:3])
        if len(lacking) > 3:
            names += ", …"
        problem = f"model.safetensors lacks {len(lacking)} of the encoder's tensors ({names})"
        raise UserError(f"{model}: {problem}", remedy, "missing-tensors")

    for name, weights in encoder.named_parameters():
        if not weights.sum(dtype=torch.float32).isfinite():
            problem = f"not all weights of {name} are finite numbers"
            raise UserError(f"{model}: {problem}", remedy, "weights-not-finite")
