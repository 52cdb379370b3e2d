"""The same sentences through the encoder, once a pass, each pass with its own token steps and dropout."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.encoder.features import in_rows, stacked, whole
from isotrope.encoder.gradient_cache import embed_in_parts
from isotrope.types import TokenStep

TextColumn = dict[str, Any]  # one text column of a batch: input_ids (N, L), attention_mask (N, L), …


def encode_columns(
    model: nn.Module,
    columns: Sequence[TextColumn],  # anchors, positives if any, then hard negatives
    passes: int,
    steps: Sequence[tuple[TokenStep, Sequence[int]]],  # with the passes that each is on for
    generator: torch.Generator,
    mini_batch_size: int | None,
    peers: Sequence[tuple[nn.Module, Sequence[int]]] = (),  # second encoders, with the passes that each reads
) -> tuple[Tensor, Tensor]:
    """The views (V, N, D) and the hard negatives (N, H, D) of one process's sentences."""

    def encode(column: TextColumn, numbers: Sequence[int]) -> Tensor:
        return encode_passes(model, column, numbers, steps, generator, mini_batch_size, peers)

    if len(columns) == 1:
        stack = encode(columns[0], range(passes))
    else:
        stack = torch.cat([encode(columns[0], [0]), encode(columns[1], range(1, max(2, passes)))])
    hard = [encode(column, [0])[0] for column in columns[2:]]
    return stack, torch.stack(hard, dim=1) if hard else stack.new_zeros(stack.shape[1], 0, stack.shape[2])


def encode_passes(
    model: nn.Module,
    column: TextColumn,
    passes: Sequence[int],  # their numbers
    steps: Sequence[tuple[TokenStep, Sequence[int]]],  # with the passes that each is on for
    generator: torch.Generator,
    mini_batch_size: int | None,
    peers: Sequence[tuple[nn.Module, Sequence[int]]] = (),
) -> Tensor:
    """All passes in one forward, or in parts of ``mini_batch_size`` sentences -> (len(passes), N, D).

    A peer has a forward of its own, over the passes that it reads in the student's place.
    In float32 or better: behind an encoder in half precision, a head and cosines would lose what training changes.
    A step names in ``needs`` the features that it changes besides the tokenizer's: see `isotrope.encoder.features`.
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
    found = dict[int, Tensor]()  # pass -> (N, D)
    theirs = {number for _, on in peers for number in on}
    encoders: list[tuple[Callable[..., Tensor], Collection[int]]] = [
        (partial(embed_in_parts, model), {*passes} - theirs),
        *peers,
    ]
    for encode, numbers in encoders:
        if own := [number for number in passes if number in numbers]:
            embeddings = encode(stacked([copies[number] for number in own]), mini_batch_size)
            full = embeddings.to(torch.promote_types(embeddings.dtype, torch.float32))
            found |= zip(own, full.chunk(len(own)), strict=True)
    return torch.stack([found[number] for number in passes])
