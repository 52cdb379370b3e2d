"""What is kept between steps."""

import io
from types import SimpleNamespace

import pytest

from isotrope.console.plain import plain_console
from isotrope.console.progress import progress
from isotrope.errors import UserError
from isotrope.pretraining.keeper import Keeper
from isotrope.pretraining.schedule import Schedule
from toy import TOY, curve, run_toy


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_held_out_loss_that_is_not_finite_ends_the_run_before_a_checkpoint(tmp_path, loss):
    console = plain_console(quiet=True)
    with progress("trained", 10, console) as bar:
        keeper = Keeper(tmp_path / "metrics.jsonl", Schedule(10, 8), 64, 3.0, console, bar)
    with pytest.raises(UserError, match=r"diverged at step 7: .*: lower the recipe's learning_rate \(now 0\.5\)"):
        keeper.on_evaluate(
            SimpleNamespace(learning_rate=0.5), SimpleNamespace(global_step=7), None, {"eval_loss": loss}
        )


def test_landmarks_have_a_checkpoint_however_short_the_run_is(corpus, tmp_path):
    shown = io.StringIO()
    run_toy(corpus, tmp_path, tokens=10 * TOY.step_tokens, checkpoint_minutes=60, console=plain_console(file=shown))
    assert [row["step"] for row in curve(tmp_path)] == [8, 10]  # the start of the decay, and the end
    assert sorted(path.name for path in tmp_path.glob("checkpoints/*")) == ["checkpoint-10", "checkpoint-8"]
    assert "0.0 M of 0.0 M tokens, loss" in shown.getvalue()


def test_the_learning_rate_rises_stays_and_falls(finished):
    rates = [row["learning_rate"] for row in curve(finished)]
    assert rates[:5] == pytest.approx([0, 0.004, 0.008, 0.012, 0.016])
    assert rates[5:17] == [TOY.learning_rate] * 12
    assert TOY.learning_rate > rates[17] > rates[18] > rates[19] > 0
