"""The whole path from tokens to loss, as one sentence-transformers loss.

token steps → encoder (or a peer) × passes → Views → view steps → Scores → score steps → terms
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.components.citations import Described, introduce
from isotrope.components.refusals import LossTerms, check_columns, check_objective, check_views
from isotrope.contract.context import BuildContext, built
from isotrope.contract.distributed import gather_rows, process_rank
from isotrope.contract.features import TextColumn
from isotrope.objective.passes import EncodedColumns, Passes, Peers, TokenSteps
from isotrope.text.permutation import derive
from isotrope.types import Batch, Scores, ScoreStep, Teacher, Term, Views, ViewStep

LossSteps = tuple[list[ScoreStep], dict[str, Term]]  # from cosines to losses


class Objective(Described, nn.Module):
    """An unsupervised objective for a sentence-transformers model:
    ``SentenceTransformerTrainer(loss=Objective(...))``.

    With one text column, every view is a pass over the same text. With a positive column, views 1…
    are passes over the text of the positive. Further columns are hard negatives. An integer
    ``label`` column carries row ids to the teachers.

    Args:
        model: the student.
        terms: name -> term. The values are logged one by one and summed.
        tokens: pairs (token step, the passes it is on for), in order.
        peers: pairs (second encoder, the passes that it reads in the student's place).
        views: view steps, in order; ``scores``: score steps, in order.
        passes: forward passes of the encoder a sentence, each with its own dropout mask.
        teachers: name -> teacher, for the steps and terms that ask for one.
        dims: Matryoshka: score steps and terms run once for each of these leading dimensions;
            losses are averaged. Each width has its own copy of what holds weights or a state, such
            as a queue.
        seed: of the random steps. Seed and step number fix every draw, alike on all processes; only
            the draws of token steps depend on the process too.
        context: what components are built with, by their ``build(context)``. The default is what
            the student tells.
        mini_batch_size: sentences that go through the encoder at a time, each pass counted; None:
            all. Loss and gradients stay those of the batch, for a second forward
            (`isotrope.contract.features.read_in_parts`).

    Raises:
        UserError: the model, a component or a setting is not possible. In the first training step:
            the data cannot be read, or nothing can be learned from it. In any step: teachers have
            no row ids.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        terms: Mapping[str, Term],
        *,
        tokens: TokenSteps = (),
        peers: Peers = (),
        views: Sequence[ViewStep] = (),
        scores: Sequence[ScoreStep] = (),
        passes: int = 2,
        teachers: Mapping[str, Teacher] | None = None,
        dims: Sequence[int] = (),
        seed: int = 0,
        context: BuildContext | None = None,
        mini_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        teachers = teachers or {}
        components = (tokens, peers, views, scores, terms, teachers)
        check_objective(model, passes, dims, components)
        self.model = introduce(model)
        self.passes = passes
        self.seed = seed
        self.step = 0
        self.mini_batch_size = mini_batch_size

        # Teachers come first, because a projection asks for their width.
        context = context or BuildContext.of(model)
        self.teachers = built(dict(teachers), context)
        all_teachers = {**context.teachers, **self.teachers}
        context = replace(context, teachers=all_teachers)

        # New weights are drawn in this order.
        self.tokens = built(list(tokens), context)
        self.peers = built(list(peers), context)
        self.views = built(list(views), context)
        self.scores = built(list(scores), context)
        self.terms = built(dict(terms), context)
        self.narrow: dict[int, LossSteps] = {}  # by the number of dimensions
        for dim in dims:
            narrow_context = replace(context, width=dim)
            narrow_scores = built(deepcopy(list(scores)), narrow_context)
            narrow_terms = built(deepcopy(dict(terms)), narrow_context)
            self.narrow[dim] = (narrow_scores, narrow_terms)

        # Components with weights or running statistics train, move between devices and are saved
        # with the objective.
        self.parts = self._used_parts()
        modules = [component for component in self.parts if isinstance(component, nn.Module)]
        self.components = nn.ModuleList(modules)
        precision = torch.promote_types(model.dtype, torch.float32)
        self.components.to(precision)

    def _used_parts(self) -> list[Any]:
        """All components in order, without the teachers."""
        components: list[Any] = [component for component, _ in self.tokens + self.peers]
        components += self.views
        loss_steps = self.narrow.values() or [(self.scores, self.terms)]
        for scores, terms in loss_steps:
            components += scores
            components += terms.values()
        return components

    def forward(
        self, features: Iterable[TextColumn], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """One batch's text columns -> name -> loss term ()."""
        views = self.view(list(features), labels)
        if self.training:
            self.step += 1

        if not self.narrow:
            return self.loss(views, self.scores, self.terms)

        losses: dict[str, Tensor] = {}
        for dim, (scores, terms) in self.narrow.items():
            narrow_views = views.leading(dim)
            narrow_losses = self.loss(narrow_views, scores, terms)
            for name, loss in narrow_losses.items():
                losses[f"{name}@{dim}"] = loss / len(self.narrow)
        return LossTerms(losses)

    def view(self, columns: list[TextColumn], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, after the view steps; the first step of training refuses what
        teaches nothing.
        """
        views = self.encode(columns, labels)
        for step in self.views:
            views = step(views)
        check_views(self, views)
        return views

    def encode(self, columns: list[TextColumn], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, of the sentences of all processes."""
        check_columns(self, columns, labels)
        stack, negatives, readings = self._encode_own(columns)
        rows = labels
        if rows is None:
            count = stack.shape[1]
            rows = torch.arange(count, device=stack.device)

        step_seed = self.seed * 1_000_003 + self.step
        generator = torch.Generator().manual_seed(step_seed)
        own_batch = Batch(rows, generator)
        teachers = {}
        for name, teacher in self.teachers.items():
            teachers[name] = gather_rows(teacher(own_batch))

        # From here on, every process computes with the same, full batch.
        return Views(
            batch=Batch(gather_rows(rows), generator),
            stack=gather_rows(stack, dim=1),
            negatives=gather_rows(negatives),
            teachers=teachers,
            readings=readings,
        )

    def _encode_own(self, columns: list[TextColumn]) -> EncodedColumns:
        """The embeddings of this process's sentences."""
        # Each process has its own sentences to change. Their widths must not reach what all
        # processes share, so the draws have a generator of their own.
        step_seed = derive(self.seed, self.step)
        process_seed = derive(step_seed, -1 - process_rank())
        generator = torch.Generator().manual_seed(process_seed)

        passes = Passes(
            model=self.model,
            steps=self.tokens,
            generator=generator,
            mini_batch_size=self.mini_batch_size,
            peers=self.peers,
            states=any(getattr(component, "token_states", False) for component in self.parts),
        )
        return passes.views(columns, self.passes)

    def loss(
        self, views: Views, steps: Sequence[ScoreStep], terms: Mapping[str, Term]
    ) -> dict[str, Tensor]:
        """Embeddings -> name -> loss term (), in float32 also where the encoder runs in half
        precision.
        """
        with torch.autocast(views.stack.device.type, enabled=False):
            scores = Scores.from_views(views)
            for step in steps:
                scores = step(scores)
            losses = {name: term(scores) for name, term in terms.items()}
            return LossTerms(losses)

    def after_step(self) -> None:
        """Tell the components that ask for it that the optimizer has made a step (moving averages,
        queues).
        """
        components = [*self.parts, *self.teachers.values()]
        for component in components:
            if hasattr(component, "after_step"):
                component.after_step(self)

    def get_extra_state(self) -> Tensor:
        """The step number, saved with the weights: the random steps go on where they were."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        self.step = int(state)
