"""What a size means: the encoder's shape and the settings of its training, in one frozen record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from isotrope.errors import UserError, one_of


@dataclass(frozen=True, slots=True)
class Recipe:
    """One size of encoder and how it is trained. Lengths are in tokens.

    A small ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663): pre-norm, GeGLU, rotary positions, every
    layer global. The learning rate is warmed up, stays, and decays over the last part of the budget
    (warmup-stable-decay, Hu et al. 2024, https://arxiv.org/abs/2404.06395), so that a run can be prolonged or cooled
    down at any time.
    """

    layers: int
    width: int
    inner: int  # GeGLU's inner width
    heads: int
    vocabulary: int
    batch: int  # blocks in a step
    tokens: int  # default budget
    block: int = 128
    learning_rate: float = 2e-3
    warmup_steps: int = 200
    decay: float = 0.2  # last part of the budget, over which the learning rate falls to zero
    weight_decay: float = 0.01
    beta2: float = 0.98
    clip: float = 0.5
    mask: float = 0.3  # part of a block that is predicted (Wettig et al. 2023, https://arxiv.org/abs/2202.08005)
    masked_by_mask: float = 0.9  # of these: shown as [MASK]
    masked_by_random: float = 0.05  # of these: shown as a random token; the rest is shown as it is
    window: int = 5  # of the co-occurrence counts behind the warm start
    vector_scale: float = 0.06  # root mean square of a warm-started embedding's entries
    max_positions: int = 512
    held_out_blocks: int = 256

    @property
    def step_tokens(self) -> int:
        """Tokens in one step."""
        return self.batch * self.block

    def model_config(self, special_ids: dict[str, int], vocabulary: int) -> dict[str, Any]:
        """Arguments of transformers' ModernBertConfig; ``special_ids`` maps pad, cls and sep to their token ids."""
        return {
            "vocab_size": vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "layer_types": ["full_attention"] * self.layers,
            "max_position_embeddings": self.max_positions,
            "pad_token_id": special_ids["pad"],
            "cls_token_id": special_ids["cls"],
            "bos_token_id": special_ids["cls"],
            "sep_token_id": special_ids["sep"],
            "eos_token_id": special_ids["sep"],
            "rope_parameters": {
                kind: {"rope_type": "default", "rope_theta": 10_000.0}
                for kind in ("full_attention", "sliding_attention")
            },
        }


RECIPES = {
    "tiny": Recipe(layers=4, width=256, inner=384, heads=4, vocabulary=16_384, batch=32, tokens=60_000_000),
    "mini": Recipe(layers=6, width=384, inner=576, heads=6, vocabulary=16_384, batch=64, tokens=500_000_000),
    "small": Recipe(
        layers=12, width=512, inner=768, heads=8, vocabulary=32_768, batch=256, tokens=4_000_000_000, learning_rate=1e-3
    ),
}


def recipe_of(size: str) -> Recipe:
    """The recipe of a named size.

    Raises:
        UserError: there is no such size.
    """
    if size not in RECIPES:
        raise UserError(f"size = {size!r} is not known", one_of(size, RECIPES))
    return RECIPES[size]
