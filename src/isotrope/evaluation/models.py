"""Several models on several suites: every sentence of a model encoded once, every result kept for
the next time.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
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
from isotrope.evaluation.sets.files import data_checksum, data_folder
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, texts_of
from isotrope.evaluation.similarity import similarity_of
from isotrope.evaluation.suite import SUITES, check_takes, checked_tasks, run
from isotrope.evaluation.vector_cache import VectorCache
from isotrope.post.names import check_name, open_encoder
from isotrope.post.shortened import Shortened
from isotrope.store.cache import remembered
from isotrope.text.coverage import unknown_warning
from isotrope.types import Encoder

OWN_DATA, SEARCH = ", own data", "retrieval"
CODE = ("text", "encoder", "evaluation", "post")  # rooms of the package whose code decides a result


@dataclass(frozen=True, slots=True)
class AskedPart:
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

    def result(self, encoder: Encoder, model: dict[str, Any] | None) -> dict[str, Any]:
        """Task -> result. ``model`` says all that decides the vectors, so that the cache may know;
        None: it may not.
        """
        compute = partial(run, encoder, self.suite, self.data, self.tasks, self.setting)
        if model is None:
            return compute()
        name = None if isinstance(self.data, Path) else self.data.name
        key = {
            "suite": self.suite,
            "tasks": self.tasks,
            "setting": self.setting,
            "data": self.checksum,
            "name": name,
            "read_as": None if isinstance(self.data, Path) else self.data.read_as,
        }
        return dict(remembered("results", {**key, **model, "code": code_checksum()}, compute))


def asked_parts(
    suites: str | None = None,
    tasks: str | None = None,
    data: str | Path | None = None,
    labels: Sequence[Labels] = (),
) -> list[AskedPart]:
    """What "sts,transfer:fast" and "CR,MR" ask of the data folder, and of the user's own labels.

    Own labels are evaluated by those of the suites that take them, queries by retrieval in any
    case. Without suites or without a data folder, nothing else is evaluated then. All is checked
    before a model is loaded.
    """
    named = [
        suite.strip().partition(":") for suite in (suites or "sts").split(",") if suite.strip()
    ]
    settings = {suite: setting or "test" for suite, _, setting in named}
    chosen = [task.strip() for task in tasks.split(",")] if tasks else None
    tasks_of = {suite: checked_tasks(suite, chosen, setting) for suite, setting in settings.items()}
    for own in labels:
        check_takes([*settings, SEARCH], own, tasks if not suites else None)
        if isinstance(own, GradedPairs) and "ranking" in settings:
            lists_to_rank(own.name, [own])
    names = [(type(own), own.name) for own in labels]
    if double := next((name for name in names if names.count(name) > 1), None):
        raise UserError(
            f"two of the given labels are called {double[1]!r}", "rename one, or results mix"
        )
    parts = []
    if not labels or (suites and data is not None):
        folder = data_folder(data)
        checksum = cache(partial(data_checksum, folder))
        for suite, setting in settings.items():
            parts.append(
                AskedPart(suite, folder, checksum(SUITES[suite].folders), tasks_of[suite], setting)
            )
    given = [(own, own.checksum()) for own in labels]
    for suite in dict.fromkeys([*settings, SEARCH]):
        parts += [
            AskedPart(suite, own, of_own)
            for own, of_own in given
            if isinstance(own, SUITES[suite].takes or ())
        ]
    return parts


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
        self._encoder, self.has_roles, self._begins = encoder, has_roles(encoder), begins
        self._cache_key, self._say = cache_key, say
        self.similarity_fn_name = similarity_of(encoder)
        # role -> sentence -> (D,)
        self._known: dict[Role | None, dict[str, Vectors]] = defaultdict(dict)

    def fresh(self) -> "RememberingEncoder":
        """The same encoder, of which nothing is remembered."""
        return RememberingEncoder(self._encoder, self._begins)

    def encode(self, sentences: list[str], role: Role | None = None) -> Vectors:
        """Sentences (n,) → vectors (n, D)."""
        known = self._known[role]
        if new := [sentence for sentence in dict.fromkeys(sentences) if sentence not in known]:
            known |= self._kept_or_encoded(new, role)
        return np.stack([known[sentence] for sentence in sentences])

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
    parts: Sequence[AskedPart],
    pooling: str | None = None,
    prompts: Prompts = NO_PROMPTS,
    progress: Callable[[int, str], None] = lambda done, doing: None,
    say: Callable[[str], None] = lambda line: None,
    begins: Callable[[], None] = lambda: None,
    steps: Sequence[Shortened] = (),
) -> dict[str, dict[str, Any]]:
    """Evaluate models, as `open_encoder` takes them: model -> suite -> task -> result; own data as
    "SUITE, own data".

    Each model is evaluated as it is, then with each of the ``steps``, as "MODEL, 64 dimensions". It
    encodes its texts once. ``progress`` is told how many results are there, and which one comes
    now; ``say`` of texts that a model does not know, and of prompts that nobody uses. ``begins`` is
    called before the long work, when the data are read.
    """
    searches = [part.suite == SEARCH for part in parts]  # which have prompts of their own
    if not any(searches) and (prompts.query, prompts.document) != (None, None):
        remedy = (
            "name the suite retrieval, give queries of your own, or give the words as the prompt"
        )
        raise UserError("prompts for queries or documents, and no search", remedy)
    for name in models:
        check_name(name, prompts)
    texts = [
        text for part in parts if not isinstance(part.data, Path) for text in texts_of(part.data)
    ]
    most = max((step.k or 0 for step in steps), default=0)
    results: dict[str, dict[str, Any]] = {}
    done = 0
    for name in models:
        # one that is fitted on the target stays as it is
        encoder = opened = open_encoder(name, pooling, prompts)
        known: dict[str, Any] | None = None  # all that decides the vectors
        if isinstance(opened, SentenceTransformer):
            known = {"model": model_checksum(opened)}
            cache_key = f"{known['model']}-{code_checksum()}"
            encoder = RememberingEncoder(opened, begins, cache_key, say)
            if most > (width := opened.get_embedding_dimension() or most):
                raise UserError(
                    f"{name} has {width} dimensions, and is to be cut to {most}",
                    f"choose at most {width}",
                )
            if warning := unknown_warning(opened, texts):
                say(warning)
        # a search uses the model's prompts for queries and documents
        own = any(searches) and has_roles(opened)
        if not (own and all(searches)) and (
            note := prompts.note(opened, name, " outside searches" * own)
        ):
            say(note)
        for step in (None, *steps):
            label, shown = (f"{name}, {step}", step.behind(encoder)) if step else (name, encoder)
            key = known and {**known, **({"step": step.model_dump()} if step else {})}
            results[label] = defaultdict(dict)
            for part in parts:
                progress(done, f"{label}: {part.title}")
                done += 1
                results[label][part.title] |= part.result(shown, key)
    return results


@cache
def code_checksum() -> str:
    """Checksum of the code that decides a result."""
    paths = [
        path
        for folder in CODE
        for path in sorted((Path(__file__).parents[1] / folder).rglob("*.py"))
    ]
    return xxhash.xxh3_128_hexdigest(b"".join(path.read_bytes() for path in paths))
