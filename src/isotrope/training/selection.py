"""Which weights a run keeps: the best on labelled dev pairs, or without pairs the last, with signals to watch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from isotrope.encoder.prompts import used_prompt
from isotrope.evaluation.embed import Known
from isotrope.evaluation.geometry import alignment, mean_cosine, uniformity
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sts import spearman
from isotrope.store.records import RecordLog
from isotrope.training.checkpoints import best_of
from isotrope.training.pairs import TransferDev

NOT_SCORES = {"runtime", "samples_per_second", "steps_per_second", "loss"}  # what the trainer adds to an evaluation
CLOSE = 0.8  # of the highest gold score: pairs above it are positives (STS-B: above 4 of 5; Gao et al., 2021)
SPREAD = 4000  # sentences at most whose uniformity is taken: its time grows with their square


class DevScore(BaseEvaluator):
    """The score on each dev set, and their mean under ``score``; a sentence-transformers evaluator.

    Of pairs it is Spearman's correlation, of the transfer tasks their mean dev accuracy.

    From the vectors of the first set also alignment (of the close pairs) and uniformity, which show how the space
    changes. The papers' curves are those of STS-B alone.
    """

    def __init__(self, sets: Mapping[str, Pairs | TransferDev]) -> None:
        super().__init__()
        self.sets = {name: one for name, one in sets.items() if isinstance(one, Pairs)}
        self.tasks = {name: one for name, one in sets.items() if isinstance(one, TransferDev)}

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        scores, shape = self._of_pairs(model) if self.sets else ({}, {})
        scores |= {name: one.accuracy(model) for name, one in self.tasks.items()}
        return {**shape, **scores, "score": sum(scores.values()) / len(scores)}

    def _of_pairs(self, model: SentenceTransformer) -> tuple[dict[str, float], dict[str, float]]:
        """Scores, and how the space is shaped."""
        known = Known.of(model, (s for pairs in self.sets.values() for s in (*pairs.first, *pairs.second)))
        cosines = {name: known.cosines(pairs) for name, pairs in self.sets.items()}
        scores = {name: spearman(cosines[name], pairs.gold) for name, pairs in self.sets.items()}
        name, first = next(iter(self.sets.items()))
        close = cosines[name][first.gold > CLOSE * first.gold.max()]
        own = len({*first.first, *first.second})  # its sentences were embedded first
        shape = {"uniformity": uniformity(known.vectors[: min(own, SPREAD)])}
        if len(close):
            shape["alignment"] = float(np.mean(2 - 2 * close))  # of unit vectors: ‖u − v‖² = 2 − 2·cos
        return scores, shape


class Signals(BaseEvaluator):
    """What can be watched without labels: alignment of two dropout views, uniformity, mean cosine."""

    def __init__(self, sentences: Sequence[str], max_length: int) -> None:
        super().__init__()
        self.sentences, self.max_length = list(sentences), max_length

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        first, second = (self._views(model) for _ in range(2))
        model.eval()
        rows = model.encode(self.sentences, convert_to_numpy=False, convert_to_tensor=True).float().cpu().numpy()
        return {"alignment": alignment(first, second), "uniformity": uniformity(rows), "mean_cosine": mean_cosine(rows)}

    @torch.no_grad()
    def _views(self, model: SentenceTransformer) -> Any:
        model.train()
        prompt, parts = used_prompt(model) or None, []
        for start in range(0, len(self.sentences), 64):
            features = model.preprocess(self.sentences[start : start + 64], prompt=prompt, max_length=self.max_length)
            features = {k: v.to(model.device) if isinstance(v, torch.Tensor) else v for k, v in features.items()}
            parts.append(F.normalize(model(features)["sentence_embedding"], dim=-1).float().cpu())
        return torch.cat(parts).numpy()


class WithHead(BaseEvaluator):
    """Another evaluator, of the model that ``whole`` gives: the student with its head."""

    def __init__(self, evaluator: BaseEvaluator, whole: Callable[[], SentenceTransformer]) -> None:
        super().__init__()
        self.evaluator, self.whole = evaluator, whole

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> Any:
        return self.evaluator(self.whole())


class Selection(TrainerCallback):
    """Logs the evaluations, asks for a checkpoint of the best one so far, and stops when patience is used up.

    Its state is the log, so a resumed run continues exactly.
    """

    def __init__(self, log: RecordLog, patience: int | None, report: Callable[[int, dict[str, float]], None]) -> None:
        self.log, self.patience, self.report = log, patience, report

    @property
    def exhausted(self) -> bool:
        """Whether early stopping has ended the run."""
        steps = [record["step"] for record in self.log.records if "score" in record]
        best = best_of(self.log.records)
        return self.patience is not None and sum(not best or step > best["step"] for step in steps) >= self.patience

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **_: Any,
    ) -> None:
        """Log the evaluation, and keep its weights if it is the best so far."""
        found = {key.removeprefix("eval_"): value for key, value in metrics.items() if key.startswith("eval_")}
        values = {key: value for key, value in found.items() if key not in NOT_SCORES}
        if any(record["step"] == state.global_step and values.keys() <= record.keys() for record in self.log.records):
            return  # the trainer evaluates again after the last step of an epoch
        record = {"step": state.global_step, **values}
        self.log.add(record)
        self.report(state.global_step, values)
        control.should_training_stop |= self.exhausted
        control.should_save |= control.should_training_stop or record == best_of(self.log.records)
