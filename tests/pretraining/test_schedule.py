"""The learning rate's course, and what a new budget does to it."""

import math

import pytest
import torch
from transformers import get_scheduler

from isotrope.errors import UserError
from isotrope.pretraining.schedule import Schedule, reschedule
from isotrope.training.checkpoints import checkpoint_folder


def test_the_rate_is_warmed_up_stays_and_falls_to_zero_at_the_end():
    schedule = Schedule(100, 80)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    options = {"num_decay_steps": schedule.steps - schedule.decay_start, "decay_type": "1-sqrt"}
    scheduler = get_scheduler("warmup_stable_decay", optimizer, 10, schedule.steps, options)
    rates = []
    for _ in range(schedule.steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[5] == pytest.approx(0.5)
    assert rates[10:81] == [1.0] * 71
    assert rates[85] == pytest.approx(1 - math.sqrt(5 / 20))
    assert rates[100] == pytest.approx(0, abs=1e-9)


def test_a_new_budget_prolongs_or_cools_down(tmp_path):
    whole = [checkpoint_folder(tmp_path, step) for step in (40, 50, 80, 90, 100)]
    assert reschedule([], Schedule(0, 0), 100, 0.2) == (Schedule(100, 80), [])
    schedule, usable = reschedule(whole, Schedule(100, 80), 1000, 0.2)  # back to where the decay began, then on
    assert schedule == Schedule(1000, 800)
    assert usable == whole[:3]
    schedule, usable = reschedule(whole, Schedule(1000, 800), 110, 0.2)  # cool down from where it is
    assert schedule == Schedule(110, 100)
    assert usable == whole
    with pytest.raises(UserError, match="larger budget"):
        reschedule(whole, Schedule(1000, 800), 100, 0.2)


def test_the_last_two_checkpoints_and_the_start_of_the_decay_are_kept(tmp_path):
    whole = [checkpoint_folder(tmp_path, step) for step in (10, 20, 30, 40, 50)]
    assert Schedule(60, 20).kept(whole) == [whole[1], *whole[3:]]
    assert Schedule(60, 55).kept(whole[:1]) == whole[:1]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"steps": 3}', '{"steps": "3", "decay_start": 1}', '{"steps": 3, "decay_start": 4}']
)
def test_a_damaged_plan_is_one_clear_line(tmp_path, text):
    Schedule(3, 1).write(tmp_path / "plan.json")
    assert Schedule.read(tmp_path / "plan.json") == Schedule(3, 1)
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(UserError, match=r"plan\.json is damaged"):
        Schedule.read(tmp_path / "plan.json")
