"""Score steps: Scores → Scores, with further candidates or without some."""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
