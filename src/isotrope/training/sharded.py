"""Training with ``train.fsdp``: the student and the second encoders are spread over the processes."""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers.trainer import OPTIMIZER_NAME, SCHEDULER_NAME

from isotrope.contract.features import KEEP, language_model
from isotrope.encoder.sharded import by_kind, clip, collected, gathered, load_whole, shard, spread_like
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.preset import Preset
from isotrope.training.processes import process_count, process_number
from isotrope.training.trainer import Trainer


def check_fsdp(preset: Preset) -> None:
    """Refuse ``train.fsdp`` where it is not defined."""
    if not preset.train.fsdp:
        return
    others = {
        "a single process": process_count() == 1,  # its weights are spread over several, which torchrun starts
        "encoder.lora": preset.encoder.lora,  # frozen and trained weights in one layer
        "loss": preset.loss,  # it may read the student's weights as it likes
        "train.compile": preset.train.compile,
        "train.precision = 'fp16'": preset.train.precision == "fp16",  # each process would scale its own losses
    }
    for name, used in others.items():
        if used:
            raise UserError(f"train.fsdp = true does not go with {name}", "change that, or set train.fsdp = false")


def check_parts(objective: Objective) -> None:
    """Refuse a student without a transformer, and components that read its weights where no process has them all."""
    why = "" if language_model(objective.model) else "the model has no transformer to spread"
    student = {id(part) for part in (*objective.model.modules(), *objective.model.parameters())}
    for part in objective.parts:
        inside = part.modules() if isinstance(part, nn.Module) else [part]
        reads = any(id(held) in student for module in inside for held in _held(module))
        if reads or KEEP in getattr(part, "needs", ()):
            why = f"{type(part).__name__.strip('_')} reads the weights of the student itself"
    if why:
        raise UserError(f"train.fsdp = true: {why}", "set train.fsdp = false, or choose another model or method")


def _held(module: Any) -> Iterator[Any]:
    """Modules and weights that an object holds: its own, and those that it refers to."""
    if isinstance(module, nn.Module):
        yield from (*module._modules.values(), *module._parameters.values())
    for value in vars(module).values() if hasattr(module, "__dict__") else ():
        yield from value if isinstance(value, (tuple, list)) else (value,)


class ShardedTrainer(Trainer):
    """Writes and reads the same plain files as `Trainer`. FSDP2 averages the gradients, so nothing wraps the model.

    The objective gets a spread copy of the student; its second encoders are spread in place. The plain student lies in
    main memory, where the first process's gets the weights that are saved.
    """

    model: Any
    optimizer: Any

    def __init__(self, loss: Any, **kwargs: Any) -> None:
        device = loss.model.device
        self.plain = loss.model.to("cpu")
        loss.model = self.student = deepcopy(self.plain)  # a GPU gets it layer by layer
        shard(self.student, device)
        self.student.to(device)
        for peer, _ in loss.peers:
            for encoder in peer.modules():
                if isinstance(encoder, SentenceTransformer):
                    shard(encoder, device)
        super().__init__(model=self.student, loss=loss, **kwargs)
        self.accelerator.prepare_model = partial(self.accelerator.prepare_model, evaluation_mode=True)

    def collect(self) -> SentenceTransformer:
        """The plain student with the weights of now. All processes must call."""
        state = collected(self.student.state_dict())
        if process_number() == 0:
            self.plain.load_state_dict(state)
        return self.plain

    def get_optimizer_cls_and_kwargs(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Groups of spread weights, and of plain ones."""
        cls, options = super().get_optimizer_cls_and_kwargs(*args, **kwargs)
        groups = [given | {"params": kind} for given in options["optimizer_dict"] for kind in by_kind(given["params"])]
        return cls, options | {"optimizer_dict": groups}

    def _clip_grad_norm(self, model: nn.Module) -> Tensor:
        return clip(self.loss.parameters(), self.args.max_grad_norm)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        """With whole weights on each process, each encodes its part of the texts."""
        with gathered(self.model):
            return super().evaluation_loop(*args, **kwargs)

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        optimizer: Any = self.optimizer
        state = collected(optimizer.state_dict())
        self.model, self.optimizer = self.collect(), SimpleNamespace(state_dict=lambda: state)
        try:
            super()._save_checkpoint(*args, **kwargs)
        finally:
            self.model, self.optimizer = self.student, optimizer

    def _load_from_checkpoint(self, checkpoint_path: str) -> None:
        self.model = self.plain
        super()._load_from_checkpoint(checkpoint_path)
        self.model = self.student
        load_whole(self.model, self.plain.state_dict())

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        read = partial(torch.load, map_location="cpu", weights_only=True, mmap=True)
        state = read(Path(checkpoint) / OPTIMIZER_NAME)
        weights = [weight for group in self.optimizer.param_groups for weight in group["params"]]
        for number, kept in state["state"].items():
            like = weights[number]
            state["state"][number] = {k: spread_like(v, like) if v.shape == like.shape else v for k, v in kept.items()}
        self.optimizer.load_state_dict(state)
        self.lr_scheduler.load_state_dict(read(Path(checkpoint) / SCHEDULER_NAME))
