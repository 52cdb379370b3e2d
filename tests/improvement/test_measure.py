"""Measuring a trial: as the plain encoder and its post steps would be scored, from vectors that are made once."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from conftest import sentences
from isotrope.encoder import load
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.improvement import measure
from isotrope.improvement.candidates import POST_STEPS, Trial, linear_step
from isotrope.improvement.measure import (
    JUDGED_LENGTH,
    measure_trial,
    speed_of,
    words_read,
)
from isotrope.post.fitted import FittedEncoder


def test_the_scores_are_those_of_the_steps_behind_the_encoder(tiny_model: Path) -> None:
    model, fitted_on = load(tiny_model), sentences(200, seed=3)
    tasks = tasks_of_texts([" ".join(sentences(3, seed=place)) for place in range(40)], fewest=1)
    found = measure_trial(model, Trial("keep"), tasks, fitted_on)
    assert list(found) == ["keep", *POST_STEPS]
    for name, step in Trial("keep").candidates():
        encoder = FittedEncoder(model, linear_step(step)).fit(fitted_on) if step else model
        for task in tasks:
            np.testing.assert_allclose(found[name][task.name], task.score(encoder), err_msg=name)


def test_a_step_that_cannot_be_fitted_is_left_out(tiny_model: Path) -> None:
    tasks = tasks_of_texts(sentences(4), fewest=1)
    found = measure_trial(load(tiny_model), Trial("keep"), tasks, sentences(1, seed=3))
    assert "keep" in found
    assert "full whitening" not in found, "one text has no variance"


def test_the_speed_is_that_of_a_few_texts(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a b c", "one two " * 100] * 20
    assert words_read(texts) == 20 * (3 + JUDGED_LENGTH)
    ticks = iter((1.0, 2.0))
    monkeypatch.setattr(measure, "time", SimpleNamespace(monotonic=lambda: next(ticks, 2.0)))
    assert speed_of(load(tiny_model), texts) == words_read(texts[:32]), "32 texts in one second"
