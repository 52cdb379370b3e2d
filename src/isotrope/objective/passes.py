"""The same sentences through the encoder, once a pass, each pass with its own token steps and
dropout.
"""

from collections.abc import Sequence
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
EmbeddingsByPass = dict[int, Tensor]  # (N, D) each


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
        if len(columns) == 1:
            stack, readings = self.read(columns[ANCHOR], range(passes))
        else:
            anchors, readings = self.read(columns[ANCHOR], [0])
            positive_passes = range(1, max(2, passes))
            positives, positive_readings = self.read(columns[POSITIVE], positive_passes)
            stack = torch.cat([anchors, positives])
            readings |= positive_readings

        negatives = self._read_negatives(columns[POSITIVE + 1 :], stack)
        return EncodedColumns(stack, negatives, readings)

    def _read_negatives(self, columns: Sequence[TextColumn], stack: Tensor) -> Tensor:
        """(N, H, D) hard negatives, H columns, as the anchors are read; for a stack (V, N, D)."""
        if not columns:
            _, count, width = stack.shape
            return stack.new_zeros(count, 0, width)

        steps = []
        for step, on in self.steps:
            if not getattr(step, "anchors_alone", False):
                steps.append((step, on))
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
        embeddings: EmbeddingsByPass = {}
        readings: Readings = {}

        student_inputs = self._inputs_of_student(inputs)
        if student_inputs:
            embeddings, readings = self._read_by_student(column, student_inputs)
        for peer, on in self.peers:
            peer_inputs = {number: inputs[number] for number in numbers if number in on}
            if peer_inputs:
                embeddings |= self._read_by_peer(peer, peer_inputs)

        stack = torch.stack([embeddings[number] for number in numbers])
        return stack, readings

    def _inputs_of_student(self, inputs: dict[int, TextColumn]) -> dict[int, TextColumn]:
        """The passes that no peer reads."""
        student_inputs = dict(inputs)
        for _, on in self.peers:
            for number in on:
                student_inputs.pop(number, None)
        return student_inputs

    def _read_by_student(
        self, column: TextColumn, inputs: dict[int, TextColumn]
    ) -> tuple[EmbeddingsByPass, Readings]:
        """All of the student's passes in one forward, or in parts."""
        count = len(inputs)
        features = stacked(list(inputs.values()))
        names = (EMBEDDING, STATES) if self.states else (EMBEDDING,)
        outputs = read_in_parts(self.model, features, self.mini_batch_size, names)
        embeddings = _unstacked(outputs[0], count)
        states = _unstacked(outputs[1], count) if self.states else [None] * count

        readings = {}
        for index, number in enumerate(inputs):
            pass_features = _of_pass(features, index, count)
            readings[number] = Reading(column, pass_features, states[index])
        return dict(zip(inputs, embeddings, strict=True)), readings

    def _read_by_peer(self, peer: nn.Module, inputs: dict[int, TextColumn]) -> EmbeddingsByPass:
        """The passes of a second encoder in one forward."""
        features = stacked(list(inputs.values()))
        rows = peer(features, self.mini_batch_size)
        embeddings = _unstacked(rows, len(inputs))
        return dict(zip(inputs, embeddings, strict=True))

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


def _unstacked(rows: Tensor, count: int) -> Sequence[Tensor]:
    """(count · N, …) -> ``count`` parts (N, …), in float32 or better."""
    precision = torch.promote_types(rows.dtype, torch.float32)
    return rows.to(precision).chunk(count)


def _of_pass(features: TextColumn, index: int, count: int) -> TextColumn:
    """The features of one of ``count`` stacked passes."""
    pass_features = dict(features)
    for name, value in features.items():
        if isinstance(value, Tensor):
            pass_features[name] = value.chunk(count)[index]
    return pass_features
