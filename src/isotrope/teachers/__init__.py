"""Teachers: embeddings without gradient for the rows of a batch.

A component of this stage is a teacher's settings; ``open(context)`` gives the teacher itself, before training begins:

    teacher = component("teachers", "mixture", models=["a", "b"], weights=[1, 2]).open(Context(corpus, model))
    objective = Objective(model, terms, teachers={"rank": teacher})
"""

from isotrope.teachers._context import Context

__all__ = ["Context"]
