"""Token steps: the token ids of one pass → the same, changed."""

from typing import TYPE_CHECKING

from isotrope.contract.exports import lazy_exports

if TYPE_CHECKING:
    from isotrope.tokens.cutoff import Cutoff as Cutoff
    from isotrope.tokens.cutoff import LayerCutoff as LayerCutoff
    from isotrope.tokens.hide import Hide as Hide
    from isotrope.tokens.hide import Phrase as Phrase
    from isotrope.tokens.negate import Negate as Negate
    from isotrope.tokens.repeat import Delete as Delete
    from isotrope.tokens.repeat import Insert as Insert
    from isotrope.tokens.repeat import Repeat as Repeat
    from isotrope.tokens.shuffle import PositionShuffle as PositionShuffle
    from isotrope.tokens.shuffle import Reverse as Reverse
    from isotrope.tokens.shuffle import Shuffle as Shuffle
    from isotrope.tokens.template import Template as Template

# Class -> its module; imported when it is first used, so that names do not wait for torch.
COMPONENTS = {
    "Cutoff": "cutoff",
    "LayerCutoff": "cutoff",
    "Hide": "hide",
    "Phrase": "hide",
    "Negate": "negate",
    "Repeat": "repeat",
    "Delete": "repeat",
    "Insert": "repeat",
    "Shuffle": "shuffle",
    "PositionShuffle": "shuffle",
    "Reverse": "shuffle",
    "Template": "template",
}
__getattr__, __dir__ = lazy_exports(__name__, COMPONENTS)
