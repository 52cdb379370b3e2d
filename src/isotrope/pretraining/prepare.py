"""What is made of the text before training, each part once: the tokenizer, the token ids, the word vectors.

Each part is a folder with checksums. A damaged one is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from transformers import AutoTokenizer

from isotrope.console.progress import watch
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe
from isotrope.pretraining.stream import Ids, blocks_of, sentences, write_ids
from isotrope.pretraining.tokenizer import SPECIAL, train_tokenizer
from isotrope.pretraining.vectors import Array, warm_embeddings
from isotrope.store.cache import cached
from isotrope.text.files import TextFile

START = list(SPECIAL).index("cls")  # id of the token that begins a sentence


def prepare_tokenizer(folder: Path, sources: Sequence[TextFile], recipe: Recipe, console: Console) -> Any:
    """The tokenizer that is learnt from the text."""

    def make(draft: Path) -> None:
        console.print("learning a vocabulary")
        with watch("learning a vocabulary", console):
            tokenizer = train_tokenizer(sentences(sources), recipe.vocabulary, recipe.max_positions)
        tokenizer.save_pretrained(draft)

    return AutoTokenizer.from_pretrained(cached(folder, make))


def prepare_blocks(
    folder: Path,
    sources: Sequence[TextFile],
    held: Sequence[TextFile],
    tokenizer: Any,
    recipe: Recipe,
    console: Console,
) -> tuple[Ids, Ids]:
    """Blocks to train on (B, L), and held-out ones (H, L): of ``held``, or else the corpus's last ones.

    Raises:
        UserError: there is too little text.
    """

    def make(draft: Path) -> None:
        write_ids(sources, tokenizer, draft / "tokens.bin", console)
        if held:
            write_ids(held, tokenizer, draft / "held_out.bin", console)

    blocks = blocks_of(cached(folder, make) / "tokens.bin", recipe.block)
    if held:
        unseen = blocks_of(folder / "held_out.bin", recipe.block)[: recipe.held_out_blocks]
    else:
        seen = len(blocks) - min(recipe.held_out_blocks, len(blocks) // 10)
        blocks, unseen = blocks[:seen], blocks[seen:]
    if not len(blocks) or not len(unseen):
        names = ", ".join(str(source.path) for source in [*sources, *held])
        raise UserError(f"{names}: too little text", f"give more than {10 * recipe.block} tokens of it")
    return blocks, unseen


def prepare_vectors(folder: Path, blocks: Ids, cold: Array, recipe: Recipe, seed: int, console: Console) -> Array:
    """Token embeddings (V, D) to begin from: `warm_embeddings` of blocks (B, L) and of random ones, ``cold`` (V, D).

    Raises:
        UserError: the text has fewer different tokens than the embeddings have dimensions.
    """
    if len(cold) < cold.shape[1]:
        problem = f"the text has {len(cold)} different tokens, too few for word vectors of width {cold.shape[1]}"
        raise UserError(problem, "give more text, or a cold start")

    def make(draft: Path) -> None:
        console.print("factorising the co-occurrences")
        row = blocks.reshape(-1)  # (T,)
        with watch("factorising the co-occurrences", console):
            found = warm_embeddings(row, cold, START, len(SPECIAL), recipe.window, recipe.vector_scale, seed)
        np.save(draft / "vectors.npy", found)

    vectors: Array = np.load(cached(folder, make) / "vectors.npy")
    return vectors
