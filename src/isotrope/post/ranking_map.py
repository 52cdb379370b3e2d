"""A learned map of vectors: queries move until they rank the documents as a better ranking does.

RankCSE's ListNet (Liu et al., ACL 2023, Eq. 4, https://aclanthology.org/2023.acl-long.771) on vectors that are computed
once. The lists come from `isotrope.evaluation.retrieval`. Training takes seconds, and no label and no encoder.
"""

from copy import copy
from itertools import chain

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
from isotrope.post.fitted import with_linear
from isotrope.terms.listnet import listnet
from isotrope.types import Matrix

TEACHER_TEMPERATURE = 0.05  # of scores from 0 to 1
_SCALE = 20.0  # of the student's cosines at first; it is learned
_RATE, _DECAY, _EPOCHS, _BATCH = 3e-4, 0.01, 5, 64


def mapped(vectors: Tensor, matrix: Tensor) -> Tensor:
    """Add xW to x and give it unit length: (…, D), (D, D) → (…, D). With W = 0, the directions stay as they are."""
    return F.normalize(vectors + vectors @ matrix, dim=-1)


def ranking_loss(
    queries: Tensor,  # (B, D) unit rows
    documents: Tensor,  # (B, K, D) unit rows: what each query ranks
    teacher: Tensor,  # (B, K) scores from 0 to 1
    scale: Tensor | float,
) -> Tensor:
    """ListNet (RankCSE Eq. 4) between scale · cos(q, d) and the teacher's scores, mean over queries -> ()."""
    cosines = (documents @ queries[:, :, None])[..., 0]  # (B, K)
    return listnet(scale * cosines, teacher, 1.0, TEACHER_TEMPERATURE, drop_positive=False)


def map_loss(
    queries: Tensor, documents: Tensor, teacher: Tensor, matrix: Tensor, scale: Tensor, both: bool
) -> Tensor:  # fmt: skip
    """`ranking_loss` of queries q + qW, for W (D, D). With ``both``, a document d is mapped to d + dW too."""
    return ranking_loss(mapped(queries, matrix), mapped(documents, matrix) if both else documents, teacher, scale)


def ranking_map(
    queries: npt.NDArray[np.floating],  # (Q, D)
    documents: npt.NDArray[np.floating],  # (M, D)
    lists: npt.NDArray[np.integer],  # (Q, K): which documents each query ranks
    teacher: npt.NDArray[np.floating],  # (Q, K): their scores, from 0 to 1
    *,
    both: bool = False,
    seed: int = 0,
) -> Matrix:
    """W (D, D) that minimises `map_loss` over all queries, and begins at zero; the scale of the cosines is learned too.

    The vectors need no unit length. Lists and scores are what `isotrope.evaluation.retrieval` gives. A query's own
    document should not be in its list: it would teach to find words. ``both`` maps the documents too, and ``seed`` is
    that of the order of the queries.
    """
    q, d = (F.normalize(torch.from_numpy(np.asarray(rows, dtype=np.float32)), dim=-1) for rows in (queries, documents))
    ids, scores = torch.from_numpy(lists), torch.from_numpy(np.asarray(teacher, dtype=np.float32))
    matrix = torch.zeros(q.shape[1], q.shape[1], requires_grad=True)
    log_scale = torch.tensor(np.log(_SCALE), dtype=torch.float32, requires_grad=True)
    groups = [{"params": [matrix], "weight_decay": _DECAY}, {"params": [log_scale], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=_RATE)
    generator = torch.Generator().manual_seed(seed)
    orders = (torch.randperm(len(q), generator=generator) for _ in range(_EPOCHS))
    for rows in chain.from_iterable(torch.split(order, _BATCH) for order in orders):
        loss = map_loss(q[rows], d[ids[rows]], scores[rows], matrix, log_scale.exp(), both)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return matrix.detach().double().numpy()


def with_map(encoder: SentenceTransformer, matrix: Matrix, *, both: bool = False) -> SentenceTransformer:
    """The model with x + xW as its last layer, in plain sentence-transformers format. The given model stays as it is.

    With ``both``, all texts are mapped. Else only queries are, by a route that ``encode_query`` takes. Documents, and
    texts that `encode` takes without a word, keep their vectors to the last bit, so that nobody has to index again.

    The two models share their modules. W (D, D) is what `ranking_map` gives for the vectors of the first.
    A model with routes of its own cannot get another one for queries.
    """
    layer = np.eye(len(matrix)) + matrix
    if both:
        return with_linear(encoder, np.zeros(len(matrix)), layer)
    shared, last = list(encoder), Dropout(0.0)  # which changes nothing: a route needs a module
    if isinstance(encoder[-1], Normalize):
        shared, last = shared[:-1], Normalize()  # unit length again after unit length would change the last bit
    uncut = copy(encoder)
    uncut.truncate_dim = None
    beyond = int(uncut.get_embedding_dimension() or 0) - len(matrix)  # what the model cuts, after its routes
    layer = np.pad(layer, (0, beyond))
    moved = dense(torch.from_numpy(layer.T.copy()), torch.zeros(len(layer)))  # (D, D)
    return with_query_route(encoder, [last, moved, last], [last], shared)
