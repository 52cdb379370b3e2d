"""What a cell is judged as: its model, with a step such as whitening behind it.

The step is fitted on the sentences that the row has, or with ``fit=target`` on those of each evaluation.
"""

from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.evaluation.models import RememberingEncoder
from isotrope.post.fitted import TARGET, FittedEncoder, PostStep
from isotrope.post.names import post_step
from isotrope.post.sif import Sif
from isotrope.text import Opened
from isotrope.text.sample import Sample
from isotrope.types import Encoder

MOST = 20_000  # sentences: a covariance of 768 channels changes little after that


def row_step(then: str, words: bool = True) -> PostStep | None:
    """The step that a row's ``then`` names, if it can stand behind the row's model; ``words``: behind word vectors."""
    if not then:
        return None
    step = post_step(then, f"then = {then!r}")
    if step.fit != TARGET or step.sentences is not None or (isinstance(step, Sif) and not words):
        remedy = "write whitening or flow, fitted on the row's sentences or with fit=target; sif if vectors = true"
        raise UserError(f"then = {then!r} is not possible", remedy)
    return step


def with_post_step(encoder: Encoder, then: str, corpus: Opened, sentences: int | None, seed: int) -> Encoder:
    """``encoder`` with the step ``then`` after it, which encodes no sentence twice.

    Without ``fit=target``, the step is fitted on the sentences that this seed trains on. An empty ``then`` is no step.
    """
    if (step := row_step(then)) is None:
        return RememberingEncoder(encoder)
    if "fit" in step.model_fields_set:  # the step wants the target whole
        return step.behind(encoder if isinstance(encoder, WordVectors) else RememberingEncoder(encoder))
    return RememberingEncoder(step.behind(encoder).fit(Sample(corpus.texts(), sentences, seed).texts(MOST)))


def fresh(encoder: Encoder) -> Encoder:
    """What `with_post_step` gave, with no vector remembered."""
    if isinstance(encoder, FittedEncoder):
        return encoder.step.behind(fresh(encoder.base))
    return encoder.fresh() if isinstance(encoder, RememberingEncoder) else encoder
