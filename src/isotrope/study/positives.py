"""How far apart the positives of a row lie, in its model: WhitenedCSE's Figure 1d."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from isotrope.encoder import load
from isotrope.encoder.prompts import used_prompt
from isotrope.evaluation.geometry import diversity
from isotrope.preset.preset import build_objective, read_preset
from isotrope.study.cell import Cell
from isotrope.text.sample import Sample
from isotrope.views.mlp import MLP

BATCHES = 8


def positives_scores(cell: Cell, model: str) -> dict[str, float]:
    """Two diversities: of the views as the encoder gives them, and as they enter the head, so after whitening.

    The views are those of the row's preset in training, with its dropout and token steps, on `BATCHES` batches of the
    row's sentences. A row with a step behind its model has the views of the row without; it gets {}. So do word vectors
    and outside losses, which have no views. With one pass, the encoder gives one view, which has no diversity.

    Args:
        cell: of the row.
        model: folder or name of its model.
    """
    recipe = read_preset(cell.preset, cell.overrides)
    if cell.then or recipe.loss or Path(model).is_file():
        return {}
    recipe = recipe.model_copy(update={"scores": {}, "terms": {"infonce": {}}, "teachers": {}})
    how, size = recipe.encoder, recipe.train.batch_size
    student = load(
        model, how.pooling, dropout=how.dropout, normalize=how.normalize, prompt=how.prompt, prompt_name=how.prompt_name
    )
    torch.manual_seed(cell.seed)
    objective = build_objective(recipe, student, cell.seed).train()
    texts = Sample(cell.corpus.texts(), cell.sentences, cell.seed).texts(BATCHES * size)
    found: dict[str, list[float]] = {"feature diversity": [], "diversity": []}
    for number in range(len(texts) // size):
        objective.step = number  # the shuffles of that step
        batch = texts[number * size : (number + 1) * size]
        features = student.preprocess(batch, prompt=used_prompt(student) or None, max_length=recipe.train.max_length)
        column = {k: v.to(student.device) if isinstance(v, Tensor) else v for k, v in features.items()}
        with torch.no_grad():
            views = objective.encode([column], None)
            if len(views.stack) > 1:
                found["feature diversity"].append(diversity(list(views.stack)))
            for step in objective.views:
                views = views if isinstance(step, MLP) else step(views)
        found["diversity"].append(diversity(list(views.stack)))
    return {name: sum(each) / len(each) for name, each in found.items() if each}
