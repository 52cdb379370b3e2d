"""Several models on several suites: every sentence of a model encoded once, every result kept for the next time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer

from isotrope.encoder.checksum import model_checksum
from isotrope.errors import UserError
from isotrope.evaluation.cache import data_checksum, remembered
from isotrope.evaluation.embed import Encoder, Floats, encode
from isotrope.evaluation.retrieval import evaluate_domain
from isotrope.evaluation.sets.domains import Domain
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import data_folder
from isotrope.evaluation.suite import SUITES, check, run
from isotrope.post.names import check as check_name
from isotrope.post.names import open_encoder

Say = Callable[[str], None]

OWN = ", own data"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated: suites on the data folder, and the user's own pairs and domains.

    With data of the user's own and no data folder, his own alone is evaluated: pairs by those of the suites that take
    pairs, a domain by retrieval.
    """

    suites: Mapping[str, str]  # suite -> setting
    tasks: list[str] | None = None
    data: str | Path | None = None
    pairs: Sequence[Pairs] = ()
    domains: Sequence[Domain] = ()

    @classmethod
    def read(
        cls,
        suites: str,
        tasks: str | None = None,
        data: str | Path | None = None,
        pairs: Sequence[Pairs] = (),
        domains: Sequence[Domain] = (),
    ) -> Asked:
        """Read "sts,transfer:fast" and "CR,MR".

        Raises UserError as `check` and `data_folder` do, and where no suite takes the pairs: before a model is loaded.
        """
        named = [suite.strip().partition(":") for suite in suites.split(",") if suite.strip()]
        chosen = [task.strip() for task in tasks.split(",")] if tasks else None
        asked = cls({suite: setting or "test" for suite, _, setting in named}, chosen, data, pairs, domains)
        for suite, setting in asked.suites.items():
            check(suite, chosen, setting)
        if pairs and not any(SUITES[suite].of_pairs for suite in asked.suites):
            raise UserError(f"suite {suites} takes no pairs", "choose sts, ranking or geometry")
        if asked.of_data:
            data_folder(data)
        return asked

    @property
    def of_data(self) -> bool:
        """Whether the data folder is asked for."""
        return self.data is not None or not (self.pairs or self.domains)


class Remembering:
    """An encoder that is asked for every distinct sentence once, however many suites need it."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, Floats] = {}  # sentence -> (D,)

    def encode(self, sentences: list[str]) -> Floats:
        """Sentences (n,) → vectors (n, D)."""
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if new:
            self._known |= zip(new, encode(self._encoder, new), strict=True)
        return np.stack([self._known[sentence] for sentence in sentences])


def evaluate_models(
    models: Sequence[str], asked: Asked, pooling: str | None = None, say: Say = lambda line: None
) -> dict[str, dict[str, Any]]:
    """Evaluate models by name → model → suite → task → result; own data stands under "SUITE, own data".

    A result that was computed before, by this code from the same weights and data, is taken from the cache; `say` hears
    what is being done.

    Raises UserError as `isotrope.evaluate` and `open_encoder` do; all names are checked before work begins.
    """
    for name in models:
        check_name(name)
    results: dict[str, dict[str, Any]] = {}
    for name in models:
        opened = open_encoder(name, pooling)
        known = model_checksum(opened) if isinstance(opened, SentenceTransformer) else None
        encoder: Encoder = Remembering(opened) if known else opened  # one fitted on the target wants it whole
        results[name] = {}
        if asked.of_data:
            for suite, setting in asked.suites.items():
                say(f"{name}: {suite}")
                results[name][suite] = _of_suite(encoder, known, suite, setting, asked)
        if asked.pairs or asked.domains:
            say(f"{name}: own data")
        results[name] |= _of_own(encoder, asked)
    return results


def _of_suite(encoder: Encoder, known: str | None, suite: str, setting: str, asked: Asked) -> dict[str, Any]:
    tasks, data = check(suite, asked.tasks, setting), data_folder(asked.data)

    def compute() -> dict[str, Any]:
        return run(encoder, suite, data, tasks, setting)

    if known is None:
        return compute()
    files = data_checksum(data, SUITES[suite].folders)
    return remembered({"model": known, "data": files, "suite": suite, "tasks": tasks, "setting": setting}, compute)


def _of_own(encoder: Encoder, asked: Asked) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for suite in asked.suites:
        of_pairs = SUITES[suite].of_pairs
        if asked.pairs and of_pairs is not None:
            found[suite + OWN] = {pairs.name: of_pairs(encoder, pairs) for pairs in asked.pairs}
    if asked.domains:
        found["retrieval" + OWN] = {domain.name: evaluate_domain(encoder, domain) for domain in asked.domains}
    return found
