"""What a size means, and how long a run is: the encoder's shape, the settings of its training, its
schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isotrope.errors import UserError
from isotrope.training.checkpoints import checkpoint_step


@dataclass(frozen=True, slots=True)
class Recipe:
    """One size of encoder and how it is trained. Lengths are in tokens.

    A small ModernBERT (Warner et al. 2024, https://arxiv.org/abs/2412.13663): pre-norm, GeGLU,
    rotary positions, every layer global. The learning rate is warmed up, stays, and decays over the
    last part of the budget (warmup-stable-decay, Hu et al. 2024, https://arxiv.org/abs/2404.06395),
    so that a run can be prolonged or cooled down at any time.
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
    # part of a block that is predicted (Wettig et al. 2023, https://arxiv.org/abs/2202.08005)
    mask: float = 0.3
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


RECIPES = {
    "tiny": Recipe(
        layers=4, width=256, inner=384, heads=4, vocabulary=16_384, batch=32, tokens=60_000_000
    ),
    "mini": Recipe(
        layers=6, width=384, inner=576, heads=6, vocabulary=16_384, batch=64, tokens=500_000_000
    ),
    "small": Recipe(
        layers=12,
        width=512,
        inner=768,
        heads=8,
        vocabulary=32_768,
        batch=256,
        tokens=4_000_000_000,
        learning_rate=1e-3,
    ),
}


@dataclass(frozen=True, slots=True)
class Schedule:
    """A run's length in steps, and the step at which its learning rate begins to fall."""

    steps: int
    decay_start: int

    def kept(self, checkpoints: Sequence[Path]) -> list[Path]:
        """Of whole checkpoints, oldest first, those to keep: the last two, and where the decay
        begins.
        """
        return [
            path
            for path in checkpoints
            if path in checkpoints[-2:] or checkpoint_step(path) == self.decay_start
        ]


def reschedule(
    checkpoints: Sequence[Path], old: Schedule, steps: int, decay: float
) -> tuple[Schedule, list[Path]]:
    """The schedule for a new budget of ``steps``, and those of the whole checkpoints, oldest first,
    that it can use.

    The learning rate stays high until the last ``decay`` of the budget, and in any case until the
    newest of these. A checkpoint from within the old decay cannot be trained on at the full rate:
    the run goes back to its beginning.
    """
    usable = [path for path in checkpoints if checkpoint_step(path) <= old.decay_start]
    reached = checkpoint_step(usable[-1]) if usable else 0
    if steps <= reached:
        problem = (
            f"tokens: the budget of {steps} steps ends before the checkpoint at step {reached}"
        )
        raise UserError(problem, "give a larger budget")
    return Schedule(steps, max(steps - round(decay * steps), reached)), usable
