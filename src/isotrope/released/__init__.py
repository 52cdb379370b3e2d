"""What the released code does where it departs from its paper: a file for each paper, a class for
each departure.

A preset names one by ``kind = "released.NAME"``, in the stage that the class declares.
"""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
