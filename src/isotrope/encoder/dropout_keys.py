"""What configurations call the dropout of an encoder: ``hidden_dropout_prob``, ``resid_pdrop``, ``dropout_rate``, …"""

from __future__ import annotations

import re

from transformers import PreTrainedConfig

DROPOUT = re.compile(r"dropout|pdrop")
HEADS = re.compile(r"classif|summary|pooler|qa_")  # of heads, which an encoder does not have


def dropout_keys(config: PreTrainedConfig) -> list[str]:
    """The settings that hold a dropout probability of the encoder itself."""
    return [
        key
        for key, value in vars(config).items()
        if type(value) in (int, float) and DROPOUT.search(key) and not HEADS.search(key)
    ]
