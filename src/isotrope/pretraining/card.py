"""The model card: what the encoder is, how it came about, and what it is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isotrope.pretraining.masking import within_sentences
from isotrope.pretraining.stream import Ids
from isotrope.run.environment import environment


@torch.no_grad()
def mean_cosine(encoder: Any, blocks: Ids, sentence_start: int) -> float:
    """Mean cosine between the mean-pooled embeddings of different sentences in blocks (B, L): 0 would be isotropic."""
    encoder.eval()
    ids = torch.from_numpy(blocks.astype(np.int64)).to(encoder.device)
    begins = ids == sentence_start
    begins[:, 0] = True
    sentence = begins.flatten().cumsum(0).view_as(ids) - 1  # (B, L): the number of each token's sentence
    inside = within_sentences(sentence, encoder.config._attn_implementation)  # (B, 1, L, L)
    hidden = encoder(input_ids=ids, attention_mask=inside).last_hidden_state  # (B, L, D)
    sums = hidden.new_zeros(int(sentence.max()) + 1, hidden.shape[-1])
    sums.index_add_(0, sentence.flatten(), hidden.flatten(0, 1))
    unit = torch.nn.functional.normalize(sums.double(), dim=1)  # a mean and a sum have the same direction
    count = len(unit)
    return float((unit.sum(0).square().sum() - count) / (count * (count - 1)))


def write_card(folder: Path, curve: Path, settings: dict[str, Any], cosine: float, licence: str) -> None:
    """Write README.md beside the weights, from the run's settings and its curve (metrics.jsonl)."""
    points = [json.loads(line) for line in curve.read_text().splitlines()]
    recipe, last, machine = settings["recipe"], points[-1], environment()
    hours = sum(
        (point["tokens"] - before["tokens"]) / max(point["tokens_per_second"], 1) / 3600
        for before, point in zip([{"tokens": 0}, *points], points, strict=False)
    )
    files = [name for name, _ in settings["corpus"]]
    corpus = ", ".join(files) if len(files) < 4 else f"{files[0]} … {files[-1]} ({len(files)} files)"
    hardware = ", ".join(machine["gpus"]) or f"{machine['threads']} cores of a CPU"
    start = "warm, from factorised co-occurrences of the same text" if settings["warm_start"] else "cold, random"
    facts = {
        "architecture": f"ModernBERT kind: {recipe['layers']} layers, width {recipe['width']}, {recipe['heads']} heads",
        "objective": f"masked-language modelling, {recipe['mask']:.0%} of the tokens predicted",
        "token embeddings": start,
        "text": corpus,
        "licence of the text": licence,
        "tokens seen": f"{last['tokens']:,}",
        "held-out loss": f"{last['held_out_loss']:.3f} nats a predicted token",
        "mean cosine of two sentences (anisotropy)": f"{cosine:.3f}, mean pooling",
        "hardware": f"{hardware}, {hours:.1f} hours",
        "seed": settings["seed"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    options = f"--size {settings['size']} --seed {settings['seed']} --tokens {last['tokens']}"
    options += "" if settings["warm_start"] else " --cold-start"
    (folder / "README.md").write_text(
        f"""---
library_name: transformers
tags: [isotrope, masked-lm]
---
# A small raw language model

Made by `isotrope pretrain CORPUS... {options} --output DIR` (isotrope {machine["packages"]["isotrope"]}).

| | |
|---|---|
{table}

The full recipe:

```json
{json.dumps(recipe, indent=1)}
```

**What it is not.** It has seen no sentence pairs, no labels and no other model: it is where the training of a sentence
encoder begins (`isotrope train`), not one itself. It knows the words of its text alone, and it is small: expect neither
facts nor reasoning from it. It carries the biases of its text.
""",
        encoding="utf-8",
    )
