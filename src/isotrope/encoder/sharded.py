"""An encoder whose weights, gradients and averages are spread over the processes: each holds a part
(FSDP2).

Zhao et al., VLDB 2023, https://arxiv.org/abs/2304.11277; torch's ``fully_shard``. A layer's weights
are gathered for as long as the layer computes. Gradients are averaged over the processes, as DDP
does.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.utils import clip_grad_norm_, clip_grads_with_norm_, get_total_norm
from torch.utils._pytree import tree_map_only

from isotrope.contract.distributed import average_over_ranks
from isotrope.contract.features import language_model
from isotrope.encoder.fast.packed import layers


def shard(model: nn.Module, device: torch.device) -> None:
    """Spread the weights of the model's transformer over all processes, in place; all other weights
    stay whole.

    Each of its layers is gathered alone; the rest, such as the table of tokens, together.
    """
    encoder: Any = language_model(model)
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for part in (*layers(encoder), encoder):
        fully_shard(part, mesh=mesh, reshard_after_forward=True)
    register_fsdp_forward_method(encoder, "forward")  # sentence-transformers calls it by this name
    for weight in model.parameters():
        if weight.requires_grad and not isinstance(weight, DTensor):
            weight.register_hook(average_over_ranks)  # type: ignore[no-untyped-call]


@contextmanager
def gathered(model: nn.Module) -> Iterator[None]:
    """Within, each process has all weights, to compute without gradients on its own. All processes
    must enter.
    """
    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            part.set_reshard_after_forward(True, recurse=False)
            part.reshard()


def collected(values: Any) -> Any:
    """The values in dictionaries and lists, each spread tensor as a plain one in main memory. All
    processes must call.

    Only the first process gets these tensors; for the others they are empty.
    """

    def whole(spread: DTensor) -> Tensor:
        full = spread.full_tensor()  # one at a time: a device need not hold them all
        return full.cpu() if dist.get_rank() == 0 else full.new_empty(0, device="cpu")

    return tree_map_only(DTensor, whole, values)


def spread_like(full: Tensor, like: Tensor) -> Tensor:
    """A plain tensor, which all processes have, in the way that ``like`` is spread; unchanged if
    that is plain too.
    """
    if not isinstance(like, DTensor):
        return full
    return distribute_tensor(full.to(like.device), like.device_mesh, like.placements)


def load_whole(module: nn.Module, state: Mapping[str, Any]) -> None:
    """Load plain tensors into a module that may be spread. What ``state`` lacks stays as it is."""
    own = module.state_dict()
    kept = {
        name: spread_like(value, own[name]) if name in own else value
        for name, value in state.items()
    }
    module.load_state_dict(kept, strict=False)


def clip(weights: Iterable[nn.Parameter], limit: float) -> Tensor:
    """Scale all gradients to the norm ``limit`` at most, spread and plain ones together -> their
    norm before.
    """
    weights = list(weights)
    kinds = by_kind(weights)
    if not kinds[0]:
        return clip_grad_norm_(weights, limit)
    parts = [
        get_total_norm([weight.grad for weight in kind if weight.grad is not None])
        for kind in kinds
    ]
    norm: Tensor = torch.stack(
        [part.full_tensor() if isinstance(part, DTensor) else part for part in parts]
    ).norm()
    for kind in kinds:
        clip_grads_with_norm_(kind, limit, norm)
    return norm


def by_kind(weights: Iterable[nn.Parameter]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Spread ones, and plain ones: no kernel takes both."""
    weights = list(weights)
    spread: list[nn.Parameter] = [weight for weight in weights if isinstance(weight, DTensor)]
    return spread, [weight for weight in weights if not isinstance(weight, DTensor)]
