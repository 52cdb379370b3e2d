"""Teachers: embeddings without gradient for the rows of a batch.

A component of this stage is a teacher's settings. Its ``build(context)`` gives the teacher itself,
row ids (N,) -> (N, T). It is long where the corpus is encoded once, unless that is in the cache.
"""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.teachers.bm25 import Bm25 as Bm25
    from isotrope.teachers.mixture import Mixture as Mixture
    from isotrope.teachers.model import Cached as Cached
    from isotrope.teachers.model import Initial as Initial
    from isotrope.teachers.model import Live as Live

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Bm25": "bm25",
    "Mixture": "mixture",
    "Cached": "model",
    "Live": "model",
    "Initial": "model",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
