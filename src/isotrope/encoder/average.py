"""The weights of a model before and after training, averaged: the new text is learnt, and less is
forgotten.

Wortsman et al., Robust fine-tuning of zero-shot models, CVPR 2022, https://arxiv.org/abs/2109.01903
(WiSE-FT), and Model soups, ICML 2022, https://arxiv.org/abs/2203.05482. For embeddings: Xiao et
al., LM-Cocktail, 2023, https://arxiv.org/abs/2311.13534.
"""

from copy import deepcopy

import torch
from sentence_transformers import SentenceTransformer


def average(
    start: SentenceTransformer, trained: SentenceTransformer, alpha: float
) -> SentenceTransformer:
    """A new model with the weights (1 − α) · start + α · trained. No training is needed. BibTeX:
    xiao2023cocktail.

    Both ends are exact. The sums are in float32, or in float64 where the weights are. Everything
    that is no weight (tokenizer, prompts, settings, buffers of whole numbers) is that of
    ``trained``.
    """
    found = deepcopy(trained)
    before = start.state_dict()
    with torch.no_grad():
        # views of the weights: what is copied there stays
        for name, weights in found.state_dict().items():
            if weights.is_floating_point():
                wide = torch.promote_types(weights.dtype, torch.float32)
                old = before[name].to(weights.device, wide)
                weights.copy_(torch.lerp(old, weights.to(wide), alpha))
    return found
