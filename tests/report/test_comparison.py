"""The table of before and after."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from isotrope.evaluation.significance import compare_tasks
from isotrope.report.comparison import of_run


def test_a_row_a_task_and_the_average_of_several() -> None:
    generator = np.random.default_rng(0)
    old = {name: generator.random(50) for name in ("STSBenchmark", "mine")}
    found = asdict(compare_tasks(old, {name: values - 0.1 for name, values in old.items()}))
    table = of_run(found)
    assert [row[0] for row in table.rows] == ["STS-B", "mine", "average"]
    assert table.rows[0][3:5] == ["−10.00", "−10.00 … −10.00"]
    assert table.rows[2][-1] == "worse"
    found["per_task"].pop("mine")
    assert [row[0] for row in of_run(found).rows] == ["STS-B"]
