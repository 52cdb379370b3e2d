"""Shuffled group whitening and its Σ^-1/2 against loops, eigh, the golden numbers and its own
mathematics.
"""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from helpers.drawn import draw
from helpers.refusals import refused
from isotrope import component
from isotrope.contract.context import BuildContext
from isotrope.types import Batch, Views
from isotrope.views._inverse_sqrt import Method, eigen, inverse_sqrt
from isotrope.views.sgw import SGW, group_whiten
from oracle import whitening as oracle


def permutation(dim: int, seed: int = 0) -> Tensor:
    return torch.randperm(dim, generator=torch.Generator().manual_seed(seed))


def views(stack: Tensor, negatives: Tensor | None = None, seed: int = 0) -> Views:
    batch = Batch(torch.arange(stack.shape[1]), torch.Generator().manual_seed(seed))
    return Views(batch, stack, stack[0, :, None][:, :0] if negatives is None else negatives, {})


def sgw(dim: int, **options: Any) -> SGW:
    made: SGW = component("views", "sgw", **options).build(BuildContext(dim))
    return made


def unsigned(h: Tensor) -> Tensor:
    """pca's columns have no sign of their own."""
    return h * h[..., :1, :].sign()


@pytest.mark.parametrize(
    ("dtype", "tolerance", "whole"), [(torch.float64, 1e-9, 1e-9), (torch.float32, 1e-4, 3e-3)]
)
def test_golden_numbers(golden: Path, dtype: torch.dtype, tolerance: float, whole: float) -> None:
    numbers = np.load(golden / "equations.npz")
    z, order = torch.from_numpy(numbers["z"]).to(dtype), torch.from_numpy(numbers["order"])

    def close(found: Tensor, name: str, atol: float) -> None:
        expected = torch.from_numpy(numbers[name])
        found, expected = (
            (unsigned(found.double()), unsigned(expected)) if name == "pca" else (found, expected)
        )
        assert (found.double() - expected).abs().max() < atol, name

    close(group_whiten(z, 1), "zca", whole)
    close(group_whiten(z, 1, method="pca"), "pca", whole)
    for groups in numbers["groups"].tolist():
        close(group_whiten(z, groups), f"gw_{groups}", whole if groups == 1 else tolerance)
        close(group_whiten(z, groups, order), f"sgw_{groups}", whole if groups == 1 else tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
@pytest.mark.parametrize("method", ["zca", "pca"])
@pytest.mark.parametrize("groups", [2, 3, 4, 6, 12])
@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_equals_the_loops(
    groups: int, method: str, eps: float, dtype: torch.dtype, tolerance: float
) -> None:
    z = (draw(3, 15, 12) @ (draw(12, 12, seed=1) + 2 * torch.eye(12)) + 3).to(dtype)
    order = torch.stack([permutation(12, seed) for seed in range(3)])
    found = group_whiten(z, groups, order, method, eps)
    for view in range(3):
        expected = torch.from_numpy(
            oracle.group_whiten(z[view].numpy(), groups, order[view].tolist(), method, eps)
        )
        one = found[view].double()
        one, expected = (unsigned(one), unsigned(expected)) if method == "pca" else (one, expected)
        assert torch.allclose(one, expected, atol=tolerance, rtol=tolerance)
        alone = group_whiten(z[view], groups, order[view], method, eps)
        assert torch.allclose(alone, found[view], atol=tolerance / 10)


@pytest.mark.parametrize("method", ["zca", "pca"])
@pytest.mark.parametrize("eps", [0.0, 0.3])
def test_gradient(method: Any, eps: float) -> None:
    order = torch.stack([permutation(6, seed) for seed in range(2)])
    z = draw(2, 8, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: group_whiten(x, 2, order, method, eps), z)


@pytest.mark.parametrize("method", ["zca", "pca"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_degenerate_batches_are_finite(method: Any, dtype: torch.dtype) -> None:
    """A dead channel, two equal ones, sentences that come twice, and a batch of one sentence over
    and over.
    """
    z = draw(12, 6, dtype=dtype)
    dead, twin = z.clone(), z.clone()
    dead[:, 2] = 1234.5
    twin[:, 1] = twin[:, 0]
    for features in (dead, twin, z[:6].repeat(2, 1), z[:1].expand(12, 6), torch.full_like(z, 0.1)):
        x = features.clone().requires_grad_()
        h = group_whiten(x, 2, method=method)
        (h * draw(12, 6, seed=1)).sum().backward()
        assert torch.isfinite(h).all()
        assert h.abs().max() < 5
        assert torch.isfinite(x.grad).all()
    assert group_whiten(z[:1].expand(12, 6), 2, method=method).abs().max() == 0
    if method == "zca":
        assert group_whiten(dead, 2)[:, 2].abs().max() == 0
        assert torch.allclose(group_whiten(dead, 2)[:, 3:], group_whiten(z, 2)[:, 3:])


def test_impossible_groups_and_batches_are_refused() -> None:
    for groups in (5, 384, 0, -3):
        with refused("impossible-groups", groups, "1, 2, 3, 4, 6, 8, 12, 24"):
            group_whiten(draw(30, 24), groups)
    for count in (1, 3, 6):
        with refused("small-batch", count):
            group_whiten(draw(count, 12), 2)
        assert torch.isfinite(group_whiten(draw(count, 12), 2, eps=1e-5)).all()
    with refused("not-finite"):
        group_whiten(torch.full((9, 12), torch.nan), 2)


def test_every_view_has_its_own_statistics_and_shuffle() -> None:
    stack, step = draw(3, 16, 12), sgw(12, groups=6)
    generator = torch.Generator().manual_seed(0)
    orders = torch.rand(3, 12, generator=generator, dtype=torch.float64).argsort(-1)
    assert not torch.equal(orders[0], orders[1])
    assert torch.allclose(step(views(stack)).stack, group_whiten(stack, 6, orders))
    # the generator's seed alone
    assert torch.equal(step(views(stack)).stack, sgw(12, groups=6)(views(stack)).stack)
    assert not torch.allclose(step(views(stack)).stack, step(views(stack, seed=1)).stack)
    plain = sgw(12, groups=6, shuffle=False, method="pca")
    assert torch.allclose(plain(views(stack)).stack, group_whiten(stack, 6, method="pca"))
    lengths, unit = draw(3, 16, 1, seed=1).exp(), sgw(12, groups=6, normalize=True)
    assert torch.allclose(unit(views(stack * lengths)).stack, unit(views(stack)).stack), (
        "rows are divided first"
    )


def test_hard_negatives_are_whitened_as_the_anchors() -> None:
    stack = draw(2, 16, 12)
    step = sgw(12, groups=6)
    found = step(views(stack, stack[0].unsqueeze(1).repeat(1, 2, 1)))
    assert torch.allclose(found.negatives[:, 0], found.stack[0])
    assert torch.allclose(found.negatives[:, 1], found.stack[0])
    assert torch.equal(step(views(stack, draw(16, 1, 12, seed=3))).stack, found.stack)
    assert step(views(stack)).negatives.shape == (16, 0, 12)


def test_running_statistics_follow_equation_13() -> None:
    step, beta = sgw(6, groups=3, momentum=0.8), 0.8
    batches = [draw(2, 10, 6, seed=seed) @ draw(6, 6, seed=9) + 2 for seed in range(4)]
    for batch in batches:
        step(views(batch))
    rows = [batch.flatten(0, 1).numpy() for batch in batches]
    *_, (mean, covariance) = oracle.momentum([*rows, rows[0]], beta)  # before a fifth batch
    assert np.allclose(step.statistics.mean.numpy(), mean, atol=1e-5)
    assert np.allclose(step.statistics.covariance.numpy(), covariance, atol=1e-4)
    assert int(step.statistics.batches) == 4


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-6), (torch.float32, 1e-4)])
def test_equation_13_as_printed_takes_the_batches_before(
    dtype: torch.dtype, tolerance: float
) -> None:
    """Values by a loop over the groups; the gradient is that of a constant matrix."""
    step = sgw(6, groups=2, running="before", momentum=0.8, shuffle=False).to(dtype)
    batches = [(draw(2, 10, 6, seed=seed) @ draw(6, 6, seed=9) + 2).to(dtype) for seed in range(4)]
    rows = [batch.flatten(0, 1).double().numpy() for batch in batches]
    for batch, (mean, covariance) in zip(batches, oracle.momentum(rows, 0.8), strict=True):
        stack, weight = batch.clone().requires_grad_(), draw(2, 10, 6, seed=7).to(dtype)
        found = step(views(stack)).stack
        (found * weight).sum().backward()
        for part in (slice(0, 3), slice(3, 6)):
            values, vectors = np.linalg.eigh(covariance[part, part])
            matrix = vectors @ np.diag(values**-0.5) @ vectors.T
            expected = torch.from_numpy((batch[..., part].double().numpy() - mean[part]) @ matrix)
            slope = torch.from_numpy(weight[..., part].double().numpy() @ matrix.T)
            assert (found[..., part] - expected).abs().max() < tolerance * expected.abs().max()
            assert (stack.grad[..., part] - slope).abs().max() < tolerance * slope.abs().max()


def test_evaluation_is_one_map_whatever_the_batch() -> None:
    step = sgw(12, groups=4)
    for seed in range(80):
        step(views(draw(2, 64, 12, seed=seed) @ draw(12, 12, seed=100) + 1))
    step.eval()
    stack = draw(1, 200, 12, seed=7) @ draw(12, 12, seed=100) + 1
    kept = {name: value.clone() for name, value in step.state_dict().items()}
    found = step(views(stack, stack[0, :, None]))
    assert torch.allclose(step(views(stack[:, :1])).stack, found.stack[:, :1])  # a batch of one
    assert torch.allclose(step(views(stack, seed=5)).stack, found.stack)
    assert torch.allclose(found.negatives[:, 0], found.stack[0])
    assert all(torch.equal(value, kept[name]) for name, value in step.state_dict().items())
    group = found.stack[0, :, :3]  # channels keep their order
    assert torch.allclose(torch.cov(group.T), torch.eye(3, dtype=group.dtype), atol=0.35)


@pytest.mark.parametrize("groups", [12, 6])
@pytest.mark.parametrize("running", [True, False, "before"])
def test_training_waits_for_no_gpu(groups: int, running: Any) -> None:
    """Tensors of the meta device have shapes and no numbers: whoever asks for one gets an error."""
    step = sgw(12, groups=groups, running=running).to("meta")
    stack = torch.empty(2, 16, 12, device="meta", requires_grad=True)
    hard = torch.empty(16, 1, 12, device="meta", requires_grad=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # knows no meta device
        for _ in range(2):
            found = step(views(stack, hard))
            (found.stack.sum() + found.negatives.sum()).backward()
        order = torch.stack([permutation(12, seed) for seed in range(2)]).to("meta")
        assert group_whiten(stack, groups, order).shape == stack.shape
    assert found.stack.shape == stack.shape
    with pytest.raises(RuntimeError):
        bool(found.stack.sum() > 0)


def symmetric(values: Tensor, seed: int, dtype: torch.dtype) -> Tensor:
    """Matrices (B, C, C) with the eigenvalues (B, C), in random directions."""
    turn = torch.linalg.qr(draw(*values.shape, values.shape[-1], seed=seed))[0]
    matrix = ((turn * values[:, None]) @ turn.mT).to(dtype)
    return (matrix + matrix.mT) / 2


# from uniform numbers (B, C) and the condition number
SPECTRA: dict[str, Callable[[Tensor, float], Tensor]] = {
    "wide": lambda u, condition: condition**-u,
    "equal": lambda u, _: torch.ones_like(u),
    "nearly equal": lambda u, _: 1 + 1e-9 * u,
    "rank one": lambda u, _: torch.eye(u.shape[1], dtype=u.dtype)[0].expand_as(u),
    "zero": lambda u, _: torch.zeros_like(u),
}
# type, tolerance, condition number
PRECISIONS = [(torch.float32, 1e-5, 1e5), (torch.float64, 1e-10, 1e10)]


def root_by_eigh(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """The oracle: in float64, without the directions whose eigenvalue may be rounding of ``dtype``."""
    values, vectors = torch.linalg.eigh(matrices.double())
    live = values > 4 * values.shape[-1] * torch.finfo(dtype).eps * values[:, -1:].clamp(min=0)
    return (vectors * torch.where(live, values, torch.inf).rsqrt()[:, None]) @ vectors.mT


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from(list(SPECTRA)),
    st.sampled_from(PRECISIONS),
    st.integers(-8, 8),
    st.integers(0, 9999),
)
def test_equals_eigh(size: int, spectrum: str, precision: Any, power: int, seed: int) -> None:
    """Values, vectors and Σ^-1/2: from equal eigenvalues to rank 1, for tiny and huge features."""
    dtype, tolerance, condition = precision
    uniform = torch.rand(
        50, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    matrices = symmetric(10.0**power * SPECTRA[spectrum](uniform, condition), seed, dtype)
    values, vectors = eigen(matrices)
    rounding = 16 * torch.finfo(dtype).eps
    largest = matrices.abs().amax((1, 2)).double().clamp(min=1e-30)[:, None]
    assert (
        (values.double() - torch.linalg.eigvalsh(matrices.double())).abs() <= rounding * largest
    ).all()
    assert (values.diff(dim=-1) >= -rounding * largest).all()
    assert torch.allclose(vectors.mT @ vectors, torch.eye(size, dtype=dtype), atol=rounding)
    again = (vectors * values[:, None]) @ vectors.mT
    assert ((again - matrices).abs() <= rounding * largest[..., None]).all()
    expected = root_by_eigh(matrices, dtype)
    # a matrix's own last digit moves its smallest eigenvalue by eps · condition: no method in
    # float64 comes closer
    allowed = tolerance + (10 * torch.finfo(dtype).eps * condition if spectrum == "wide" else 0)
    difference = (inverse_sqrt(matrices).double() - expected).abs().amax((1, 2))
    assert (difference <= allowed * expected.abs().amax((1, 2))).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_gradient_of_the_root(size: int) -> None:
    def root(matrices: Tensor, method: Method = "zca") -> Tensor:
        return inverse_sqrt((matrices + matrices.mT) / 2, method)

    apart = torch.arange(1, 1 + size, dtype=torch.float64)
    pairs = 1 + torch.arange(size, dtype=torch.float64) // 2
    matrices = torch.cat(
        [symmetric(values[None], 0, torch.float64) for values in (apart, pairs, torch.ones(size))]
    )
    assert torch.autograd.gradcheck(root, matrices.requires_grad_())
    distinct = matrices.detach()[:1].requires_grad_()
    assert torch.autograd.gradcheck(lambda one: root(one, "pca"), distinct)
