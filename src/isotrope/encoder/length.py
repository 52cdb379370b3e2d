"""How many tokens of a text a model reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

from sentence_transformers import SentenceTransformer
from transformers import PreTrainedConfig

from isotrope.encoder.fast.packed import BEHIND_PADDING_INDEX
from isotrope.errors import UserError

SHORTEST = 3  # tokens: the first mark, a word, the last mark
_NO_LIMIT = -1  # what XLNet's configuration says; others have no such setting, or None


def position_limit(config: PreTrainedConfig | None, model: str) -> int | None:
    """The most tokens that have a position; None if there is no limit, as in T5, XLNet or BLOOM.

    UserError: the configuration's number is impossible.
    """
    positions = getattr(config, "max_position_embeddings", None)
    if config is None or positions in (None, _NO_LIMIT):
        return None
    _refuse_impossible("config.json: max_position_embeddings", positions, model)

    unused = 0  # positions up to that of the padding
    if config.model_type == "mpnet":
        unused = 2  # whatever the padding's number is
    elif config.model_type in BEHIND_PADDING_INDEX:
        unused = config.pad_token_id + 1
    return int(positions) - unused


def set_length(
    encoder: SentenceTransformer,
    max_length: int | None,
    config: PreTrainedConfig | None,
    model: str,
) -> None:
    """Cut texts at ``max_length`` tokens, else where the model says so, but never after its last
    position.
    """
    limit = position_limit(config, model)
    current = getattr(encoder, "max_seq_length", None)
    if current not in (None, inf):
        _refuse_impossible("max_seq_length", current, model)

    if max_length is not None:
        if not SHORTEST <= max_length <= (limit or max_length):
            upper_end = f"to {limit} tokens" if limit else "tokens or more"
            raise UserError(
                f"max_length = {max_length} does not fit {model}",
                f"choose {SHORTEST} {upper_end}",
                "max-length-does-not-fit",
            )
        encoder.max_seq_length = max_length
    elif limit is not None and (current or 0) > limit:
        encoder.max_seq_length = limit  # the tokenizer promises too much


def _refuse_impossible(key: str, length: Any, model: str) -> None:
    """Refuse what is no number, or so few tokens that all texts would have the same vector."""
    if type(length) is not int or length < SHORTEST:
        raise UserError(
            f"{model}: {key} = {length!r} is impossible",
            "correct it, or download the model again",
            "impossible-length",
        )


@contextmanager
def limit_length(model: SentenceTransformer, length: int | None) -> Iterator[None]:
    """Let a model read at most ``length`` tokens of a text for a while; None: as many as before."""
    before = model.max_seq_length
    if length is None or before == inf:  # a model of one vector a token cuts nothing
        yield
        return
    model.max_seq_length = min(length, before or length)
    try:
        yield
    finally:
        model.max_seq_length = before
