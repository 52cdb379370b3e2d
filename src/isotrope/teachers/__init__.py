"""Teachers: embeddings without gradient for the rows of a batch.

A component of this stage is a teacher's settings. Its ``build(context)`` gives the teacher itself,
row ids (N,) -> (N, T). It is long where the corpus is encoded once, unless that is in the cache.
"""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
