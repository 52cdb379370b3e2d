"""The backward of Σ^-1/2: finite at equal eigenvalues, where autograd's is not."""

from __future__ import annotations

import torch

from drawn import draw
from isotrope.views._inverse_sqrt import inverse_sqrt
from isotrope.views.sgw import group_whiten


def test_gradient_at_equal_eigenvalues() -> None:
    white = group_whiten(draw(8, 4), 1)  # all four eigenvalues are 1
    pair = white * torch.tensor([1.0, 1.0, 2.0, 2.0])
    for z in (white, pair, white @ torch.linalg.qr(draw(4, 4, seed=1))[0]):
        assert torch.autograd.gradcheck(lambda x: group_whiten(x, 1), z.detach().requires_grad_())


def test_autograd_through_eigh_would_not_do() -> None:
    """The reason for the analytic backward; and where eigenvectors have no derivative (pca), it is at least finite."""
    covariance = torch.eye(3, dtype=torch.float64, requires_grad=True)
    values, vectors = torch.linalg.eigh(covariance)
    matrix = vectors @ torch.diag(values**-0.5) @ vectors.T
    (naive,) = torch.autograd.grad((matrix * draw(3, 3)).sum(), covariance)
    assert not torch.isfinite(naive).all()
    for method in ("zca", "pca"):
        (ours,) = torch.autograd.grad((inverse_sqrt(covariance, method) * draw(3, 3)).sum(), covariance)  # type: ignore[arg-type]
        assert torch.isfinite(ours).all()
