"""The whole path from tokens to loss, as one sentence-transformers loss.

token steps → encoder × passes → Views → view steps → Scores → score steps → terms
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.encoder.features import stacked, whole
from isotrope.encoder.gradient_cache import embed_in_parts
from isotrope.errors import UserError
from isotrope.objective.distributed import gather, rank
from isotrope.text.permutation import derive
from isotrope.types import Batch, Scores, ScoreStep, Teacher, Term, TokenStep, Views, ViewStep

Features = dict[str, Any]  # one text column of the batch: input_ids (N, L), attention_mask (N, L), …


class Objective(nn.Module):
    """An unsupervised objective for a sentence-transformers model: ``SentenceTransformerTrainer(loss=Objective(...))``.

    With one text column, every view is a pass over the same text; with a positive column, views 1… are passes over the
    positive's text; further columns are hard negatives. An integer ``label`` column carries row ids to the teachers.

    Args:
        model: the student.
        terms: name -> term; the values are logged one by one and summed.
        tokens: pairs (token step, the passes it is on for), in order.
        views: view steps, in order; ``scores``: score steps, in order.
        passes: forward passes of the encoder a sentence, each with its own dropout mask.
        teachers: name -> teacher, for the steps and terms that ask for one.
        dims: Matryoshka: score steps and terms run once for each of these leading dimensions; losses are averaged.
        seed: of the random steps; with the step number it fixes every draw, on every process alike (and with the
            process's own number those of the token steps).
        mini_batch_size: sentences that go through the encoder at a time, each pass counted; loss and gradients stay
            those of the whole batch (`isotrope.encoder.gradient_cache`), for a second forward's time. None: all.

    Raises:
        UserError: if ``mini_batch_size`` is below 1; in the first training step if the anchor and its positive are
            equal, or if teachers have no row ids.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        terms: Mapping[str, Term],
        *,
        tokens: Sequence[tuple[TokenStep, Sequence[int]]] = (),
        views: Sequence[ViewStep] = (),
        scores: Sequence[ScoreStep] = (),
        passes: int = 2,
        teachers: Mapping[str, Teacher] | None = None,
        dims: Sequence[int] = (),
        seed: int = 0,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        if mini_batch_size is not None and mini_batch_size < 1:
            raise UserError(f"mini_batch_size = {mini_batch_size} is not possible", "choose 1 or more, or leave it out")
        self.model = model
        self.terms, self.tokens, self.views, self.scores = dict(terms), list(tokens), list(views), list(scores)
        # Components with weights or running statistics train, move between devices and are saved with the objective.
        parts = [*self.views, *self.scores, *self.terms.values()]
        self.components = nn.ModuleList(part for part in parts if isinstance(part, nn.Module))
        self.passes, self.teachers, self.dims, self.seed = passes, dict(teachers or {}), list(dims), seed
        self.mini_batch_size, self.step = mini_batch_size, 0

    def forward(self, features: Iterable[Features], labels: Tensor | None = None) -> dict[str, Tensor]:
        """One batch's text columns -> name -> loss term ()."""
        views = self.view(list(features), labels)
        if self.training:
            self.step += 1
        if not self.dims:
            return self.loss(views)
        losses = {dim: self.loss(_leading(views, dim)) for dim in self.dims}
        return {f"{name}@{dim}": value / len(losses) for dim, loss in losses.items() for name, value in loss.items()}

    def view(self, columns: list[Features], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, after the view steps; equal views are refused in the first step of training."""
        views = self.encode(columns, labels)
        for step in self.views:
            views = step(views)
        if self.training and self.step == 0 and torch.equal(views.stack[0], views.stack[-1]):
            remedy = "give the encoder dropout (encoder.dropout = 0.1), or a step that changes one view"
            raise UserError("the two views of every sentence are equal, so there is nothing to learn", remedy)
        return views

    def encode(self, columns: list[Features], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, of the sentences of all processes."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.step)
        # Each rank has its own sentences to change; their widths must not reach what all ranks share.
        own = torch.Generator().manual_seed(derive(derive(self.seed, self.step), -1 - rank()))
        if len(columns) == 1:
            stack = self._encode(columns[0], range(self.passes), own)
        else:
            anchor, positives = self._encode(columns[0], [0], own), range(1, max(2, self.passes))
            stack = torch.cat([anchor, self._encode(columns[1], positives, own)])
        hard = [self._encode(column, [0], own)[0] for column in columns[2:]]
        negatives = torch.stack(hard, dim=1) if hard else stack.new_zeros(stack.shape[1], 0, stack.shape[2])
        if labels is None and self.teachers:
            remedy = "add an integer column 'label' with the row numbers"
            raise UserError("the data has no row ids for the teachers", remedy)
        rows = torch.arange(stack.shape[1], device=stack.device) if labels is None else labels
        taught = {name: gather(teacher(Batch(rows, generator))) for name, teacher in self.teachers.items()}
        return Views(Batch(gather(rows), generator), gather(stack, dim=1), gather(negatives), taught)

    def _encode(self, column: Features, passes: Sequence[int], generator: torch.Generator) -> Tensor:
        """The same text through the encoder once a pass, all in one forward or in parts -> (len(passes), N, D)."""
        copies = []
        for number in passes:
            copy = column | whole(self.model, column) if self.tokens else dict(column)
            for step, on in self.tokens:
                copy = step(copy, generator) if number in on else copy
            copies.append(copy)
        rows = embed_in_parts(self.model, stacked(copies), self.mini_batch_size)
        return rows.unflatten(0, (len(copies), -1))  # type: ignore[no-any-return, no-untyped-call]

    def loss(self, views: Views) -> dict[str, Tensor]:
        """Embeddings -> name -> loss term (), in float32 also where the encoder runs in half precision."""
        with torch.autocast(views.stack.device.type, enabled=False):
            scores = Scores.from_views(views)
            for step in self.scores:
                scores = step(scores)
            return {name: term(scores) for name, term in self.terms.items()}

    def get_extra_state(self) -> Tensor:
        """Saved with the weights: the random steps go on where they were."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        """Take the step number from a saved state."""
        self.step = int(state)


def _leading(views: Views, dim: int) -> Views:
    return replace(views, stack=views.stack[..., :dim], negatives=views.negatives[..., :dim])
