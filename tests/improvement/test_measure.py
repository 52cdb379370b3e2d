"""Measuring a trial: as the plain encoder and its post steps would be scored, from vectors that are made once."""

from pathlib import Path

import numpy as np

from conftest import sentences
from isotrope.encoder import load
from isotrope.evaluation.document_tasks import tasks_of_texts
from isotrope.improvement.budget import Clock
from isotrope.improvement.candidates import POST_STEPS, Trial, linear_step
from isotrope.improvement.measure import (
    JUDGED_LENGTH,
    measure_trial,
    read_scores,
    speed_of,
    words_read,
    write_scores,
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


def test_scores_are_found_again_and_damage_counts_as_missing(tmp_path: Path) -> None:
    scores = {"keep": {"a → b": np.array([1.0, 0.5])}, "keep, soft": {"a → b": np.array([0.0, 1 / 3])}}
    path = tmp_path / "scores.npz"
    assert read_scores(path) == {}
    write_scores(path, scores)
    found = read_scores(path)
    assert {name: list(of) for name, of in found.items()} == {name: list(of) for name, of in scores.items()}
    np.testing.assert_array_equal(found["keep, soft"]["a → b"], scores["keep, soft"]["a → b"])
    path.write_bytes(path.read_bytes()[:40])
    assert read_scores(path) == {}


def test_the_speed_is_that_of_a_few_texts(tiny_model: Path) -> None:
    texts = ["a b c", "one two " * 100] * 20
    assert words_read(texts) == 20 * (3 + JUDGED_LENGTH)
    ticks = iter(range(99))
    speed, dimensions = speed_of(load(tiny_model), texts, Clock(100, now=lambda: float(next(ticks))))
    assert dimensions == 32
    assert speed == words_read(texts[:32]), "32 texts in one second"
