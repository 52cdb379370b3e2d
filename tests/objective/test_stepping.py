"""Components hear of each step, and the number of the step is saved."""

from __future__ import annotations

from typing import Any

from isotrope.objective.stepping import Stepping


class Heard:
    def __init__(self) -> None:
        self.steps: list[Any] = []

    def after_step(self, objective: Any) -> None:
        self.steps.append(objective)


def test_parts_and_teachers_hear_of_a_step() -> None:
    made, part, teacher = Stepping(), Heard(), Heard()
    made.parts, made.teachers, made.step = [part, object()], {"one": teacher}, 7
    made.after_step()
    assert part.steps == teacher.steps == [made]
    again = Stepping()
    again.load_state_dict(made.state_dict())
    assert again.step == 7
