"""What is wrong with a model's files, in one line, where the libraries say it in many or not at
all.

Their own bars and reports, which would break into ours, are hidden.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel
from transformers.utils import logging

from isotrope.encoder.locate import not_on_hub
from isotrope.errors import UserError


@contextmanager
def loading(where: str, model: str) -> Iterator[None]:
    """What goes wrong within is one line, in the words of the libraries: they raise many kinds of
    errors.
    """
    try:
        yield
    except Exception as error:
        if not Path(where).is_dir():
            raise not_on_hub(model, error) from error
        said = f"{type(error).__name__}: {error}"
        problem, remedy = (
            f"{model} cannot be loaded ({said:.400})",
            "mend its files, or install what it asks for",
        )
        if "no file named model.safetensors" in said:
            problem, remedy = (
                f"{model} has no model.safetensors",
                "convert its weights: pickled files are not opened",
            )
        raise UserError(problem, remedy) from error


@contextmanager
def quiet(reports: bool = True) -> Iterator[None]:
    """No bar of transformers within; without ``reports`` no warning either. Afterwards all is as
    before.
    """
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    if not reports:
        logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def missing_tensors() -> Iterator[list[str]]:
    """Collect the names of the tensors that the files of the models loaded within lack.

    sentence-transformers drops transformers' report of a loading, so it is caught on its way.
    """
    missing: list[str] = []
    original = PreTrainedModel.__dict__["from_pretrained"]

    def told(cls: type[PreTrainedModel], *args: Any, **kwargs: Any) -> Any:
        model, info = original.__func__(cls, *args, **kwargs | {"output_loading_info": True})
        missing.extend(sorted(info["missing_keys"]))
        return model

    setattr(PreTrainedModel, "from_pretrained", classmethod(told))  # noqa: B010  mypy knows that it is a method
    try:
        yield missing
    finally:
        setattr(PreTrainedModel, "from_pretrained", original)  # noqa: B010


def refuse_damaged(encoder: SentenceTransformer, missing: list[str], model: str) -> None:
    """Raise for missing tensors, and for weights that are NaN or infinite: they may belong to a
    word of a later text.

    Tensors of the pooler do not matter: raw checkpoints often lack them.
    """
    spoilt = [
        name
        for name, weights in encoder.named_parameters()
        if not weights.sum(dtype=torch.float32).isfinite()
    ]
    fault = f"not all weights of {spoilt[0]} are finite numbers" if spoilt else ""
    if lacking := [name for name in missing if "pooler" not in name.split(".")]:
        shown = ", ".join(lacking[:3]) + (", …" if len(lacking) > 3 else "")
        fault = f"model.safetensors lacks {len(lacking)} of the encoder's tensors ({shown})"
    if fault:
        raise UserError(
            f"{model}: {fault}", "copy or download the model again, and its config.json with it"
        )
