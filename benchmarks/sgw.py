"""Shuffled group whitening beside `eigh`, group by group and batched a view; prints JSON.

    python benchmarks/sgw.py [--repetitions 15] [--output FILE.json]

One feature (64, 768) whitened three times, with other shuffles, forward and backward to the
feature. For k = 384, 256, 192, 96 groups (2, 3, 4, 8 channels) stand side by side ``equation``,
isotrope's `group_whiten`; ``step``, the whole view step of a training batch, which draws the
shuffles and follows the momentum statistics as well; ``views``, one batched `eigh` a view; and
``groups``, an `eigh` a group. The last two are plain autograd, as one would write them.
``difference`` is the largest between the results of ``equation`` and the two.
``eigen_milliseconds`` times the eigenvectors alone, of all groups and views at once, by ours up to
2 channels and by LAPACK.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotrope.contract.context import BuildContext
from isotrope.types import Batch, Views
from isotrope.views._inverse_sqrt import eigen
from isotrope.views.sgw import SGW, group_whiten
from timing import clock, interleave, ratio, show

VIEWS, BATCH, DIM = 3, 64, 768
TIMED = {"equation": 10, "step": 10, "views": 10, "groups": 1}  # runs in a repetition


def white(x: Tensor) -> Tensor:
    """Features x (…, N, C) times the inverse square root of their covariance."""
    centred = x - x.mean(-2, keepdim=True)
    values, vectors = torch.linalg.eigh(centred.mT @ centred / x.shape[-2])
    root: Tensor = (vectors * values.rsqrt()[..., None, :]) @ vectors.mT
    return centred @ root


def by_views(z: Tensor, groups: int, orders: Tensor) -> Tensor:
    """(N, D), (V, D) -> (V, N, D), one `eigh` a view."""
    results = []
    for order in orders:
        x = z[:, order].view(BATCH, groups, -1).transpose(0, 1)  # (G, N, C)
        results.append(white(x).transpose(0, 1).reshape(BATCH, DIM)[:, order.argsort()])
    return torch.stack(results)


def by_groups(z: Tensor, groups: int, orders: Tensor) -> Tensor:
    """(N, D), (V, D) -> (V, N, D), one `eigh` a group."""
    results = []
    for order in orders:
        parts = [white(part) for part in z[:, order].chunk(groups, dim=1)]
        results.append(torch.cat(parts, dim=1)[:, order.argsort()])
    return torch.stack(results)


def measure(groups: int, repetitions: int) -> dict[str, Any]:
    """Milliseconds and ratios for one number of groups."""
    draw = torch.Generator().manual_seed(0)
    z = (
        torch.randn(BATCH, DIM, generator=draw) @ torch.randn(DIM, DIM, generator=draw)
    ).requires_grad_()
    weight = torch.randn(VIEWS, BATCH, DIM, generator=draw)
    orders = torch.stack([torch.randperm(DIM, generator=draw) for _ in range(VIEWS)])
    component = SGW(groups, copies=VIEWS).build(BuildContext(DIM)).train()
    batch, none = Batch(torch.arange(BATCH), draw), torch.zeros(BATCH, 0, DIM)
    forward: dict[str, Callable[[], Tensor]] = {
        "equation": lambda: group_whiten(z.expand(VIEWS, -1, -1), groups, orders),
        "step": lambda: component(Views(batch, z[None], none, {})).stack,
        "views": lambda: by_views(z, groups, orders),
        "groups": lambda: by_groups(z, groups, orders),
    }

    def system(name: str) -> Callable[[int], float]:
        def run(_: int) -> float:
            began = clock()
            for _ in range(TIMED[name]):
                torch.autograd.grad((forward[name]() * weight).sum(), z)
            return (clock() - began) / TIMED[name]

        return run

    ours = forward["equation"]()
    difference = max((forward[name]() - ours).abs().max().item() for name in ("views", "groups"))
    times = interleave({name: system(name) for name in forward}, repetitions)
    pairs = [(over, under) for over in ("groups", "views") for under in ("equation", "step")]
    return {
        "groups": groups,
        "channels": DIM // groups,
        "best_milliseconds": {name: round(1000 * min(found), 2) for name, found in times.items()},
        **{f"{over}_over_{under}": ratio(times, over, under) for over, under in pairs},
        "difference": difference,
        "eigen_milliseconds": decompositions(z.detach(), groups, orders, repetitions),
    }


def decompositions(z: Tensor, groups: int, orders: Tensor, repetitions: int) -> dict[str, float]:
    """The best time of each way to the eigenvectors of the V·G covariances."""
    x = torch.stack([z[:, order].T.reshape(groups, -1, BATCH) for order in orders])  # (V, G, C, N)
    covariance = x @ x.mT / BATCH
    ways: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {"eigh": torch.linalg.eigh}
    if x.shape[2] <= 2:
        ways["rotation"] = eigen

    def system(name: str) -> Callable[[int], float]:
        def run(_: int) -> float:
            began = clock()
            for _ in range(TIMED["equation"]):
                ways[name](covariance)
            return (clock() - began) / TIMED["equation"]

        return run

    times = interleave({name: system(name) for name in ways}, repetitions)
    return {name: round(1000 * min(found), 2) for name, found in times.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time of one thread, on a busy machine"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    result = {
        "views": VIEWS,
        "shape": [BATCH, DIM],
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        "torch": torch.__version__,
        "repetitions": asked.repetitions,
        "sizes": [measure(groups, asked.repetitions) for groups in (384, 256, 192, 96)],
    }
    show(result, asked.output)
