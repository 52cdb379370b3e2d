"""sentence-transformers' own trainer and losses, for the benchmarks that compare with them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from datasets import Dataset
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from torch import nn

from isotrope.encoder import save

DELETED_SHARE = 0.6  # of a text's words: TSDAE Sec. 3


def train_with_their_loss(
    model: SentenceTransformer,
    columns: dict[str, list[str]],
    make_loss: Callable[[SentenceTransformer], nn.Module],
    output: Path,
    *,
    batch_size: int,
    learning_rate: float,
    seed: int = 0,
    bf16: bool = False,
) -> Path:
    """Train ``model`` for one epoch with a loss of sentence-transformers -> the saved model."""
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(output / "work"),
        num_train_epochs=1,
        per_device_train_batch_size=batch_size,
        learning_rate=learning_rate,
        seed=seed,
        bf16=bf16,
        dataloader_drop_last=True,
        save_strategy="no",
        report_to="none",
        use_cpu=model.device.type == "cpu",
        disable_tqdm=True,
    )
    loss = make_loss(model)
    SentenceTransformerTrainer(model, arguments, Dataset.from_dict(columns), loss=loss).train()
    save(model, output / "model")
    return output / "model"


def denoising_columns(texts: list[str], seed: int = 0) -> dict[str, list[str]]:
    """The columns of DenoisingAutoEncoderLoss: each text without most of its words, and whole."""
    generator = np.random.default_rng(seed)
    return {"damaged": [delete_words(text, generator) for text in texts], "text": texts}


def delete_words(text: str, generator: np.random.Generator) -> str:
    """A text without about 60 % of its words. At least one word stays."""
    words = text.split()
    draws = generator.random(len(words))
    kept = [word for word, draw in zip(words, draws, strict=True) if draw >= DELETED_SHARE]
    return " ".join(kept) or words[int(draws.argmax())]
