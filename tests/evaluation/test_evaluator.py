"""A suite inside a training."""

from __future__ import annotations

from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation.suite import SUITES


def test_evaluator_in_a_training(data: Path) -> None:
    from isotrope import load
    from isotrope.evaluation.evaluator import SuiteEvaluator

    evaluator = SuiteEvaluator(data=data, tasks=["SICKRelatedness"])
    model = load("isotrope/tiny")
    metrics = evaluator(model)
    assert metrics.keys() == {"sts_SICKRelatedness", "sts_score"}
    assert evaluator.primary_metric in metrics
    assert metrics["sts_score"] == pytest.approx(SUITES["sts"].evaluate(model, ["SICKRelatedness"], data, "dev")[
        "SICKRelatedness"]["spearman"]["dev"])  # fmt: skip
    with pytest.raises(UserError, match="no task 'STS12'"):
        SuiteEvaluator(tasks=["STS12"])
