"""Several models on several suites: every sentence of a model encoded once, every result kept for
the next time.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from sentence_transformers import SentenceTransformer

from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.embed import Vectors, vectors_of
from isotrope.encoder.prompts import NO_PROMPTS, ByRole, Prompts, Role, has_roles
from isotrope.errors import UserError
from isotrope.evaluation.ranking import lists_to_rank
from isotrope.evaluation.results import Results
from isotrope.evaluation.sets.files import data_checksum, data_folder
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, texts_of
from isotrope.evaluation.similarity import similarity_of
from isotrope.evaluation.suite import (
    SUITES,
    check_takes,
    checked_tasks,
    run,
    takes_labels,
)
from isotrope.evaluation.vector_cache import VectorCache
from isotrope.post.names import check_name, open_encoder
from isotrope.store.cache import remembered
from isotrope.text.coverage import unknown_warning
from isotrope.types import Encoder

OWN_DATA = ", own data"  # behind a suite's name in tables
SEARCH = "retrieval"
CODE = ("text", "encoder", "evaluation", "post")  # rooms of the package whose code decides a result


@dataclass(frozen=True, slots=True)
class PlannedEvaluation:
    """A result that each model is to have: a suite on the data folder, or on one set of the user's
    own labels.
    """

    suite: str
    data: Path | Labels
    checksum: str  # of the data
    tasks: list[str] | None = None
    setting: str = "test"

    @property
    def title(self) -> str:
        """The suite as tables name it."""
        return self.suite if isinstance(self.data, Path) else self.suite + OWN_DATA

    def result(self, encoder: Encoder, model: Mapping[str, object] | None) -> Results:
        """Task -> result. ``model`` says all that decides the vectors, so that the cache may know;
        None: it may not.
        """
        compute = partial(run, encoder, self.suite, self.data, self.tasks, self.setting)
        if model is None:
            return compute()

        labels = None if isinstance(self.data, Path) else self.data
        key = {
            "suite": self.suite,
            "tasks": self.tasks,
            "setting": self.setting,
            "data": self.checksum,
            "name": labels.name if labels else None,
            "read_as": labels.read_as if labels else None,
            "code": code_checksum(),
            **model,
        }
        return dict(remembered("results", key, compute))


def plan_evaluations(
    suites: str | None = None,
    tasks: str | None = None,
    data: str | Path | None = None,
    labels: Sequence[Labels] = (),
) -> list[PlannedEvaluation]:
    """What "sts,transfer:fast" and "CR,MR" ask of the data folder, and of the user's own labels.

    Own labels are evaluated by those of the suites that take them, queries by retrieval in any
    case. Without suites or without a data folder, nothing else is evaluated then. All is checked
    before a model is loaded.

    Raises UserError for an unknown suite, setting or task, for labels that no suite takes, and for
    two sets of labels with one name.
    """
    settings = _settings_of_suites(suites or "sts")
    task_names = [task.strip() for task in tasks.split(",")] if tasks else None
    tasks_of = {
        suite: checked_tasks(suite, task_names, setting) for suite, setting in settings.items()
    }
    suites_of_labels = list(dict.fromkeys([*settings, SEARCH]))
    _check_labels(labels, suites_of_labels, None if suites else tasks)

    evaluations = []
    if not labels or (suites and data is not None):
        folder = data_folder(data)
        checksum_of = cache(partial(data_checksum, folder))
        for suite, setting in settings.items():
            checksum = checksum_of(SUITES[suite].folders)
            evaluations.append(PlannedEvaluation(suite, folder, checksum, tasks_of[suite], setting))

    checksums = [label_set.checksum() for label_set in labels]
    for suite in suites_of_labels:
        for label_set, checksum in zip(labels, checksums, strict=True):
            if takes_labels(suite, label_set):
                evaluations.append(PlannedEvaluation(suite, label_set, checksum))
    return evaluations


def _settings_of_suites(suites: str) -> dict[str, str]:
    """Suite -> setting of "sts,transfer:fast"."""
    settings = {}
    for name in suites.split(","):
        suite, _, setting = name.strip().partition(":")
        if suite:
            settings[suite] = setting or "test"
    return settings


def _check_labels(labels: Sequence[Labels], suites: Sequence[str], tasks: str | None) -> None:
    """Check that the suites can use each of the user's labels, and that names differ."""
    names = set()
    for label_set in labels:
        check_takes(suites, label_set, tasks)
        if isinstance(label_set, GradedPairs) and "ranking" in suites:
            lists_to_rank(label_set.name, [label_set])
        name = (type(label_set), label_set.name)
        if name in names:
            raise UserError(
                f"two of the given labels are called {label_set.name!r}",
                "rename one, or results mix",
                code="equal-names",
            )
        names.add(name)


class RememberingEncoder(ByRole):
    """An encoder that encodes every distinct sentence once.

    Args:
        encoder: the encoder.
        begins: called before each work of the encoder.
        cache_key: all that decides the vectors, so that they are kept between calls of isotrope;
            "" keeps them in memory only.
        say: told how many vectors were taken from the cache.
    """

    def __init__(
        self,
        encoder: Encoder,
        begins: Callable[[], None] = lambda: None,
        cache_key: str = "",
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.has_roles = has_roles(encoder)
        self.similarity_fn_name = similarity_of(encoder)
        self._encoder = encoder
        self._begins = begins
        self._cache_key = cache_key
        self._say = say
        # role -> sentence -> (D,)
        self._known: dict[Role | None, dict[str, Vectors]] = defaultdict(dict)

    def fresh(self) -> "RememberingEncoder":
        """The same encoder, of which nothing is remembered."""
        return RememberingEncoder(self._encoder, self._begins)

    def encode(self, sentences: list[str], role: Role | None = None) -> Vectors:
        """Sentences (n,) → vectors (n, D)."""
        vectors = self._known[role]
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in vectors]
        if new:
            vectors |= self._kept_or_encoded(new, role)
        return np.stack([vectors[sentence] for sentence in sentences])

    def _kept_or_encoded(self, sentences: list[str], role: Role | None) -> dict[str, Vectors]:
        """Sentence -> its vector (D,), from the cache if it is kept there."""
        cache = VectorCache(f"{self._cache_key}-{role}") if self._cache_key else None
        vectors = cache.read(sentences) if cache else {}
        if vectors:
            self._say(
                f"{len(vectors):,} of {len(sentences):,} texts were encoded by an earlier call"
            )

        new = [sentence for sentence in sentences if sentence not in vectors]
        if new:
            self._begins()
            encoded = vectors_of(self._encoder, new, role=role)
            vectors |= zip(new, encoded, strict=True)
            if cache:
                cache.keep(new, encoded)
        return vectors


def evaluate_models(
    models: Sequence[str],
    evaluations: Sequence[PlannedEvaluation],
    pooling: str | None = None,
    prompts: Prompts = NO_PROMPTS,
    progress: Callable[[int, str], None] = lambda done, doing: None,
    say: Callable[[str], None] = lambda line: None,
    begins: Callable[[], None] = lambda: None,
) -> dict[str, dict[str, Any]]:
    """Evaluate models, as `open_encoder` takes them: model -> suite -> task -> result; own data as
    "SUITE, own data".

    Each model encodes its texts once.

    Args:
        models: names, or folders.
        evaluations: what each model is evaluated on, as `plan_evaluations` gives it.
        pooling: of the models, instead of their own.
        prompts: of the models, instead of their own.
        progress: told how many results are there, and which one comes now.
        say: told of texts that a model does not know, and of prompts that nobody uses.
        begins: called before the long work, when the data are read.

    Raises:
        UserError: prompts for searches if nothing is searched, or a model that cannot be loaded.
    """
    _check_prompts(prompts, evaluations)
    for name in models:
        check_name(name, prompts)

    own_texts: list[str] = []
    for evaluation in evaluations:
        if not isinstance(evaluation.data, Path):
            own_texts += texts_of(evaluation.data)

    results: dict[str, dict[str, Any]] = {}
    done = 0
    for name in models:
        opened = open_encoder(name, pooling, prompts)
        encoder: Encoder = opened
        notes = [_prompts_note(name, opened, evaluations, prompts)]
        model_key = None
        if isinstance(opened, SentenceTransformer):  # others are fitted on what they encode
            notes.insert(0, unknown_warning(opened, own_texts))
            checksum = model_checksum(opened)
            model_key = {"model": checksum}
            encoder = RememberingEncoder(opened, begins, f"{checksum}-{code_checksum()}", say)
        for note in filter(None, notes):
            say(note)

        by_suite: dict[str, Results] = defaultdict(dict)
        for evaluation in evaluations:
            progress(done, f"{name}: {evaluation.title}")
            by_suite[evaluation.title] |= evaluation.result(encoder, model_key)
            done += 1
        results[name] = by_suite
    return results


def _check_prompts(prompts: Prompts, evaluations: Sequence[PlannedEvaluation]) -> None:
    """Refuse prompts for queries or documents if nothing is searched."""
    has_search = any(evaluation.suite == SEARCH for evaluation in evaluations)
    if not has_search and (prompts.query, prompts.document) != (None, None):
        raise UserError(
            "prompts for queries or documents, and no search",
            "name the suite retrieval, give queries of your own, or give the words as the prompt",
            code="prompts-without-search",
        )


def _prompts_note(
    name: str, encoder: Encoder, evaluations: Sequence[PlannedEvaluation], prompts: Prompts
) -> str:
    """A warning of a model's prompts that nothing uses; else "".

    A search uses those of queries and documents.
    """
    suites = {evaluation.suite for evaluation in evaluations}
    if SEARCH not in suites or not has_roles(encoder):
        return prompts.note(encoder, name)
    return prompts.note(encoder, name, " outside searches") if len(suites) > 1 else ""


@cache
def code_checksum() -> str:
    """Checksum of the code that decides a result."""
    package = Path(__file__).parents[1]
    digest = xxhash.xxh3_128()
    for room in CODE:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
