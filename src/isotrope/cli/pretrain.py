"""``isotrope pretrain``: an encoder from nothing but text."""

from pathlib import Path

from isotrope.cli.options import command
from isotrope.cli.words import Word
from isotrope.console.plain import plain_console


@command(
    "isotrope.pretraining.run:pretrain",
    hidden=("checkpoint_minutes", "half"),
    size=Word("Size of the model: tiny, mini or small."),
    tokens=Word(
        "How many tokens to train on; default: 60 million (tiny), 500 million (mini), 4 billion (small).", low=1
    ),
    held_out=Word("File to measure the loss on; it is never trained on; again for more.", many=True),
)
def pretrain(model: Path) -> None:
    """Train a small language model from text alone.

    `isotrope train` can begin with it.
    """
    plain_console().print(f"model: {model}")
