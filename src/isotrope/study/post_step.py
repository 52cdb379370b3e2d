"""A step behind a cell's model, such as whitening, fitted on the sentences that the cell was trained on."""

from __future__ import annotations

from collections.abc import Sequence

from isotrope.errors import UserError
from isotrope.post.fitted import TARGET, PostStep
from isotrope.post.names import post_step
from isotrope.post.sif import Sif
from isotrope.store.cache import cache_folder
from isotrope.text.cleaning import Cleaning
from isotrope.text.corpus import open_corpus
from isotrope.text.sample import Sample
from isotrope.types import Encoder

MOST = 20_000  # sentences: a covariance of 768 channels changes little after that


def check_post_step(then: str) -> None:
    """Check that a row's ``then`` can be fitted on the row's own sentences.

    Raises:
        UserError: an unknown step, option or value; a step that names other sentences, or weighs words.
    """
    if then:
        _step(then)


def with_post_step(
    encoder: Encoder,
    then: str,
    corpus: Sequence[str],
    sentences: int | None,
    seed: int,
    split: str | None = None,
    cleaning: Cleaning | None = None,
) -> Encoder:
    """``encoder`` with the step ``then`` after it, fitted on the sentences that this seed trains on.

    An empty ``then`` leaves the encoder as it is.
    """
    if not then:
        return encoder
    cleaned = open_corpus(list(corpus), cache=cache_folder("corpora"), split=split, cleaning=cleaning)
    return _step(then).behind(encoder).fit(Sample(cleaned, sentences, seed).texts(MOST))


def _step(then: str) -> PostStep:
    step = post_step(then, f"then = {then!r}")
    if isinstance(step, Sif) or step.fit != TARGET or step.sentences is not None:
        remedy = "write whitening, whitening:k=… or flow"
        raise UserError(f"then = {then!r} is not fitted on the row's own sentences", remedy)
    return step
