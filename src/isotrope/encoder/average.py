"""The weights of a model before and after training, averaged: the new text is learnt, and less is
forgotten.

Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022, https://arxiv.org/abs/2109.01903
(WiSE-FT), and Model soups, ICML 2022, https://arxiv.org/abs/2203.05482. For embeddings: Xiao et
al., LM-Cocktail, 2023, https://arxiv.org/abs/2311.13534.
"""

from copy import deepcopy

import torch
from sentence_transformers import SentenceTransformer


@torch.no_grad()
def average(
    start: SentenceTransformer, trained: SentenceTransformer, alpha: float
) -> SentenceTransformer:
    """A new model with the weights (1 − α) · start + α · trained. No training is needed. BibTeX:
    xiao2023cocktail.

    Both ends are exact. The sums are in float32, or in float64 where the weights are. Everything
    that is no weight (tokenizer, prompts, settings, buffers of whole numbers) is that of
    ``trained``.
    """
    averaged = deepcopy(trained)
    start_weights = start.state_dict()
    for name, weights in averaged.state_dict().items():
        if not weights.is_floating_point():
            continue
        wide = torch.promote_types(weights.dtype, torch.float32)
        before = start_weights[name].to(weights.device, wide)
        # A state's tensors are views of the model's weights, so what is copied there stays.
        weights.copy_(torch.lerp(before, weights.to(wide), alpha))
    return averaged
