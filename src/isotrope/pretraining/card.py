"""The model card: what the encoder is, how it came about, and what it is not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isotrope.evaluation.geometry import mean_cosine
from isotrope.pretraining.masking import within_sentences
from isotrope.pretraining.prepare import START
from isotrope.pretraining.stream import Ids
from isotrope.store.atomic import write_text
from isotrope.training.environment import environment

BLOCKS = 64  # whose sentences the mean cosine is taken over


@torch.no_grad()
def sentence_sums(encoder: Any, blocks: Ids) -> np.ndarray[Any, Any]:
    """The sums of the token states of each sentence in blocks (B, L): (S, D). A sum has the direction of the mean."""
    encoder.eval()
    ids = torch.from_numpy(blocks.astype(np.int64)).to(encoder.device)
    begins = ids == START
    begins[:, 0] = True
    sentence = begins.flatten().cumsum(0).view_as(ids) - 1  # (B, L): the number of each token's sentence
    inside = within_sentences(sentence, encoder.config._attn_implementation)  # (B, 1, L, L)
    hidden = encoder(input_ids=ids, attention_mask=inside).last_hidden_state  # (B, L, D)
    sums = hidden.new_zeros(int(sentence.max()) + 1, hidden.shape[-1])
    return np.asarray(sums.index_add_(0, sentence.flatten(), hidden.flatten(0, 1)).double().cpu())


def write_card(folder: Path, encoder: Any, held_out: Ids, run: Mapping[str, Any]) -> None:
    """Write README.md beside the weights.

    Args:
        folder: of the weights.
        encoder: gives the mean cosine of the sentences in ``held_out`` (H, L).
        held_out: blocks of text.
        run: the run's identity, with size, files, tokens, held_out_loss, seconds and licence.
    """
    recipe, files, machine = run["recipe"], run["files"], environment()
    cosine = mean_cosine(sentence_sums(encoder, held_out[:BLOCKS]))
    hardware = ", ".join(machine["gpus"]) or f"{machine['threads']} cores of a CPU"
    start = "warm, from factorised co-occurrences of the same text" if run["warm_start"] else "cold, random"
    facts = {
        "architecture": f"ModernBERT kind: {recipe['layers']} layers, width {recipe['width']}, {recipe['heads']} heads",
        "objective": f"masked-language modelling, {recipe['mask']:.0%} of the tokens predicted",
        "token embeddings": start,
        "text": ", ".join(files) if len(files) < 4 else f"{files[0]} … {files[-1]} ({len(files)} files)",
        "licence of the text": run["licence"],
        "tokens seen": f"{run['tokens']:,}",
        "held-out loss": f"{run['held_out_loss']:.3f} nats a predicted token",
        "mean cosine of two sentences (anisotropy)": f"{cosine:.3f}, mean pooling",
        "hardware": f"{hardware}, {run['seconds'] / 3600:.1f} hours",
        "seed": run["seed"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    options = f"--size {run['size']} --seed {run['seed']} --tokens {run['tokens']}"
    options += "" if run["warm_start"] else " --cold-start"
    write_text(
        folder / "README.md",
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
    )
