"""The objective in a checkpoint: what sentence-transformers leaves out when it saves and clips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.encoder.sharded import clip, collected, load_whole
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.outside import OutsideLoss
from isotrope.training.checkpoints import checkpoint_folder

WEIGHTS = "objective.safetensors"


class ObjectiveState(TrainerCallback):
    """Saves the objective's own weights beside every checkpoint, restores them at resume, and clips their gradients.

    sentence-transformers optimises a loss's own parameters (a head) but neither saves nor clips them. This callback
    does, in any script: ``SentenceTransformerTrainer(loss=objective, callbacks=[ObjectiveState(objective)])``.
    Gradients of the objective are clipped to ``args.max_grad_norm`` by their own norm. With isotrope's trainer this
    changes nothing: it has clipped encoder and objective together before.

    Raises:
        UserError: at resume, if the checkpoint holds no objective; when the trainer logs, if the objective is
            not the one that is trained, or some weights are not finite; if there are two of these callbacks.
    """

    def __init__(self, objective: Objective | OutsideLoss) -> None:
        self.objective = objective

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Tell of a divergence: the trainer logs a loss that is no number as 0."""
        if not self.objective.step:
            remedy = "give the same objective to the trainer and to ObjectiveState"
            raise UserError("ObjectiveState has an objective that is not trained", remedy)
        if not all(bool(weights.isfinite().all()) for weights in self.objective.parameters()):
            problem = f"training diverged before step {state.global_step}: some weights are not finite"
            raise UserError(problem, "lower the learning rate")

    def own_state(self) -> dict[str, Tensor]:
        """The objective's weights, buffers and step number, without the encoder. All processes must call."""
        state = self.objective.state_dict()
        own = collected({name: value for name, value in state.items() if not name.startswith("model.")})
        return {name: value.contiguous() for name, value in own.items()}

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Write the objective into the checkpoint."""
        own = self.own_state()
        if state.is_world_process_zero:
            save_file(own, checkpoint_folder(Path(args.output_dir), state.global_step) / WEIGHTS)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """At resume, load what ``on_save`` wrote."""
        if vars(state).setdefault("objective_state", self) is not self:
            remedy = "train one Objective, which takes several datasets as well"
            raise UserError("two ObjectiveState callbacks would write to one file", remedy)
        if state.global_step == 0:
            return
        path = checkpoint_folder(Path(args.output_dir), state.global_step) / WEIGHTS
        if not path.is_file():
            raise UserError(
                f"{path} is missing, so the head would start from random weights",
                "resume a run that had ObjectiveState",
            )
        kept = load_file(path)
        if lost := sorted(self.own_state().keys() - kept.keys()):
            raise UserError(f"{path} lacks {lost[0]}", "resume with the preset that the run began with")
        load_whole(self.objective, kept)

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Clip what the trainer's own clipping does not reach."""
        if args.max_grad_norm:
            own = [p for name, p in self.objective.named_parameters() if not name.startswith("model.")]
            clip(own, args.max_grad_norm)

    def on_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        """Call ``after_step`` of the components that have it."""
        self.objective.after_step()
