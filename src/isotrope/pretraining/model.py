"""The encoder: its masked-language head and first embeddings, its folder in Hugging Face format,
and its card.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

from isotrope.encoder.export import for_transformers_4
from isotrope.evaluation.geometry import mean_cosine
from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.text import SPECIAL, START, Array, Ids
from isotrope.pretraining.trainer import within_sentences
from isotrope.store.atomic import write_json, write_text
from isotrope.training.processes import environment

BLOCKS = 64  # whose sentences the mean cosine is taken over


def build_model(recipe: Recipe, tokenizer: Any, seed: int) -> Any:
    """A fresh encoder with a head that computes logits at the predicted places alone."""
    torch.manual_seed(seed)
    # On a CPU the plain attention, compiled, is faster at these lengths: 10,200 tokens a second and
    # core, not 6,000.
    attention = "sdpa" if torch.cuda.is_available() else "eager"
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in SPECIAL.items()}
    rope = {"rope_type": "default", "rope_theta": 10_000.0}
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.width,
        intermediate_size=recipe.inner,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        layer_types=["full_attention"] * recipe.layers,
        max_position_embeddings=recipe.max_positions,
        pad_token_id=ids["pad"],
        cls_token_id=ids["cls"],
        bos_token_id=ids["cls"],
        sep_token_id=ids["sep"],
        eos_token_id=ids["sep"],
        rope_parameters={"full_attention": rope, "sliding_attention": dict(rope)},
        sparse_prediction=True,
        attn_implementation=attention,
    )
    return ModernBertForMaskedLM(config)


def begin_from(
    model: Any, embeddings: Array | None, counts: np.ndarray[Any, np.dtype[np.int64]]
) -> None:
    """Put token embeddings (V, D) in place, and each token's log frequency, from counts (V,), as
    the decoder's bias.

    The bias spares the first steps the learning of how frequent each token is.
    """
    with torch.no_grad():
        if embeddings is not None:
            model.model.embeddings.tok_embeddings.weight.copy_(torch.from_numpy(embeddings))
        share = (counts + 1) / (counts + 1).sum()
        model.decoder.bias.copy_(torch.from_numpy(np.log(share)))


def write_encoder(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the encoder without its masked-language head, and the tokenizer, into a new folder.

    The weights are stored in fp16, and the config says float32, so that they are loaded in that:
    training and CPU arithmetic in fp16 would lose precision.
    """
    encoder = type(model.model)(model.config)
    encoder.load_state_dict(model.model.state_dict())
    encoder.config.sparse_prediction = False
    encoder.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, values in (
        (
            "config.json",
            {"dtype": "float32", **(for_transformers_4(encoder.config.to_dict()) or {})},
        ),
        # which every version knows
        ("tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"}),
    ):
        settings = json.loads((folder / name).read_text(encoding="utf-8")) | values
        for own in ("is_local", "local_files_only"):  # true of this machine alone
            settings.pop(own, None)
        write_json(folder / name, settings)


@torch.no_grad()
def sentence_sums(encoder: Any, blocks: Ids) -> np.ndarray[Any, Any]:
    """The sums of the token states of each sentence in blocks (B, L): (S, D). A sum has the
    direction of the mean.
    """
    encoder.eval()
    ids = torch.from_numpy(blocks.astype(np.int64)).to(encoder.device)
    begins = ids == START
    begins[:, 0] = True
    # (B, L): the number of each token's sentence
    sentence = begins.flatten().cumsum(0).view_as(ids) - 1
    inside = within_sentences(sentence)  # (B, 1, L, L)
    hidden = encoder(input_ids=ids, attention_mask=inside).last_hidden_state  # (B, L, D)
    sums = hidden.new_zeros(int(sentence.max()) + 1, hidden.shape[-1])
    return np.asarray(sums.index_add_(0, sentence.flatten(), hidden.flatten(0, 1)).double().cpu())


def write_card(folder: Path, encoder: Any, held_out: Ids, run: Mapping[str, Any]) -> None:
    """Write README.md beside the weights. ``held_out`` (H, L) gives the mean cosine of two
    sentences.

    ``run`` is the run's identity, with size, files, tokens, held_out_loss, seconds and licence.
    """
    recipe, files, machine = run["recipe"], run["files"], environment()
    cosine = mean_cosine(sentence_sums(encoder, held_out[:BLOCKS]))
    hardware = ", ".join(machine["gpus"]) or f"{machine['threads']} cores of a CPU"
    warm = "warm, from factorised co-occurrences of the same text"
    facts = {
        "architecture": f"ModernBERT kind: {recipe['layers']} layers, width {recipe['width']}, {recipe['heads']} heads",
        "objective": f"masked-language modelling, {recipe['mask']:.0%} of the tokens predicted",
        "token embeddings": warm if run["warm_start"] else "cold, random",
        "text": ", ".join(files)
        if len(files) < 4
        else f"{files[0]} … {files[-1]} ({len(files)} files)",
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
