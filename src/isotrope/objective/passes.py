"""The same sentences through the encoder, once a pass, each pass with its own token steps and
dropout.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isotrope.contract.features import (
    EMBEDDING,
    STATES,
    TextColumn,
    in_rows,
    read_in_parts,
    stacked,
    step_features,
)
from isotrope.types import Reading, TokenStep

# Numbers of the first passes, and of the first text columns.
ANCHOR = 0
POSITIVE = 1

# Components, each with the numbers of the passes that it is on for.
TokenSteps = Sequence[tuple[TokenStep, Sequence[int]]]
Peers = Sequence[tuple[nn.Module, Sequence[int]]]

Readings = dict[int, Reading]  # what the student has read, by the number of the pass
TensorByPass = dict[int, Tensor]  # (N, …) each


class EncodedColumns(NamedTuple):
    """The embeddings of one process's sentences."""

    stack: Tensor  # (V, N, D): anchors, then positives
    negatives: Tensor  # (N, H, D): hard negatives
    readings: Readings


@dataclass(frozen=True)
class Passes:
    """How sentences go through the encoder."""

    model: nn.Module
    steps: TokenSteps
    generator: torch.Generator  # of the steps
    mini_batch_size: int | None = None
    peers: Peers = ()  # second encoders, which read passes in the student's place
    states: bool = False  # whether a component reads the states of tokens

    def views(self, columns: Sequence[TextColumn], passes: int) -> EncodedColumns:
        """Encode the text columns of a batch: anchors, positives if any, then hard negatives."""
        anchor_column = columns[ANCHOR]
        if len(columns) == 1:
            stack, readings = self.read(anchor_column, range(passes))
        else:
            anchors, readings = self.read(anchor_column, [0])
            positive_passes = range(1, max(2, passes))
            positives, positive_readings = self.read(columns[POSITIVE], positive_passes)
            stack = torch.cat([anchors, positives])
            readings |= positive_readings

        negative_columns = columns[POSITIVE + 1 :]
        negatives = self._read_negatives(negative_columns, stack)
        return EncodedColumns(stack, negatives, readings)

    def _read_negatives(self, columns: Sequence[TextColumn], stack: Tensor) -> Tensor:
        """(N, H, D) hard negatives, H columns, as the anchors are read; for a stack (V, N, D)."""
        if not columns:
            _, count, width = stack.shape
            return stack.new_zeros(count, 0, width)

        steps = [(step, on) for step, on in self.steps if not getattr(step, "anchors_alone", False)]
        passes = replace(self, steps=steps, states=False)

        negatives = []
        for column in columns:
            embeddings, _ = passes.read(column, [ANCHOR])
            negatives.append(embeddings[0])
        return torch.stack(negatives, dim=1)

    def read(self, column: TextColumn, numbers: Sequence[int]) -> tuple[Tensor, Readings]:
        """The passes of these numbers over one column -> (len(numbers), N, D), and what the student
        has read.

        In float32 or better: after an encoder in half precision, a head and cosines would lose what
        training changes.
        """
        column = self._with_needed_features(in_rows(column))
        inputs = {number: self._after_steps(column, number) for number in numbers}
        embeddings: TensorByPass = {}
        readings: Readings = {}

        # Each encoder reads all of its passes in one forward, the student first.
        passes_of_peers = [on for _, on in self.peers]
        student_passes = set(numbers).difference(*passes_of_peers)
        student_inputs = _chosen(inputs, student_passes)
        if student_inputs:
            embeddings, readings = self._read_by_student(column, student_inputs)
        for peer, on in self.peers:
            peer_inputs = _chosen(inputs, on)
            if peer_inputs:
                features = stacked(list(peer_inputs.values()))
                rows = peer(features, self.mini_batch_size)
                embeddings |= _by_pass(rows, peer_inputs)

        stack = torch.stack([embeddings[number] for number in numbers])
        return stack, readings

    def _read_by_student(
        self, column: TextColumn, inputs: dict[int, TextColumn]
    ) -> tuple[TensorByPass, Readings]:
        """The student's passes: their embeddings, and what was read."""
        features = stacked(list(inputs.values()))
        names = (EMBEDDING, STATES) if self.states else (EMBEDDING,)
        outputs = read_in_parts(self.model, features, self.mini_batch_size, names)
        embeddings = _by_pass(outputs[0], inputs)
        states = _by_pass(outputs[1], inputs) if self.states else {}

        readings = {}
        for index, number in enumerate(inputs):
            pass_features = _of_pass(features, index, len(inputs))
            pass_states = states.get(number)
            readings[number] = Reading(column, pass_features, pass_states)
        return embeddings, readings

    def _with_needed_features(self, column: TextColumn) -> TextColumn:
        """The column with the features that a step changes besides the tokenizer's.

        A step names them in ``needs``: see `isotrope.contract.features`.
        """
        needs: set[str] = set()
        for step, _ in self.steps:
            needs.update(getattr(step, "needs", ()))
        if not needs:
            return column
        return column | step_features(self.model, column, needs)

    def _after_steps(self, column: TextColumn, number: int) -> TextColumn:
        """What one pass reads of a column, after its token steps."""
        features = dict(column)
        for step, on in self.steps:
            if number in on:
                features = step(features, self.generator)
        return features


def _chosen(inputs: dict[int, TextColumn], numbers: Collection[int]) -> dict[int, TextColumn]:
    """The inputs of those passes that are among the numbers."""
    return {number: features for number, features in inputs.items() if number in numbers}


def _by_pass(rows: Tensor, numbers: Collection[int]) -> TensorByPass:
    """V stacked passes (V · N, …) -> the number of each -> (N, …), in float32 or better."""
    precision = torch.promote_types(rows.dtype, torch.float32)
    parts = rows.to(precision).chunk(len(numbers))
    return dict(zip(numbers, parts, strict=True))


def _of_pass(features: TextColumn, index: int, count: int) -> TextColumn:
    """The features of one of ``count`` stacked passes."""
    pass_features = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor):
            rows = value.chunk(count)
            pass_features[name] = rows[index]
    return pass_features
