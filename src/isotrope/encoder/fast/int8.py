"""Encoding in 8 bits on a CPU that has instructions for it: the matrix products in integers, all
else in float32.

Inputs of a layer are rounded to 256 steps, whose size is measured beforehand on texts of the user
(static quantisation), and weights to 255 steps for each output. SmoothQuant (Xiao et al., ICML
2023, equation 4) first divides each input channel by a factor and multiplies its weights by it, so
that a channel with large numbers does not make the steps of all others coarse. Layers that lose
most stay in float32.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

from isotrope.encoder.embed import BYTES_A_TOKEN, vectors_of
from isotrope.encoder.fast.half import NarrowLinear
from isotrope.encoder.fast.packed import layers

TEXTS = 128  # that are read for the calibration
TOKENS = 1024  # of them that decide about a layer
SMOOTHING = (0.5, 0.6, 0.7, 0.8)  # SmoothQuant's alpha: the part of a range that weights take
CLIPS = (0.9, 0.75, 0.6)  # of the range: rarer numbers beyond it are cut
SENSITIVE = 0.03  # a layer that loses more of its output's spread stays in float32
STEPS = 255  # of an input
TINY = 1e-5  # a channel's smallest range, so that nothing is divided by 0


@cache
def has_int8() -> bool:
    """Whether this processor multiplies 8-bit integers quickly: AVX2, or what came after it."""
    has_onednn: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return has_onednn and torch.cpu._is_avx2_supported()


@cache
def most_weight_steps() -> int:
    """The steps of a weight on each side of 0.

    Without VNNI, the processor adds two products in 16 bits. With 63 steps, the sum stays below
    their limit: 2 · 255 · 63 < 2¹⁵.
    """
    return 127 if torch.cpu._is_vnni_supported() else 63


@dataclass(frozen=True)
class Grid:
    """The steps to which a layer's inputs and weights are rounded."""

    factors: Tensor  # (A,): inputs are multiplied by them, and weights divided
    step: float  # of the inputs, after their factors
    zero: int  # the step that is 0
    weight_steps: Tensor  # (B,)

    @classmethod
    def of(cls, inputs: Tensor, weight: Tensor, smoothing: float, clip: float) -> "Grid":
        """From inputs (T, A) and a weight (B, A), by SmoothQuant's factors and a clipped range."""
        input_ranges = inputs.abs().amax(dim=0).clamp(min=TINY)  # (A,)
        weight_ranges = weight.abs().amax(dim=0).clamp(min=TINY)  # (A,)
        factors = weight_ranges ** (1 - smoothing) / input_ranges**smoothing

        smooth = inputs * factors
        low = clip * min(0.0, float(smooth.min()))
        high = clip * max(0.0, float(smooth.max()))
        step = max(high - low, TINY) / STEPS

        largest = (weight / factors).abs().amax(dim=1)  # (B,)
        weight_steps = largest.clamp(min=TINY**2) / most_weight_steps()
        return cls(factors, step, round(-low / step), weight_steps)

    def round_inputs(self, inputs: Tensor) -> Tensor:
        """(…, A) float32 -> (…, A) uint8."""
        steps = inputs * (self.factors / self.step)
        steps.add_(self.zero + 0.5)  # the conversion cuts, so this rounds
        return steps.clamp_(0, STEPS).to(torch.uint8)

    def round_weight(self, weight: Tensor) -> Tensor:
        """(B, A) float32 -> (B, A) int8."""
        steps = weight / self.factors / self.weight_steps[:, None]
        return steps.round().to(torch.int8)

    def error(self, inputs: Tensor, weight: Tensor) -> float:
        """The part of an output's spread that rounding loses."""
        steps = self.round_inputs(inputs).float() - self.zero
        weight_steps = self.round_weight(weight).float()
        rounded = F.linear(steps, weight_steps) * self.step * self.weight_steps
        exact = F.linear(inputs, weight)
        spread = (exact - exact.mean(dim=0)).norm()
        lost = (rounded - exact).norm()
        return float(lost / spread.clamp(min=TINY))


def best_grid(inputs: Tensor, weight: Tensor) -> tuple[Grid, float]:
    """The grid of a linear layer in 8 bits, and its error on inputs (T, A); the weight is (B, A).

    The smoothing is chosen first, without clipping, and then the clipping for this smoothing.
    """

    def measured(smoothing: float, clip: float) -> tuple[Grid, float]:
        grid = Grid.of(inputs, weight, smoothing, clip)
        return grid, grid.error(inputs, weight)

    unclipped = [measured(smoothing, 1.0) for smoothing in SMOOTHING]
    errors = [error for _, error in unclipped]
    best = int(np.argmin(errors))

    # The range is clipped for the best smoothing alone.
    candidates = [unclipped[best]]
    for clip in CLIPS:
        candidates.append(measured(SMOOTHING[best], clip))
    return min(candidates, key=lambda pair: pair[1])


class Linear8(NarrowLinear):
    """(…, A) float32 -> (…, B) float32, by rounded inputs and weights; exact where weights can be
    trained.
    """

    grid: Grid

    def forward(self, input: Tensor) -> Tensor:
        if self.weight.requires_grad:
            return F.linear(input, self.weight, self.bias)
        grid = self.grid
        if self.laid_out is None:
            rounded = grid.round_weight(self.weight)
            self.laid_out = torch.ops.onednn.qlinear_prepack(rounded, None)
        return torch.ops.onednn.qlinear_pointwise(  # type: ignore[no-any-return]
            grid.round_inputs(input),
            grid.step,
            grid.zero,
            self.laid_out,
            grid.weight_steps,
            torch.zeros(self.out_features, dtype=torch.int64),  # the weights' step that is 0
            self.bias,
            1.0,
            0,
            torch.float32,
            "none",
            [],
            "",
        )


def measure_grids(model: SentenceTransformer, texts: Sequence[str]) -> None:
    """Give each layer of a frozen model with a packed encoder its grid; the same texts give the
    same.

    Layers that lose more than `SENSITIVE` get none, and stay in float32.
    """
    for layer, inputs in _layer_inputs(model, texts[:TEXTS]).items():
        grid, error = best_grid(inputs, layer.weight)
        layer.__dict__.pop("grid", None)
        if error <= SENSITIVE:
            layer.grid = grid  # type: ignore[assignment]


def _layer_inputs(model: SentenceTransformer, texts: Sequence[str]) -> dict[nn.Linear, Tensor]:
    """Each linear layer of the encoder, and what reaches it from the texts: (T, A), about
    `TOKENS`.
    """
    batches: dict[nn.Linear, list[Tensor]] = {}
    stride = max(1, _tokens(model, texts) // TOKENS)  # all tokens of long texts would fill memory

    def remember(layer: Any, inputs: tuple[Tensor, ...]) -> None:
        rows = inputs[0].flatten(0, -2)  # (T, A)
        batches[layer].append(rows[::stride].clone())

    with ExitStack() as hooks:
        for module in layers(model[0].auto_model).modules():
            if type(module) is nn.Linear:
                batches[module] = []
                hooks.enter_context(module.register_forward_pre_hook(remember))
        vectors_of(model, texts, progress=lambda done: None)
    return {layer: torch.cat(inputs) for layer, inputs in batches.items()}


def _tokens(model: SentenceTransformer, texts: Sequence[str]) -> int:
    """Approximate number of tokens that the model reads of the texts."""
    longest = model.max_seq_length or inf
    total = 0.0
    for text in texts:
        total += min(len(text) / BYTES_A_TOKEN, longest)
    return int(total)
