"""Post steps: vectors → vectors, fitted once on text without labels."""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
