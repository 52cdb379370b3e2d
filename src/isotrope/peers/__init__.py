"""Second encoders: they read some of the passes in the student's place, are saved with the run, and
then left out.
"""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.peers.layers import Layers as Layers
    from isotrope.peers.moving_average import MovingAverage as MovingAverage
    from isotrope.peers.moving_average import Trained as Trained

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Layers": "layers",
    "Trained": "moving_average",
    "MovingAverage": "moving_average",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
