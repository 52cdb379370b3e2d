"""The plan: it fits into the time, names what it leaves out, and is refused if it is another's."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from isotrope.errors import UserError
from isotrope.improvement.candidates import Candidate, CandidateTrainer
from isotrope.improvement.clock import check_minutes
from isotrope.improvement.plan import (
    FEWEST_JUDGING,
    Plan,
    Teaching,
    Workload,
    check_plan,
    make_plan,
    minutes_for_trainings,
    read_plan,
)
from isotrope.store.files import write_json

NO_TEACHING = Teaching()


def workload(reading: float = 4500, training: float = 50, **changes: Any) -> Workload:
    """15,211 long documents in twenty minutes; MiniLM on two cores reads about 4,500 words."""
    usual = Workload(
        seconds=1200,
        most_choosing=300,
        most_judging=1000,
        words_choosing=500,
        words_judging=500,
        fitting_documents=5000,
        fitting_words=750_000,
        whitening_words=20_000,
        general_words=6000,
        reading={"": reading},
        training=training,
        untrained=[Candidate(name="keep")],
        judged_by_documents=True,
        recipes=7,
        most_pairs=8 * 13_900,
    )
    return replace(usual, **changes)


def seconds_of_trainings(plan: Plan) -> float:
    return sum(seconds for name, seconds in plan.seconds.items() if "training" in name)


MACHINES = {
    "MiniLM, two cores": (4500, 50),
    "MiniLM, one core": (2250, 25),
    "tiny": (60_000, 800),
    "slow training": (4500, 10),
    "BERT-base": (560, 6),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("minutes", [3, 8, 20, 120])
def test_a_plan_fits_into_the_time(machine: str, minutes: int) -> None:
    plan = make_plan(workload(*MACHINES[machine], seconds=60 * minutes), NO_TEACHING)
    assert sum(plan.seconds.values()) <= 60 * minutes * 1.05 or plan.judging == FEWEST_JUDGING


@pytest.mark.parametrize("machine", ["MiniLM, two cores", "MiniLM, one core"])
def test_the_time_is_used(machine: str) -> None:
    plan = make_plan(workload(*MACHINES[machine]), NO_TEACHING)
    assert sum(plan.seconds.values()) >= 0.8 * 1200


def test_many_documents_and_twenty_minutes_give_many_judges() -> None:
    plan = make_plan(workload(), NO_TEACHING)
    assert plan.choosing == 300
    assert plan.judging > 700


def test_time_that_no_training_can_use_judges() -> None:
    short = workload(seconds=240, training=1, judged_by_documents=False)
    _, by_share = short.choosing_and_judging()
    plan = make_plan(short, NO_TEACHING)
    assert not plan.short_trainings
    assert plan.judging > 1.5 * by_share
    assert 0.8 * 240 <= sum(plan.seconds.values()) <= 240


def test_less_time_gives_a_shorter_plan() -> None:
    plans = [make_plan(workload(seconds=60 * minutes), NO_TEACHING) for minutes in (5, 10, 20)]
    longest = [max(plan.long_trainings) for plan in plans]
    assert longest == sorted(longest)
    assert [plan.judging for plan in plans] == sorted(plan.judging for plan in plans)


def test_all_short_trainings_are_equal_and_the_best_long_one_is_longest() -> None:
    plan = make_plan(workload(60_000, 800), NO_TEACHING)
    assert len(plan.short_trainings) == 7
    assert len(set(plan.short_trainings)) == 1
    assert len(plan.long_trainings) == 4
    assert list(plan.long_trainings) == sorted(plan.long_trainings, reverse=True)
    assert plan.long_trainings[0] > plan.short_trainings[0]


def test_if_the_time_is_short_one_training_gets_all_of_it() -> None:
    plan = make_plan(workload(4500, 30, seconds=420), NO_TEACHING)
    assert len(plan.short_trainings) == 1
    assert plan.short_trainings == plan.long_trainings
    assert plan.short_trainings[0] >= 256


def test_a_collection_bounds_the_pairs() -> None:
    plan = make_plan(workload(60_000, 800, most_pairs=1280), NO_TEACHING)
    assert set(plan.short_trainings + plan.long_trainings) == {1280}


def test_without_time_for_a_training_it_is_said_how_much_is_needed() -> None:
    work = workload(training=2, seconds=120)
    plan = make_plan(work, NO_TEACHING)
    assert not plan.short_trainings
    minutes = minutes_for_trainings(work, plan)
    assert make_plan(workload(training=2, seconds=120 * minutes), NO_TEACHING).short_trainings


def test_the_slowest_of_several_models_decides() -> None:
    others = [Candidate(name="keep"), Candidate(name="large", start="large")]
    several = replace(workload(), reading={"": 4500, "large": 500}, untrained=others)
    plan = make_plan(several, NO_TEACHING)
    assert plan.seconds["large"] > 3 * plan.seconds["keep"]


def test_teachers_take_time_from_trainings() -> None:
    teaching = Teaching({"large": 300.0}, {"slow": "it takes long"})
    plan, without = (make_plan(workload(), each) for each in (teaching, NO_TEACHING))
    assert seconds_of_trainings(plan) < seconds_of_trainings(without)
    assert plan.left_out == {"slow": "it takes long"}


def test_a_plan_is_read_from_a_folder_a_record_or_itself(tmp_path: Path) -> None:
    plan = make_plan(workload(), NO_TEACHING)
    write_json(tmp_path / "result.json", {"plan": plan.model_dump(mode="json")})
    assert read_plan(tmp_path) == read_plan(plan.model_dump(mode="json")) == read_plan(plan) == plan


def test_a_plan_of_an_earlier_version_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        read_plan({"size": {"queries": 10}, "trials": []})
    assert caught.value.code == "unreadable-plan"


PLAN = Plan(choosing=1, judging=1, teachers=("large",), candidates=(Candidate(name="keep"),))
OTHERS: dict[str, dict[str, Any]] = {
    "teacher": {"teachers": ("other",)},
    "model": {"candidates": (Candidate(name="x", start="x"),)},
    "training": {"candidates": (Candidate(name="x", recipe="crops"),)},
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_plan_of_another_race_is_refused(what: str, tmp_path: Path) -> None:
    documents: Any = SimpleNamespace()
    trainers = {"": CandidateTrainer("model", documents, 50, 100, 0, tmp_path)}
    check_plan(PLAN, trainers, {"large": "large"})
    with pytest.raises(UserError) as caught:
        check_plan(PLAN.model_copy(update=OTHERS[what]), trainers, {"large": "large"})
    assert caught.value.code == "plan-does-not-fit"


@pytest.mark.parametrize("minutes", [0, -1, 1e6, float("nan")])
def test_impossible_minutes_are_refused(minutes: float) -> None:
    with pytest.raises(UserError) as caught:
        check_minutes(minutes)
    assert caught.value.code == "impossible-minutes"
