"""Token steps: the token ids of one pass → the same, changed."""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
