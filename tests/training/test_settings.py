"""The record of what was asked: the same settings, with the same defaults, as train takes."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, replace
from inspect import Parameter, signature
from pathlib import Path

import pytest

from isotrope.training.settings import RunSettings
from isotrope.training.train import train


def test_train_takes_the_same_settings_with_the_same_defaults() -> None:
    """``train`` says None where the record makes an empty dictionary of its own."""
    taken = {name: each.default for name, each in signature(train).parameters.items() if name != "console"}
    kept = {field.name: field.default for field in fields(RunSettings)}
    assert list(taken) == list(kept)
    for name, default in kept.items():
        expected = Parameter.empty if default is MISSING else default
        assert taken[name] == (None if name == "teachers" else expected), name


def test_every_setting_is_described_in_its_order() -> None:
    described = re.findall(r"^ {8}(\w+): ", RunSettings.__doc__ or "", flags=re.MULTILINE)
    assert described == [field.name for field in fields(RunSettings)]


@pytest.mark.parametrize(
    ("corpus", "paths"),
    [
        ("a.txt", ["a.txt"]),
        (Path("a.txt"), [Path("a.txt")]),
        (["a.txt", Path("b")], ["a.txt", Path("b")]),
        (("a.txt",), ["a.txt"]),
    ],
)
def test_a_corpus_is_one_path_or_many(corpus: object, paths: list[object]) -> None:
    """A name is not taken for a sequence of letters."""
    assert RunSettings(corpus=corpus, output="out").paths == paths  # type: ignore[arg-type]


def test_two_records_share_nothing_and_stay_as_they_are() -> None:
    one, other = (RunSettings(corpus="a", output="b") for _ in range(2))
    assert one == other
    assert one.teachers is not other.teachers
    assert replace(one, seed=3).seed == 3
    with pytest.raises(AttributeError):
        one.seed = 3  # type: ignore[misc]
