"""Score steps: Scores → Scores, with further candidates or without some."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.scores.hard_negatives import HardNegatives as HardNegatives
    from isotrope.scores.hard_negatives import Positives as Positives
    from isotrope.scores.instance_weight import InstanceWeight as InstanceWeight
    from isotrope.scores.key_queue import KeyQueue as KeyQueue
    from isotrope.scores.mixed import Mixed as Mixed
    from isotrope.scores.noise import Noise as Noise

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "HardNegatives": "hard_negatives",
    "Positives": "hard_negatives",
    "InstanceWeight": "instance_weight",
    "KeyQueue": "key_queue",
    "Mixed": "mixed",
    "Noise": "noise",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
