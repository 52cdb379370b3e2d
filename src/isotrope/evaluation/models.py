"""Several models on several suites: every sentence of a model encoded once, every result kept for the next time."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.prompts import NO_PROMPTS, ByRole, Prompts, Role, has_roles
from isotrope.errors import UserError
from isotrope.evaluation.cache import data_checksum, remembered_result
from isotrope.evaluation.ranking import lists_to_rank
from isotrope.evaluation.sets.domain import Domain
from isotrope.evaluation.sets.known import data_folder
from isotrope.evaluation.sets.labels import Labels, texts_of
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.suite import SUITES, check_takes, checked_tasks, run
from isotrope.post.names import check_name, open_encoder
from isotrope.post.shortened import Shortened
from isotrope.text.coverage import unknown_warning
from isotrope.types import Encoder

Say = Callable[[str], None]

OWN_DATA, SEARCH = ", own data", "retrieval"

# The suite as tables name it, what decides the result beside model and code, and what computes it.
Part = tuple[str, Mapping[str, Any], Callable[[], dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What is to be evaluated: suites on the data folder, and the user's own labels.

    Own labels are evaluated by those of the suites that take them, queries by retrieval in any case. Without a data
    folder nothing else is evaluated.
    """

    suites: Mapping[str, str]  # suite -> setting
    tasks: list[str] | None = None
    data: str | Path | None = None
    labels: Sequence[Labels] = ()

    @classmethod
    def read(
        cls,
        suites: str | None = None,
        tasks: str | None = None,
        data: str | Path | None = None,
        labels: Sequence[Labels] = (),
    ) -> "EvaluationRequest":
        """Read "sts,transfer:fast" and "CR,MR". Own labels are evaluated alone unless suites are named."""
        if not suites and labels:
            if tasks:
                raise UserError(f"tasks {tasks} beside your own labels", "name their suite too, or leave them out")
            data = None
        named = [suite.strip().partition(":") for suite in (suites or "sts").split(",") if suite.strip()]
        chosen = [task.strip() for task in tasks.split(",")] if tasks else None
        asked = cls({suite: setting or "test" for suite, _, setting in named}, chosen, data, labels)
        for suite, setting in asked.suites.items():
            checked_tasks(suite, chosen, setting)
        for own in labels:
            check_takes([*asked.suites, SEARCH], own)
            if isinstance(own, Pairs) and "ranking" in asked.suites:
                lists_to_rank(own.name, [own])
        names = [(type(own), own.name) for own in labels]
        if double := next((name for name in names if names.count(name) > 1), None):
            raise UserError(f"two of the given labels are called {double[1]!r}", "rename one, or results mix")
        if asked.of_data:
            data_folder(data)
        return asked

    @property
    def of_data(self) -> bool:
        """Whether the data folder is asked for."""
        return self.data is not None or not self.labels

    @property
    def searches(self) -> bool:
        """Whether queries and documents are asked for, which have prompts of their own."""
        return any(isinstance(own, Domain) for own in self.labels) or (self.of_data and SEARCH in self.suites)

    @property
    def only_searches(self) -> bool:
        """Whether nothing else is asked for."""
        others = any(isinstance(own, Pairs) for own in self.labels) or (self.of_data and set(self.suites) - {SEARCH})
        return self.searches and not others

    @property
    def own_parts(self) -> list[tuple[str, Labels]]:
        """Suite and labels for each of the user's own results."""
        asked = [*self.suites, *([] if SEARCH in self.suites else [SEARCH])]
        return [(s, own) for s in asked for own in self.labels if isinstance(own, SUITES[s].takes or ())]

    @property
    def parts(self) -> int:
        """How many results there will be for one model, each computed and remembered for itself."""
        return len(self.suites) * self.of_data + len(self.own_parts)


class RememberingEncoder(ByRole):
    """An encoder that encodes every distinct sentence once, however many suites need it.

    Args:
        encoder: what encodes.
        begins: called before each work of the encoder, when data are read and checked.
    """

    def __init__(self, encoder: Encoder, begins: Callable[[], None] = lambda: None) -> None:
        self._encoder, self.has_roles, self._begins = encoder, has_roles(encoder), begins
        self._known: dict[Role | None, dict[str, Vectors]] = defaultdict(dict)  # role -> sentence -> (D,)

    def fresh(self) -> "RememberingEncoder":
        """The same encoder, of which nothing is remembered."""
        return RememberingEncoder(self._encoder, self._begins)

    def encode(self, sentences: list[str], role: Role | None = None) -> Vectors:
        """Sentences (n,) → vectors (n, D)."""
        known = self._known[role]
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]
        if new:
            self._begins()
            known |= zip(new, vectors_of(self._encoder, new, role=role), strict=True)
        return np.stack([known[sentence] for sentence in sentences])


def evaluate_models(
    models: Sequence[str],
    asked: EvaluationRequest,
    pooling: str | None = None,
    prompts: Prompts = NO_PROMPTS,
    progress: Callable[[int, str], None] = lambda done, doing: None,
    say: Say = lambda line: None,
    begins: Callable[[], None] = lambda: None,
    steps: Sequence[Shortened] = (),
) -> dict[str, dict[str, Any]]:
    """Evaluate models by name: model -> suite -> task -> result. Own data stands under "SUITE, own data".

    Each model is evaluated as it is, then with each of the ``steps`` behind it, as "MODEL, 64 dimensions". It encodes
    its texts once.

    A result that this code has computed before from the same weights and data is taken from the cache.

    Args:
        models: folders, names of the hub, word vectors, as `open_encoder` takes them.
        asked: what to evaluate.
        pooling: of the models; None: each its own.
        prompts: of the models; by default each has its own default.
        progress: is told how many of ``len(models) * asked.parts`` results are there, and which one comes now.
        say: is told of a model whose prompts nobody uses.
        begins: called before the long work, when the data of the suite are read and checked.
        steps: ways to shorten the vectors.
    """
    if not asked.searches and (prompts.query is not None or prompts.document is not None):
        remedy = "name the suite retrieval, give queries of your own, or give the words as the prompt"
        raise UserError("prompts for queries or documents, and no search", remedy)
    for name in models:
        check_name(name, prompts)
    results: dict[str, dict[str, Any]] = {}
    done = 0
    for name in models:
        opened = open_encoder(name, pooling, prompts)
        own = asked.searches and has_roles(opened)  # a search uses the model's prompts for queries and documents
        if not (own and asked.only_searches) and (note := prompts.note(opened, name, " outside searches" * own)):
            say(note)
        texts = [text for labels in asked.labels for text in texts_of(labels)]
        if isinstance(opened, SentenceTransformer) and (warning := unknown_warning(opened, texts)):
            say(warning)
        known = model_checksum(opened) if isinstance(opened, SentenceTransformer) else None
        # One that is fitted on the target wants it whole.
        encoder: Encoder = RememberingEncoder(opened, begins) if known else opened
        behind = {f"{name}, {step}": (step.behind(encoder), {"step": step.model_dump()}) for step in steps}
        for label, (shown, how) in {name: (encoder, dict[str, Any]()), **behind}.items():
            results[label] = {}
            for suite, key, compute in _parts(shown, asked):
                progress(done, f"{label}: {suite}")
                done += 1
                found = remembered_result({"model": known, **key, **how}, compute) if known else compute()
                results[label].setdefault(suite, {}).update(found)
    return results


def check_widths(
    models: Sequence[str], steps: Sequence[Shortened], pooling: str | None = None, prompts: Prompts = NO_PROMPTS
) -> None:
    """Open each model, and see that it has the dimensions that the steps keep."""
    most = max((step.k or 0 for step in steps), default=0)
    for name in models if most else ():
        encoder = open_encoder(name, pooling, prompts)
        width = encoder.get_embedding_dimension() if isinstance(encoder, SentenceTransformer) else None
        if width and most > width:
            raise UserError(f"{name} has {width} dimensions, and is to be cut to {most}", f"choose at most {width}")


def _parts(encoder: Encoder, asked: EvaluationRequest) -> Iterator[Part]:
    """The parts of the work, each with a result that is remembered."""
    if asked.of_data:
        data = data_folder(asked.data)
        for suite, setting in asked.suites.items():
            tasks = checked_tasks(suite, asked.tasks, setting)
            files = data_checksum(data, SUITES[suite].folders)
            key = {"data": files, "suite": suite, "tasks": tasks, "setting": setting}
            yield suite, key, partial(run, encoder, suite, data, tasks, setting)
    for suite, own in asked.own_parts:
        key = {"own": own.checksum(), "name": own.name, "suite": suite}
        yield suite + OWN_DATA, key, partial(_of_own, suite, encoder, own)


def _of_own(suite: str, encoder: Encoder, labels: Labels) -> dict[str, Any]:
    return {labels.name: SUITES[suite].of_labels(encoder, labels)}
