"""What the tests of studies share: a small study's file, plans, cells whose scores are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from isotrope.study.cell import DRAWS, RESAMPLES
from isotrope.study.plan import Cell, StudyPaths, StudyPlan
from isotrope.study.record import Measurement
from isotrope.study.spec import Spec

ROWS = """
[rows.SimCSE]
preset = "simcse"
published = {"Avg." = 76.25}
source = "RankCSE Table 2"
[rows.ListMLE]
preset = "rankcse-listmle"
published = {"Avg." = 80.36}
source = "RankCSE Table 2"
[rows.before]
train = false
[reference.DiffCSE]
published = {"Avg." = 78.49}
[teachers.simcse]
preset = "simcse"
seed = 7
[claims.rank]
better = "ListMLE"
than = "SimCSE"
text = "ranking helps"
[claims.teacher]
better = "ListMLE"
than = "simcse"
text = "the student passes its teacher"
[figures.curves]
kind = "curve"
title = "Over training"
columns = ["uniformity", "dev"]
rows = ["SimCSE", "ListMLE"]
[figures.cosines]
kind = "cosines"
title = "Cosines"
[figures.bars]
kind = "bars"
title = "Scores"
"""


def write_study(
    folder: Path, model: Path, corpus: Path, pairs: Path, rows: str = ROWS, seeds: int = 1
) -> Path:
    path = folder / "small.toml"
    path.write_text(
        f"""
title = "A small study"
note = "A note."
[run]
corpus = "{corpus}"
sentences = 96
seeds = {seeds}
backbone = "{model}"
dev = "{pairs}"
test = "dev-half"
set = ["train.batch_size=16", "train.eval_steps=3", "train.epochs=1", "encoder.pooling=mean",
       "train.learning_rate=1e-3"]
{rows}"""
    )
    return path


def quiet() -> Console:
    return Console(quiet=True)


def numbers(record: Any) -> Any:
    """A record without what the machine decides."""
    if isinstance(record, dict):
        return {
            key: numbers(value)
            for key, value in record.items()
            if key not in ("minutes", "memory", "seconds")
        }
    return [numbers(value) for value in record] if isinstance(record, list) else record


def planned(spec: Spec, folder: Path, forced: tuple[str, ...] = (), **options: Any) -> StudyPlan:
    return StudyPlan(spec, StudyPaths(folder), overrides=forced, **options)


def measured(
    made: StudyPlan, scores: Callable[[Cell], dict[str, float]], draws: bool = False
) -> StudyPlan:
    """The plan with every cell finished, its scores given instead of trained for."""
    for i, cell in enumerate(made.cells.values()):
        (cell.model if cell.keep_model else cell.folder).mkdir(parents=True)
        cell.job.begin()
        cell.numbers.mkdir()
        if draws:
            np.savez(
                cell.numbers / DRAWS, STS12=np.random.default_rng(i).normal(0.5, 0.01, RESAMPLES)
            )
        cell.finish(Measurement(scores=scores(cell)), cell.settings, environment={})
    return made
