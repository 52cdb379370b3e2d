"""Weights that a model's files lack, or that are no numbers.

transformers fills missing weights with random numbers, and only logs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import PreTrainedModel

from isotrope.errors import UserError

_SHOWN = 3  # of the missing names
_PART = 1 << 18  # numbers that are looked at together: to look at all at once needs as much memory again


@contextmanager
def missing_tensors() -> Iterator[list[str]]:
    """Collect the names of the tensors that the files of the models loaded within lack.

    sentence-transformers drops transformers' report of a loading, so it is caught on its way.
    """
    missing: list[str] = []
    original = PreTrainedModel.__dict__["from_pretrained"]

    def told(cls: type[PreTrainedModel], *args: Any, **kwargs: Any) -> Any:
        model, told = original.__func__(cls, *args, **kwargs | {"output_loading_info": True})
        missing.extend(sorted(told["missing_keys"]))
        return model

    setattr(PreTrainedModel, "from_pretrained", classmethod(told))  # noqa: B010  mypy knows that it is a method
    try:
        yield missing
    finally:
        setattr(PreTrainedModel, "from_pretrained", original)  # noqa: B010


def refuse_missing(missing: list[str], model: str, pooler: bool) -> None:
    """Raise for missing tensors. Those of the pooler matter only with ``pooler``: raw checkpoints often lack them.

    Raises:
        UserError: names the file, how many tensors are missing, and the first of them.
    """
    needed = [name for name in missing if pooler or "pooler" not in name.split(".")]
    if needed:
        shown = ", ".join(needed[:_SHOWN]) + (", …" if len(needed) > _SHOWN else "")
        raise UserError(
            f"{model}: model.safetensors lacks {len(needed)} of the encoder's tensors ({shown})",
            "copy or download the model again, and take model.safetensors and config.json from the same model",
        )


def refuse_not_finite(encoder: SentenceTransformer, model: str) -> None:
    """Raise for weights that are NaN or infinite: they may belong to a word that only a later text has.

    Raises:
        UserError: names the first such tensor.
    """
    for name, weights in encoder.named_parameters():
        if not all(part.isfinite().all() for part in weights.flatten().split(_PART)):
            raise UserError(f"{model}: not all weights of {name} are finite numbers", "copy or make the model again")
