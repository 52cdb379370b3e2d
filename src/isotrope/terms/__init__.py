"""Terms: Scores → one summand of the loss."""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
