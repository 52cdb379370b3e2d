"""The papers' evaluation inside anyone's sentence-transformers training."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator

from isotrope.evaluation.suite import checked_tasks, main_scores, run


class SuiteEvaluator(BaseEvaluator):
    """A suite as a sentence-transformers evaluator: one metric a task, and their mean under `SUITE_score`, fractions.

    Give it to a trainer as `evaluator=`; `metric_for_best_model` is then "eval_" + `primary_metric`. The arguments are
    those of `isotrope.evaluate`. The default is STS on the dev splits of STS-B and SICK-R: a model is not selected on
    what it is reported on.

    Raises:
        UserError: an unknown suite, task or setting; before any work.
    """

    def __init__(
        self,
        suite: str = "sts",
        data: str | Path | None = None,
        tasks: Sequence[str] | None = None,
        setting: str = "dev",
    ) -> None:
        super().__init__()
        self.suite, self.data, self.setting = suite, data, setting
        self.tasks = checked_tasks(suite, tasks, setting)
        self.primary_metric = f"{suite}_score"

    def __call__(self, model: SentenceTransformer, *_: Any, **__: Any) -> dict[str, float]:
        """Metrics named `SUITE_TASK` and `SUITE_score`; raises UserError as `isotrope.evaluate` does."""
        scores = main_scores(self.suite, run(model, self.suite, self.data, self.tasks, self.setting))
        named = {**scores, "score": sum(scores.values()) / len(scores)}
        return {f"{self.suite}_{name}": value for name, value in named.items()}
