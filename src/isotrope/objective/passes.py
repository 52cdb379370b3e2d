"""The same sentences through the encoder, once a pass, each pass with its own token steps and
dropout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from isotrope.contract.features import EMBEDDING, STATES, in_rows, read_in_parts, stacked, whole
from isotrope.types import Reading, TokenStep

# one text column of a batch: input_ids (N, L), attention_mask (N, L), …
TextColumn = dict[str, Any]


@dataclass(frozen=True)
class Passes:
    """How sentences go through the encoder."""

    model: nn.Module
    steps: Sequence[tuple[TokenStep, Sequence[int]]]  # with the passes that each is on for
    generator: torch.Generator  # of the steps
    mini_batch_size: int | None = None
    # second encoders, with the passes that each reads
    peers: Sequence[tuple[nn.Module, Sequence[int]]] = ()
    states: bool = False  # whether a component reads the states of tokens

    def views(
        self, columns: Sequence[TextColumn], passes: int
    ) -> tuple[Tensor, Tensor, dict[int, Reading]]:
        """Anchors, positives if any, then hard negatives -> (V, N, D), (N, H, D) and what the
        passes read.

        They are the sentences of one process.
        """
        if len(columns) == 1:
            stack, readings = self.read(columns[0], range(passes))
        else:
            first, readings = self.read(columns[0], [0])
            others, more = self.read(columns[1], range(1, max(2, passes)))
            stack, readings = torch.cat([first, others]), readings | more
        steps = [each for each in self.steps if not getattr(each[0], "anchors_alone", False)]
        hard = [
            replace(self, steps=steps, states=False).read(column, [0])[0][0]
            for column in columns[2:]
        ]
        negatives = (
            torch.stack(hard, dim=1) if hard else stack.new_zeros(stack.shape[1], 0, stack.shape[2])
        )
        return stack, negatives, readings

    def read(self, column: TextColumn, numbers: Sequence[int]) -> tuple[Tensor, dict[int, Reading]]:
        """The passes of these numbers in one forward, or in parts -> (len(numbers), N, D), and what
        they read.

        A peer has a forward of its own, over the passes that it reads in the student's place.
        In float32 or better: behind an encoder in half precision, a head and cosines would lose
        what training changes. A step names in ``needs`` the features that it changes besides the
        tokenizer's: `isotrope.contract.features`.
        """
        column = in_rows(column)
        if needs := {name for step, _ in self.steps for name in getattr(step, "needs", ())}:
            column = column | whole(self.model, column, needs)
        copies = {}
        for number in numbers:
            copy = dict(column)
            for step, on in self.steps:
                copy = step(copy, self.generator) if number in on else copy
            copies[number] = copy
        found, readings = dict[int, Tensor](), dict[int, Reading]()  # by the number of the pass
        of_peers = {number for _, on in self.peers for number in on}
        if own := [number for number in numbers if number not in of_peers]:
            features = stacked([copies[number] for number in own])
            wanted = (EMBEDDING, STATES) if self.states else (EMBEDDING,)
            given = read_in_parts(self.model, features, self.mini_batch_size, wanted)
            rows, *states = (_full(each).chunk(len(own)) for each in given)
            found |= zip(own, rows, strict=True)
            for place, number in enumerate(own):
                read = {
                    k: v.chunk(len(own))[place] if isinstance(v, Tensor) else v
                    for k, v in features.items()
                }
                readings[number] = Reading(column, read, states[0][place] if states else None)
        for encode, on in self.peers:
            if own := [number for number in numbers if number in on]:
                theirs = _full(
                    encode(stacked([copies[number] for number in own]), self.mini_batch_size)
                )
                found |= zip(own, theirs.chunk(len(own)), strict=True)
        return torch.stack([found[number] for number in numbers]), readings


def _full(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))
