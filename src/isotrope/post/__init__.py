"""Post steps: vectors → vectors, fitted once on text without labels."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.post.fitted import FittedEncoder as FittedEncoder
    from isotrope.post.fitted import LinearStep as LinearStep
    from isotrope.post.fitted import PostStep as PostStep
    from isotrope.post.flow import Flow as Flow
    from isotrope.post.ranks import Ranks as Ranks
    from isotrope.post.whitening import Whitening as Whitening

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "PostStep": "fitted",
    "LinearStep": "fitted",
    "FittedEncoder": "fitted",
    "Flow": "flow",
    "Ranks": "ranks",
    "Whitening": "whitening",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
