"""What is wrong with a model's files, in one line, where the libraries say it in many or not at
all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import torch
from sentence_transformers import SentenceTransformer
from torch import nn
from transformers import PreTrainedModel
from transformers.utils import logging

from isotrope.encoder.locate import not_on_hub
from isotrope.errors import UserError

# What transformers says if a model's code is not its own, in each of its versions.
_ASKS_FOR_TRUST = (
    "trust_remote_code",
    "contains custom code",
    "custom code which must be executed",
)


@contextmanager
def loading(where: str, model: str) -> Iterator[None]:
    """Turn whatever the libraries raise while they load a model into one UserError."""
    try:
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


class _Reports:
    """Whether transformers shows bars and warnings, which are settings of the whole process.

    Several threads may hide them at the same time, and the last one restores what was set before.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._hiding = 0
        self._bars_were_shown = True
        self._level_before = logging.WARNING

    def hide(self, *, warnings: bool) -> None:
        """Hide progress bars, and warnings if asked for, until `restore`."""
        with self._lock:
            if self._hiding == 0:
                self._bars_were_shown = logging.is_progress_bar_enabled()
                self._level_before = logging.get_verbosity()
                logging.disable_progress_bar()
            if warnings:
                logging.set_verbosity_error()
            self._hiding += 1

    def restore(self) -> None:
        """Undo one `hide`."""
        with self._lock:
            self._hiding -= 1
            if self._hiding > 0:
                return
            logging.set_verbosity(self._level_before)
            if self._bars_were_shown:
                logging.enable_progress_bar()


_reports = _Reports()


@contextmanager
def quiet(reports: bool = True) -> Iterator[None]:
    """Hide transformers' progress bars, which would break into ours; and its warnings without
    ``reports``.
    """
    _reports.hide(warnings=not reports)
    try:
        yield
    finally:
        _reports.restore()


def missing_tensors(model: nn.Module) -> list[str]:
    """The weights of freshly loaded transformers models that their files lack, by name.

    transformers marks each weight that it reads from a file, and makes the others up at random. A
    model that it did not load has no marks and is left out.
    """
    missing = []
    for part in model.modules():
        if not isinstance(part, PreTrainedModel):
            continue
        read_from_file = {
            name: getattr(weights, "_is_hf_initialized", False)
            for name, weights in part.named_parameters()
        }
        if any(read_from_file.values()):
            missing += [name for name, was_read in read_from_file.items() if not was_read]
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
