"""The texts that a student is not trained on, because they judge it."""

from dataclasses import dataclass

import numpy as np

from isotrope.text import TextSource
from isotrope.text.corpus import Document
from isotrope.text.sample import Sample

MOST = 2000  # texts that judge, or a fifth of all


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Texts that judge, and what `isotrope.train` is given so that it leaves them out."""

    judging: list[Document]
    held_out: int  # documents
    max_texts: int | None


def hold_out(source: TextSource, of_documents: bool, max_texts: int | None, seed: int) -> HeldOut:
    """Choose a fifth of the texts, 2,000 at most, to judge; ``max_texts`` are trained on at most.

    ``of_documents`` holds whole documents out.
    """
    if of_documents:
        documents = source.documents()
        count = min(MOST, len(documents) // 5)
        _, judging_rows = documents.split(count, seed)
        return HeldOut(list(documents.each(judging_rows)), count, max_texts)

    corpus = source.texts()
    most_trained = len(corpus) - min(MOST, len(corpus) // 5)
    trained_count = min(max_texts or most_trained, most_trained)
    trained = Sample(corpus, trained_count, seed).rows
    rows = np.arange(len(corpus))
    left = rows if trained is None else np.setdiff1d(rows, trained)

    # Evenly spread over what is left.
    places = np.linspace(0, len(left) - 1, min(len(left), MOST)).astype(np.int64)
    judging = [Document("", [text]) for text in corpus.texts(left[places])]
    return HeldOut(judging, 0, trained_count)
