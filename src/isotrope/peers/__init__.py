"""Second encoders: they read some of the passes in the student's place, are saved with the run, and
then left out.
"""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
