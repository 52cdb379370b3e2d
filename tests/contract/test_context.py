"""What a component is built with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from isotrope import load
from isotrope.contract.context import BuildContext, built
from isotrope.errors import UserError


class Wide:
    def build(self, context: BuildContext) -> str:
        return f"wide {context.needed('width')}"


def test_a_student_tells_its_width_and_tokenizer(tiny_model: Path) -> None:
    student = load(tiny_model, "mean", device="cpu")
    context = BuildContext.of(student, folder=tiny_model)
    assert (context.width, context.folder, context.student) == (32, tiny_model, student)
    assert context.tokenizer("the river")["input_ids"]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UserError, match=r"needs the corpus of its run: give it: BuildContext\(corpus="):
        BuildContext(width=8).needed("corpus")


def test_built_goes_into_lists_and_dictionaries() -> None:
    plain = object()
    given: list[Any] = [Wide(), {"a": Wide(), "b": plain}]
    assert built(given, BuildContext(width=3)) == ["wide 3", {"a": "wide 3", "b": plain}]
