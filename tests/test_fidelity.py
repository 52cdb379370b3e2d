"""The page on papers and code: what it says of sums and means is true, and its lists of items are whole."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotrope.terms.infonce import infonce

N, D, STEPS = 16, 16, 24


def moved(factor: float, longest: float) -> Tensor:
    """How far Adam moves a small encoder (D · D,) by InfoNCE times ``factor``, gradients clipped at ``longest``.

    The batches are easy and hard in turn: two views are nearly equal, or hardly alike.
    """
    torch.manual_seed(0)
    encoder = nn.Linear(D, D, bias=False).double()
    before = encoder.weight.detach().clone()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3, eps=0, weight_decay=0)
    for step in range(STEPS):
        texts = torch.randn(N, D, dtype=torch.float64)
        views = [encoder(texts + (0.3 if step % 4 else 1.0) * torch.randn_like(texts)) for _ in range(2)]
        cosines = F.normalize(views[0], dim=-1) @ F.normalize(views[1], dim=-1).T
        optimizer.zero_grad()
        (factor * infonce(cosines, 0.05)).backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), longest)
        optimizer.step()
    return (encoder.weight.detach() - before).flatten()


def test_a_sum_under_clipping_is_not_a_mean_with_another_learning_rate() -> None:
    mean, total = moved(1, longest=1.0), moved(N, longest=1.0)
    assert torch.cosine_similarity(mean, total, dim=0) < 0.99, "another direction, which no learning rate gives"
    torch.testing.assert_close(moved(1, longest=1 / N), total, rtol=0, atol=1e-6)  # torch adds 1e-6 to norms
    assert torch.equal(moved(1, longest=1e9).sign(), moved(N, longest=1e9).sign())
    torch.testing.assert_close(moved(1, longest=1e9), moved(N, longest=1e9), rtol=1e-9, atol=0)
