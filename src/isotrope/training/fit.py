"""The second step of a run: train the student in place, from the start or from the last whole
checkpoint.

Between the steps are evaluation, selection, the log, what a person sees, and Ctrl-C.
"""

import signal
import threading
import time
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.modules import Normalize
from sentence_transformers.util import batch_to_device
from torch import nn
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from isotrope.console.progress import Bar, progress, watch
from isotrope.encoder.adapters import merge_adapter
from isotrope.encoder.embed import freed_memory
from isotrope.encoder.prompts import used_prompt
from isotrope.errors import Stopped
from isotrope.evaluation.correlation import spearman
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.geometry import alignment, mean_cosine, uniformity
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.store.files import RecordLog
from isotrope.text.tokens import token_data
from isotrope.training import checkpoints
from isotrope.training.pairs import TransferDev
from isotrope.training.prepare import TrainingPlan
from isotrope.training.processes import process_count, process_number
from isotrope.training.trainer import ObjectiveState, Trainer, training_arguments

NOT_SCORES = {
    f"eval_{name}" for name in ("runtime", "samples_per_second", "steps_per_second", "loss")
}
# of the highest gold score: pairs above it are positives (STS-B: above 4 of 5; Gao et al., 2021)
CLOSE = 0.8
SPREAD = 4000  # sentences at most whose uniformity is taken: its time grows with their square


def fit(plan: TrainingPlan) -> dict[str, Any]:
    """Train ``plan.model``. At the end it has the best weights, or the last ones if no dev pairs
    select.

    With ``train.keep_head``, the head then stands behind it. A LoRA adapter becomes part of it, or
    is saved as such.

    Returns:
        How it went: steps, seconds, and the best step with its score, None if no dev pairs
            selected.
    """
    model, preset, folder = plan.model, plan.preset, plan.folder.checkpoints
    arguments = training_arguments(
        preset,
        folder,
        seed=plan.seed,
        max_texts=plan.max_texts,
        rounds=plan.corpus.rounds,
        trackers=plan.log_to,
    )
    found: list[Path | None] = [None]
    # the first process finds the checkpoint to resume from, and tells the others
    if process_number() == 0:
        folder.mkdir(exist_ok=True)
        found = [checkpoints.last_checkpoint(folder, plan.console.print)]
    if process_count() > 1:
        dist.broadcast_object_list(found, src=0)
    (start,) = found
    log = RecordLog(plan.folder.metrics_file, writing=process_number() == 0)
    # what a killed run wrote after its last checkpoint is dropped
    log.keep(checkpoints.records_of(start))
    narrator, state = (
        Narrator(plan.console, log, preset.train.patience),
        ObjectiveState(plan.objective),
    )
    with watch("making tokens", plan.console):
        length, others = preset.train.max_length, preset.encoder.positive_prompt
        dataset, collator = token_data(
            model, plan.corpus, plan.sample.rows, length, plan.console, others
        )
    evaluator = DevScore(plan.selecting) if plan.selecting else Signals(plan.watched, length)
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=dataset,
        loss=plan.objective,
        evaluator=WithHead(evaluator, plan.objective) if preset.train.keep_head else evaluator,
        data_collator=collator,
        callbacks=[state, narrator, GiveBack(), checkpoints.Sealing(log)],
    )
    trainer.remedy = f"lower train.learning_rate (now {preset.train.learning_rate:g}), or undo what you set besides"
    began = time.monotonic()
    if not narrator.exhausted:
        with progress("trained", None, plan.console, unit="steps") as narrator.bar:
            train_from(trainer, start)
    trainer.refuse_divergence()
    if best := checkpoints.best_of(log.records):
        kept = checkpoints.checkpoint_folder(folder, best["step"])
        trainer._load_from_checkpoint(str(kept))
        state.load(kept)
    if preset.train.keep_head:
        model.extend(head_layers(plan.objective))
    if preset.encoder.lora is not None and preset.encoder.lora.save == "merged":
        # in half precision, the rounding would hide most of what was learnt
        merge_adapter(model.float())
    return {
        "steps": max(checkpoints.checkpoint_step(start) if start else 0, trainer.state.global_step),
        "best_step": best and best["step"],
        "best_score": best and best["score"],
        "seconds": time.monotonic() - began,
    }


class DevScore(BaseEvaluator):
    """The score on each dev set, and their mean under ``score``; a sentence-transformers evaluator.

    Of pairs it is Spearman's correlation, of the transfer tasks their mean dev accuracy. The
    vectors of the first pairs also give alignment (of the close pairs) and uniformity: the papers'
    curves are those of STS-B alone.
    """

    def __init__(self, sets: Mapping[str, GradedPairs | TransferDev]) -> None:
        super().__init__()
        self.sets = sets

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        sets = {name: one for name, one in self.sets.items() if isinstance(one, GradedPairs)}
        scores, shape = dict[str, float](), dict[str, float]()
        if sets:
            known = Embeddings.of(
                model, (s for pairs in sets.values() for s in (*pairs.first, *pairs.second))
            )
            cosines = {name: pairs.similarities(known) for name, pairs in sets.items()}
            scores = {name: spearman(cosines[name], pairs.gold) for name, pairs in sets.items()}
            name, first = next(iter(sets.items()))
            own = len({*first.first, *first.second})  # its sentences were embedded first
            shape["uniformity"] = uniformity(known.vectors[: min(own, SPREAD)])
            if len(close := cosines[name][first.gold > CLOSE * first.gold.max()]):
                # of unit vectors: ‖u − v‖² = 2 − 2·cos
                shape["alignment"] = float(np.mean(2 - 2 * close))
        scores |= {
            name: one.accuracy(model)
            for name, one in self.sets.items()
            if isinstance(one, TransferDev)
        }
        return {**shape, **scores, "score": sum(scores.values()) / len(scores)}


class Signals(BaseEvaluator):
    """What can be watched without labels: alignment of two dropout views, uniformity, mean cosine."""

    def __init__(self, sentences: Sequence[str], max_length: int) -> None:
        super().__init__()
        self.sentences, self.max_length = list(sentences), max_length

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        first, second = (self._views(model) for _ in range(2))
        model.eval()
        rows = (
            model.encode(self.sentences, convert_to_numpy=False, convert_to_tensor=True)
            .float()
            .cpu()
            .numpy()
        )
        return {
            "alignment": alignment(first, second),
            "uniformity": uniformity(rows),
            "mean_cosine": mean_cosine(rows),
        }

    @torch.no_grad()
    def _views(self, model: SentenceTransformer) -> Any:
        model.train()
        prompt, parts = used_prompt(model) or None, []
        for start in range(0, len(self.sentences), 64):
            features = model.preprocess(
                self.sentences[start : start + 64], prompt=prompt, max_length=self.max_length
            )
            vectors = model(batch_to_device(features, model.device))["sentence_embedding"]
            parts.append(F.normalize(vectors, dim=-1).float().cpu())
        return torch.cat(parts).numpy()


def head_layers(objective: Any) -> list[nn.Module]:
    """The view steps as they are now, as modules of sentence-transformers: (N, D) -> (N, D).

    With ``train.keep_head`` they are part of the model: WhitenedCSE's "representation" is the
    output of its head (Zhuo et al., ACL 2023, Sec. 4.1,
    https://aclanthology.org/2023.acl-long.677). Rows have unit length at the end where the
    encoder's have.
    """
    layers = [layer for step in objective.views for layer in step.layers()]
    return [*layers, *([Normalize()] if isinstance(objective.model[-1], Normalize) else [])]


class WithHead(BaseEvaluator):
    """Another evaluator, of the student with its head. It shares the student's weights and copies
    the head's.
    """

    def __init__(self, evaluator: BaseEvaluator, objective: Any) -> None:
        super().__init__()
        self.evaluator, self.objective = evaluator, objective

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> Any:
        whole = copy(self.objective.model)
        whole._modules = dict(whole._modules)
        return self.evaluator(whole.extend(head_layers(self.objective)))


class Narrator(TrainerCallback):
    """Logs losses and evaluations, and shows them; keeps the best weights, and stops when patience
    ends.

    Its state is the log, so a resumed run continues exactly.
    """

    bar: Bar  # given before the training begins

    def __init__(self, console: Console, log: RecordLog, patience: int | None) -> None:
        self.console, self.log, self.patience = console, log, patience

    @property
    def exhausted(self) -> bool:
        """Whether early stopping has ended the run."""
        steps = [record["step"] for record in self.log.records if "score" in record]
        best = checkpoints.best_of(self.log.records)
        return (
            self.patience is not None
            and sum(not best or step > best["step"] for step in steps) >= self.patience
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.bar.update(state.global_step, total=state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.bar.update(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any) -> None:
        if "loss" in logs:
            self.log.add(
                {
                    "step": state.global_step,
                    **{key: value for key, value in logs.items() if key != "epoch"},
                }
            )
            self.bar.update(note=f"loss {logs['loss']:.4f}")

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any
    ) -> None:
        """Log the evaluation, and ask for a checkpoint if it is the best so far."""
        # without what the trainer adds
        scores = {key for key in metrics if key.startswith("eval_")} - NOT_SCORES
        step, values = (
            state.global_step,
            {key.removeprefix("eval_"): metrics[key] for key in metrics if key in scores},
        )
        if any(
            record["step"] == step and values.keys() <= record.keys() for record in self.log.records
        ):
            return  # the trainer evaluates again after the last step of an epoch
        record = {"step": step, **values}
        self.log.add(record)
        shown = {
            name: f"{100 * v:.2f}" if name == "score" else f"{v:.4f}" for name, v in values.items()
        }
        self.console.print(f"step {step}: {'  '.join(map(' '.join, shown.items()))}")
        control.should_training_stop |= self.exhausted
        control.should_save |= control.should_training_stop or record == checkpoints.best_of(
            self.log.records
        )


class CtrlC(TrainerCallback):
    """The first Ctrl-C ends the run after the current step, with a checkpoint. The second ends it
    at once.
    """

    asked = False  # of this process, or of another one

    def hear(self, *_: Any) -> None:
        """The handler of the signal."""
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop all processes at the same step."""
        self._agree(args.device)
        if self.asked:
            control.should_training_stop = control.should_save = True

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Hear what came after the last step, during its evaluation."""
        self._agree(args.device)

    def _agree(self, device: torch.device) -> None:
        if process_count() > 1:
            asked = torch.tensor(int(self.asked), device=device)
            dist.all_reduce(asked, op=dist.ReduceOp.MAX)
            self.asked = bool(asked)


def train_from(trainer: Any, start: Path | None) -> None:
    """Train to the end, from a checkpoint or from the beginning.

    Raises:
        Stopped: Ctrl-C; there is a checkpoint to go on from.
    """
    ctrl_c, before = CtrlC(), signal.getsignal(signal.SIGINT)
    trainer.callback_handler.callbacks.insert(0, ctrl_c)  # the others see what it asks for
    trainer.remove_callback(PrinterCallback)
    # Only the main thread can catch it, and under nohup it is ignored.
    catches = threading.current_thread() is threading.main_thread() and before != signal.SIG_IGN
    if catches:
        signal.signal(signal.SIGINT, ctrl_c.hear)
    try:
        trainer.train(resume_from_checkpoint=str(start) if start else None)
    finally:
        if catches:
            signal.signal(signal.SIGINT, before)
    if ctrl_c.asked:
        raise Stopped(
            f"stopped after step {trainer.state.global_step} of {trainer.state.max_steps}"
        )


class GiveBack(TrainerCallback):
    """Gives freed memory back: what the steps leave, and all before the model is evaluated or
    saved.
    """

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All of a step's memory but gradients and weights is free now."""
        if control.should_evaluate or control.should_save or control.should_training_stop:
            freed_memory.give_back()
        else:
            freed_memory.check()
