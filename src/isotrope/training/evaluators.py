"""What is measured while a model trains: dev scores, or signals that need no labels."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.modules import Normalize
from sentence_transformers.util import batch_to_device
from torch import nn

from isotrope.encoder.prompts import used_prompt
from isotrope.evaluation.correlation import spearman
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.geometry import alignment, mean_cosine, uniformity
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.training.pairs import DevSet, TransferDev
from isotrope.types import Matrix

# Pairs above this share of the highest gold score are positives (STS-B: above 4 of 5; Gao et al.,
# 2021).
POSITIVE_SHARE = 0.8
UNIFORMITY_TEXTS = 4000  # at most, because its time grows with their square
BATCH_SIZE = 64


class DevScore(BaseEvaluator):
    """The score on each dev set, and their mean under ``score``; a sentence-transformers evaluator.

    Of pairs it is Spearman's correlation, of the transfer tasks their mean dev accuracy. The
    vectors of the first pairs also give alignment (of the close pairs) and uniformity: the papers'
    curves are those of STS-B alone.
    """

    def __init__(self, sets: Mapping[str, DevSet]) -> None:
        super().__init__()
        self.pairs = {name: dev for name, dev in sets.items() if isinstance(dev, GradedPairs)}
        self.transfer = {name: dev for name, dev in sets.items() if isinstance(dev, TransferDev)}

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        geometry: dict[str, float] = {}
        scores: dict[str, float] = {}
        if self.pairs:
            embeddings = self._embed_pairs(model)
            first_set = next(iter(self.pairs.values()))
            geometry = _geometry(first_set, embeddings)
            for name, pairs in self.pairs.items():
                scores[name] = spearman(pairs.similarities(embeddings), pairs.gold)
        for name, tasks in self.transfer.items():
            scores[name] = tasks.accuracy(model)
        mean = sum(scores.values()) / len(scores)
        return {**geometry, **scores, "score": mean}

    def _embed_pairs(self, model: SentenceTransformer) -> Embeddings:
        """The embeddings of all pairs' texts, those of the first set first."""
        texts: list[str] = []
        for pairs in self.pairs.values():
            texts += pairs.texts
        return Embeddings.of(model, texts)


def _geometry(pairs: GradedPairs, embeddings: Embeddings) -> dict[str, float]:
    """Uniformity of the first sentences, `UNIFORMITY_TEXTS` at most, and alignment of the close
    pairs.
    """
    count = min(len(set(pairs.texts)), UNIFORMITY_TEXTS)
    geometry = {"uniformity": uniformity(embeddings.vectors[:count])}

    is_close = pairs.gold > POSITIVE_SHARE * pairs.gold.max()
    cosines = pairs.similarities(embeddings)[is_close]
    if len(cosines):
        # Of unit vectors: ‖u − v‖² = 2 − 2·cos.
        geometry["alignment"] = float(np.mean(2 - 2 * cosines))
    return geometry


class Signals(BaseEvaluator):
    """Signals without labels: alignment of two dropout views, uniformity, mean cosine."""

    def __init__(self, sentences: Sequence[str], max_length: int) -> None:
        super().__init__()
        self.sentences = list(sentences)
        self.max_length = max_length

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        first = self._dropout_view(model)
        second = self._dropout_view(model)
        model.eval()
        vectors = model.encode(self.sentences, convert_to_numpy=False, convert_to_tensor=True)
        rows = vectors.float().cpu().numpy()
        return {
            "alignment": alignment(first, second),
            "uniformity": uniformity(rows),
            "mean_cosine": mean_cosine(rows),
        }

    @torch.no_grad()
    def _dropout_view(self, model: SentenceTransformer) -> Matrix:
        """Unit vectors (N, D) of the sentences, with dropout."""
        model.train()
        prompt = used_prompt(model) or None
        batches = []
        for start in range(0, len(self.sentences), BATCH_SIZE):
            texts = self.sentences[start : start + BATCH_SIZE]
            features = model.preprocess(texts, prompt=prompt, max_length=self.max_length)
            vectors = model(batch_to_device(features, model.device))["sentence_embedding"]
            batches.append(F.normalize(vectors, dim=-1).float().cpu())
        return torch.cat(batches).numpy()


def head_layers(objective: Any) -> list[nn.Module]:
    """The view steps as they are now, as modules of sentence-transformers: (N, D) -> (N, D).

    With ``train.keep_head`` they are part of the model: WhitenedCSE's "representation" is the
    output of its head (Zhuo et al., ACL 2023, Sec. 4.1,
    https://aclanthology.org/2023.acl-long.677). Rows have unit length at the end where the
    encoder's have.
    """
    layers: list[nn.Module] = []
    for step in objective.views:
        layers += step.layers()
    if isinstance(_student(objective)[-1], Normalize):
        layers.append(Normalize())
    return layers


def _student(objective: Any) -> SentenceTransformer:
    """The student itself. With several processes, the trainer wraps it."""
    model = objective.model
    return getattr(model, "module", model)


class WithHead(BaseEvaluator):
    """Another evaluator, of the student with its head. It shares the student's weights and copies
    the head's.
    """

    def __init__(self, evaluator: BaseEvaluator, objective: Any) -> None:
        super().__init__()
        self.evaluator = evaluator
        self.objective = objective

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> Any:
        with_head = copy(_student(self.objective))
        with_head._modules = dict(with_head._modules)
        return self.evaluator(with_head.extend(head_layers(self.objective)))
