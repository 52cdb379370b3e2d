"""Teachers: embeddings without gradient for the rows of a batch.

A component of this stage is a teacher's settings; ``build(context)`` gives the teacher itself, before training begins:

    settings = component("teachers", "mixture", models=["a", "b"], weights=[1, 2])
    teacher = settings.build(BuildContext.of(model, corpus=corpus))
    objective = Objective(model, terms, teachers={"rank": teacher})
"""

from isotrope.contract.exports import exports

__getattr__, __dir__ = exports(__name__, __path__)
