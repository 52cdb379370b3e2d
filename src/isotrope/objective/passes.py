"""The same sentences through the encoder, once a pass, each pass with its own token steps and dropout."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.contract.features import EMBEDDING, STATES, in_rows, read_in_parts, stacked, whole
from isotrope.types import Reading, TokenStep

TextColumn = dict[str, Any]  # one text column of a batch: input_ids (N, L), attention_mask (N, L), …


def encode_columns(
    model: nn.Module,
    columns: Sequence[TextColumn],  # anchors, positives if any, then hard negatives
    passes: int,
    steps: Sequence[tuple[TokenStep, Sequence[int]]],  # with the passes that each is on for
    generator: torch.Generator,
    mini_batch_size: int | None,
    peers: Sequence[tuple[nn.Module, Sequence[int]]] = (),  # second encoders, with the passes that each reads
    states: bool = False,  # whether a component reads the states of tokens
) -> tuple[Tensor, Tensor, dict[int, Reading]]:
    """The views (V, N, D), the hard negatives (N, H, D) and what the passes read, of one process's sentences."""

    def encode(column: TextColumn, numbers: Sequence[int], states: bool = states) -> tuple[Tensor, dict[int, Reading]]:
        return encode_passes(model, column, numbers, steps, generator, mini_batch_size, peers, states)

    if len(columns) == 1:
        stack, readings = encode(columns[0], range(passes))
    else:
        (first, readings), (others, more) = encode(columns[0], [0]), encode(columns[1], range(1, max(2, passes)))
        stack, readings = torch.cat([first, others]), readings | more
    steps = [(step, on) for step, on in steps if not getattr(step, "anchors_alone", False)]  # for `encode` from here on
    hard = [encode(column, [0], False)[0][0] for column in columns[2:]]
    negatives = torch.stack(hard, dim=1) if hard else stack.new_zeros(stack.shape[1], 0, stack.shape[2])
    return stack, negatives, readings


def encode_passes(
    model: nn.Module,
    column: TextColumn,
    passes: Sequence[int],  # their numbers
    steps: Sequence[tuple[TokenStep, Sequence[int]]],  # with the passes that each is on for
    generator: torch.Generator,
    mini_batch_size: int | None,
    peers: Sequence[tuple[nn.Module, Sequence[int]]] = (),
    states: bool = False,
) -> tuple[Tensor, dict[int, Reading]]:
    """All passes in one forward, or in parts of ``mini_batch_size`` sentences -> (len(passes), N, D), what they read.

    A peer has a forward of its own, over the passes that it reads in the student's place.
    In float32 or better: behind an encoder in half precision, a head and cosines would lose what training changes.
    A step names in ``needs`` the features that it changes besides the tokenizer's: see `isotrope.contract.features`.
    """
    column = in_rows(column)
    if needs := {name for step, _ in steps for name in getattr(step, "needs", ())}:
        column = column | whole(model, column, needs)
    copies = {}
    for number in passes:
        copy = dict(column)
        for step, on in steps:
            copy = step(copy, generator) if number in on else copy
        copies[number] = copy
    found, readings = dict[int, Tensor](), dict[int, Reading]()  # by the number of the pass
    theirs = {number for _, on in peers for number in on}
    if own := [number for number in passes if number not in theirs]:
        features = stacked([copies[number] for number in own])
        wanted = (EMBEDDING, STATES) if states else (EMBEDDING,)
        given = [_full(each).chunk(len(own)) for each in read_in_parts(model, features, mini_batch_size, wanted)]
        found |= zip(own, given[0], strict=True)
        for place, number in enumerate(own):
            read = {k: v.chunk(len(own))[place] if isinstance(v, Tensor) else v for k, v in features.items()}
            readings[number] = Reading(column, read, given[1][place] if states else None)
    for encode, on in peers:
        if own := [number for number in passes if number in on]:
            rows = _full(encode(stacked([copies[number] for number in own]), mini_batch_size))
            found |= zip(own, rows.chunk(len(own)), strict=True)
    return torch.stack([found[number] for number in passes]), readings


def _full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
