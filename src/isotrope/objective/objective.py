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
from isotrope.components.refusals import LossTerms, check_columns, check_views, refuse
from isotrope.contract.context import BuildContext, built
from isotrope.contract.distributed import gather_rows, process_rank
from isotrope.objective.passes import Passes, TextColumn
from isotrope.text.permutation import derive
from isotrope.types import Batch, Scores, ScoreStep, Teacher, Term, TokenStep, Views, ViewStep


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
        tokens: Sequence[tuple[TokenStep, Sequence[int]]] = (),
        peers: Sequence[tuple[Any, Sequence[int]]] = (),
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
        refuse(model, passes, dims, (tokens, peers, views, scores, terms, teachers or {}))
        self.model, self.passes, self.seed, self.step = introduce(model), passes, seed, 0
        self.mini_batch_size, context = mini_batch_size, context or BuildContext.of(model)
        self.teachers = built(dict(teachers or {}), context)
        context = replace(context, teachers={**context.teachers, **self.teachers})
        self.tokens, self.peers = (
            [(built(part, context), on) for part, on in given] for given in (tokens, peers)
        )
        ends = [list(scores), dict(terms)]
        self.views, self.scores, self.terms = built([list(views), *ends], context)
        self.narrow = {dim: built(deepcopy(ends), replace(context, width=dim)) for dim in dims}
        used = list(self.narrow.values()) or [[self.scores, self.terms]]
        self.parts = [part for part, _ in (*self.tokens, *self.peers)] + self.views
        self.parts += [part for steps, named in used for part in (*steps, *named.values())]
        # Components with weights or running statistics train, move between devices and are saved
        # with the objective.
        self.components = nn.ModuleList(part for part in self.parts if isinstance(part, nn.Module))
        self.components.to(torch.promote_types(model.dtype, torch.float32))

    def forward(
        self, features: Iterable[TextColumn], labels: Tensor | None = None
    ) -> dict[str, Tensor]:
        """One batch's text columns -> name -> loss term ()."""
        views = self.view(list(features), labels)
        self.step += self.training
        if not self.narrow:
            return self.loss(views, self.scores, self.terms)
        found: dict[str, Tensor] = {}
        for dim, ends in self.narrow.items():
            part = replace(
                views, stack=views.stack[..., :dim], negatives=views.negatives[..., :dim]
            )
            found |= {
                f"{name}@{dim}": x / len(self.narrow) for name, x in self.loss(part, *ends).items()
            }
        return LossTerms(found)

    def view(self, columns: list[TextColumn], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, after the view steps; the first step of training refuses what
        teaches nothing.
        """
        views = self.encode(columns, labels)
        for step in self.views:
            views = step(views)
        return check_views(self, views, columns)

    def encode(self, columns: list[TextColumn], labels: Tensor | None) -> Views:
        """Token ids -> embeddings, of the sentences of all processes."""
        check_columns(self, columns, labels)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.step)
        # Each rank has its own sentences to change; their widths must not reach what all ranks
        # share.
        own = torch.Generator().manual_seed(
            derive(derive(self.seed, self.step), -1 - process_rank())
        )
        states = any(getattr(part, "token_states", False) for part in self.parts)
        read = Passes(self.model, self.tokens, own, self.mini_batch_size, self.peers, states)
        stack, negatives, readings = read.views(columns, self.passes)
        rows = torch.arange(stack.shape[1], device=stack.device) if labels is None else labels
        taught = {
            name: gather_rows(teacher(Batch(rows, generator)))
            for name, teacher in self.teachers.items()
        }
        stack, negatives = gather_rows(stack, dim=1), gather_rows(negatives)
        return Views(Batch(gather_rows(rows), generator), stack, negatives, taught, readings)

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
            return LossTerms({name: term(scores) for name, term in terms.items()})

    def after_step(self) -> None:
        """Tell the components that ask for it that the optimizer has made a step (moving averages,
        queues).
        """
        for part in (*self.parts, *self.teachers.values()):
            if hasattr(part, "after_step"):
                part.after_step(self)

    def get_extra_state(self) -> Tensor:
        """The step number, saved with the weights: the random steps go on where they were."""
        return torch.tensor(self.step)

    def set_extra_state(self, state: Tensor) -> None:
        self.step = int(state)
