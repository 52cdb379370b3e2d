"""Whiten a model for good: BERT-whitening as its last layer, in plain sentence-transformers format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from isotrope.encoder import load, save
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.pooling import Dense
from isotrope.errors import UserError
from isotrope.post.whitening import whitening as equation
from isotrope.store.atomic import check_replaceable
from isotrope.store.cache import cache_folder
from isotrope.store.disk import writing
from isotrope.text.corpus import open_corpus
from isotrope.text.sample import Sample


def whiten(
    model: str | Path,
    corpus: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    k: int | None = None,
    sentences: int = 20_000,
    seed: int = 0,
    text: str | None = None,
    split: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
) -> Path:
    """Fit BERT-whitening on sentences without labels, and save the model with it as a linear layer (D, K).

    It spreads a raw or contrastively trained model's vectors evenly; a model from many labelled pairs has that already,
    and may lose by it: `isotrope evaluate OLD NEW --compare` tells. Su et al., 2021, https://arxiv.org/abs/2103.15316.

    Args:
        model: as `isotrope.load` takes it.
        corpus: text files or folders, as `isotrope.train` takes them.
        output: the new model's folder; loads in plain sentence-transformers.
        k: dimensions kept, of the largest variance; None: all that have any.
        sentences: at most so many are sampled; more than D are needed.
        seed: of the sample.
        text: the sentences' column, in tables.
        split: "sentences" fits on the sentences of the texts: see `isotrope.text.split.language_of`.
        pooling: as `isotrope.load` takes it, and so are the next two.
        prompt: words before every text, in the fit and in the new model.
        prompt_name: the same, by its name in the model.

    Returns:
        ``output``.

    Raises:
        UserError: no such model or text, too few sentences for so many dimensions, an output that holds something.
    """
    folder = Path(output)
    if folder.is_dir() and any(folder.iterdir()):
        raise UserError(f"{folder} holds something already", "choose a new folder")
    check_replaceable(folder, "model")
    encoder = load(model, pooling, prompt=prompt, prompt_name=prompt_name)
    cleaned = open_corpus(
        [corpus] if isinstance(corpus, str | Path) else corpus, cache=cache_folder("corpora"), text=text, split=split
    )
    with writing(folder.parent, again="run the same command again"):
        vectors = np.asarray(
            vectors_of(encoder, Sample(cleaned, None, seed).texts(sentences)), dtype=np.float64
        )  # (N, D)
        encoder.append(_layer(*equation(vectors, k)).to(encoder.device))
        save(encoder, folder)
    return folder


def _layer(mean: np.ndarray, matrix: np.ndarray) -> nn.Module:
    """(x − μ) W for μ (D,) and W (D, K), as x W + b."""
    layer: nn.Module = Dense(*matrix.shape, activation_function=nn.Identity())
    state = {"weight": torch.from_numpy(matrix.T.copy()), "bias": torch.from_numpy(-mean @ matrix)}
    layer.get_submodule("linear").load_state_dict(state)
    return layer
