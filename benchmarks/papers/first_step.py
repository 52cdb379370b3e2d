"""The first step of SimCSE and of WhitenedCSE, in one pass and in a pass a view; prints JSON.

    python -m benchmarks.papers.first_step wiki/wiki_train_00.txt.xz [--output FILE.json]

The first 64 sentences of the text, on isotrope/tiny (two poolings) and isotrope/minilm, before any
training. ``loss`` is the loss a positive at τ = 0.05, and ``gradient`` the norm of the whole loss's
gradient at the encoder's weights. ``feature_diversity`` and ``diversity`` are those of the views
before and after whitening, ``disturbance`` is Eq. 11's: see `isotrope.evaluation.geometry`. All are
means over three draws of head, dropout and shuffles.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer

import isotrope
from benchmarks.timing import lines, show
from isotrope.evaluation.geometry import disturbance, diversity
from isotrope.preset.preset import Preset, build_objective, read_preset
from isotrope.views.sgw import SGW

SENTENCES, DRAWS = 64, 3
MODELS = ["isotrope/tiny@cls", "isotrope/tiny@first_last", "isotrope/minilm@cls"]
METHODS = {
    "SimCSE": ("simcse", []),
    "SimCSE, three passes": ("simcse", ["views.passes=3"]),
    "WhitenedCSE, one pass": ("whitenedcse", ["views.passes=1", "views.sgw.copies=3"]),
    "WhitenedCSE, a pass a view": ("whitenedcse", []),
}


def draw(
    student: SentenceTransformer, preset: Preset, texts: list[str], seed: int
) -> dict[str, float]:
    """One first step."""
    student.zero_grad()
    torch.manual_seed(seed)
    objective = build_objective(preset, student, seed).train()
    views = objective.encode([student.preprocess(texts, max_length=preset.train.max_length)], None)
    found = (
        {"feature_diversity": diversity(list(views.stack.detach()))} if len(views.stack) > 1 else {}
    )
    for step in objective.views:
        before, views = views.stack[0].detach(), step(views)
        if isinstance(step, SGW):
            after = views.stack.detach()
            found |= {
                "diversity": diversity(list(after)),
                "disturbance": disturbance(before, after[0]),
            }
    loss = objective.loss(views, objective.scores, objective.terms)["infonce"]
    loss.backward()  # type: ignore[no-untyped-call]
    norms = torch.stack(
        [weight.grad.norm() for weight in student.parameters() if weight.grad is not None]
    )
    return {"loss": loss.item() / (len(views.stack) - 1), "gradient": norms.norm().item(), **found}


def measure(model: str, method: str, texts: list[str]) -> dict[str, Any]:
    """Means over the draws."""
    name, settings = METHODS[method]
    student = isotrope.load(*model.split("@"), dropout=0.1, device="cpu")
    groups = student.get_embedding_dimension() // 2  # two channels a group
    preset = read_preset(
        name, [*settings, *([f"views.sgw.groups={groups}"] if name == "whitenedcse" else [])]
    )
    draws = [draw(student, preset, texts, seed) for seed in range(DRAWS)]
    means = {key: sum(each[key] for each in draws) / DRAWS for key in draws[0]}
    return {"model": model, "method": method} | {
        key: float(f"{value:.3g}") for key, value in means.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path, help="a file with a sentence a line")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    texts = lines(arguments.text, SENTENCES)
    found = [measure(model, method, texts) for model in MODELS for method in METHODS]
    show(
        {"text": arguments.text.name, "sentences": SENTENCES, "draws": DRAWS, "rows": found},
        arguments.output,
    )
