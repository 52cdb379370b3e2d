"""View steps: Views → Views, before embeddings are compared."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.views.branches import Branches as Branches
    from isotrope.views.denoised import Denoised as Denoised
    from isotrope.views.denoised import MeanPositive as MeanPositive
    from isotrope.views.mlp import MLP as MLP
    from isotrope.views.projector import Projector as Projector
    from isotrope.views.sgw import SGW as SGW

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Branches": "branches",
    "Denoised": "denoised",
    "MeanPositive": "denoised",
    "MLP": "mlp",
    "Projector": "projector",
    "SGW": "sgw",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
