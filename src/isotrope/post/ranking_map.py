"""A learned map of vectors: queries move until they rank the documents as a better ranking does, by
RankCSE's ListNet.

The vectors are computed once: training takes seconds, no label and no encoder.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import Dropout
from torch import Tensor

from isotrope.encoder.pooling import dense
from isotrope.encoder.prompts import with_query_route
from isotrope.post.fitted import cut_dimensions
from isotrope.terms.listnet import listnet
from isotrope.types import Matrix

TEACHER_TEMPERATURE = 0.05  # of scores from 0 to 1
_SCALE = 20.0  # of the student's cosines at first; it is learned
_LEARNING_RATE = 3e-4
_WEIGHT_DECAY = 0.01
_EPOCHS = 5
_BATCH_SIZE = 64


def mapped(
    vectors: Tensor,  # x (…, D)
    matrix: Tensor,  # W (D, D)
) -> Tensor:
    """Add xW to x and give it unit length → (…, D). With W = 0, the directions stay as they are."""
    moved = vectors + vectors @ matrix
    return F.normalize(moved, dim=-1)


def ranking_loss(
    queries: Tensor,  # (B, D) unit rows
    documents: Tensor,  # (B, K, D) unit rows: what each query ranks
    teacher: Tensor,  # (B, K) scores from 0 to 1
    scale: Tensor | float,
) -> Tensor:
    """ListNet (RankCSE Eq. 4) between scale · cos(q, d) and the teacher's scores, mean over queries
    -> ().
    """
    columns = queries.unsqueeze(-1)  # (B, D, 1)
    cosines = (documents @ columns).squeeze(-1)  # (B, K)
    return listnet(scale * cosines, teacher, 1.0, TEACHER_TEMPERATURE, drop_positive=False)


def ranking_map(
    queries: npt.NDArray[np.floating],  # (Q, D)
    documents: npt.NDArray[np.floating],  # (M, D)
    lists: npt.NDArray[np.integer],  # (Q, K): which documents each query ranks
    teacher: npt.NDArray[np.floating],  # (Q, K): their scores, from 0 to 1
    *,
    both: bool = False,
    seed: int = 0,
) -> Matrix:
    """W (D, D), from zero, that minimises `ranking_loss` of queries q + qW; the scale of the
    cosines is learned too.

    With ``both``, a document d is mapped to d + dW. The vectors need no unit length. Lists and
    scores are what `isotrope.evaluation.retrieval` gives. A query's own document should not be in
    its list: it would teach to find words. ``seed`` is that of the order of the queries.
    """
    q = F.normalize(_single(queries), dim=-1)
    d = F.normalize(_single(documents), dim=-1)
    ids = torch.from_numpy(lists)
    scores = _single(teacher)

    dim = q.shape[1]
    matrix = torch.zeros(dim, dim, requires_grad=True)
    log_scale = torch.tensor(np.log(_SCALE), dtype=torch.float32, requires_grad=True)
    groups = [
        {"params": [matrix], "weight_decay": _WEIGHT_DECAY},
        {"params": [log_scale], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=_LEARNING_RATE)

    generator = torch.Generator().manual_seed(seed)
    for _ in range(_EPOCHS):
        order = torch.randperm(len(q), generator=generator)
        for rows in torch.split(order, _BATCH_SIZE):
            candidates = d[ids[rows]]  # (B, K, D)
            if both:
                candidates = mapped(candidates, matrix)
            mapped_queries = mapped(q[rows], matrix)
            loss = ranking_loss(mapped_queries, candidates, scores[rows], log_scale.exp())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return matrix.detach().double().numpy()


def _single(values: npt.NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.float32))


def with_map(encoder: SentenceTransformer, matrix: Matrix) -> SentenceTransformer:
    """The model with x + xW as the last layer of queries, for W (D, D) of `ranking_map`; the given
    one stays as it is.

    ``encode_query`` takes another route, which a model with routes of its own cannot get.
    Documents, and texts that ``encode`` takes without a word, keep their vectors to the last bit,
    so that nobody has to index again.
    """
    shared = list(encoder)
    last: Any = Dropout(0.0)  # which changes nothing: a route needs a module
    if isinstance(encoder[-1], Normalize):
        # Unit length again after unit length would change the last bit.
        shared = shared[:-1]
        last = Normalize()
    moving = np.eye(len(matrix)) + matrix  # x + xW
    beyond = cut_dimensions(encoder, len(matrix))  # it cuts after its routes
    moving = np.pad(moving, (0, beyond))
    weight = torch.from_numpy(moving.T.copy())
    layer = dense(weight, torch.zeros(len(weight)))
    return with_query_route(encoder, [last, layer, last], [last], shared)
