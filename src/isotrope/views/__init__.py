"""View steps: Views → Views, before embeddings are compared."""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
