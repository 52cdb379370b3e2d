"""What the released code does where it departs from its paper: a file for each paper, a class for
each departure.

A preset names one by ``kind = "released.NAME"``, in the stage that the class declares.
"""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.released.dclr import AgainstBatch as AgainstBatch
    from isotrope.released.dclr import NoMask as NoMask
    from isotrope.released.dclr import SoftmaxBCE as SoftmaxBCE
    from isotrope.released.dclr import ZeroLogit as ZeroLogit
    from isotrope.released.rankcse import Clamped as Clamped
    from isotrope.released.rankcse import Floored as Floored
    from isotrope.released.whitenedcse import Detach as Detach

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "NoMask": "dclr",
    "AgainstBatch": "dclr",
    "ZeroLogit": "dclr",
    "SoftmaxBCE": "dclr",
    "Clamped": "rankcse",
    "Floored": "rankcse",
    "Detach": "whitenedcse",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
