"""What the released code does where it departs from its paper: one component a file, each a variant of the paper's.

A preset names one by ``kind = "released.NAME"``, in the stage that the class declares.
"""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
