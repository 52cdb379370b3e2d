"""What a person sees of a run, and how the two Ctrl-C end it."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path
from threading import Thread

import pytest
from rich.console import Console
from transformers import TrainerControl, TrainerState, TrainingArguments

from isotrope.console.plain import plain_console
from isotrope.training.progress import CtrlC, MetricsLog, Narrator


@pytest.fixture
def arguments(tmp_path: Path) -> TrainingArguments:
    return TrainingArguments(output_dir=str(tmp_path), report_to="none")


def narrator(folder: Path, console: Console | None = None) -> tuple[Narrator, io.StringIO]:
    out = io.StringIO()
    return Narrator(console or plain_console(file=out), MetricsLog(folder / "metrics.jsonl")), out


def test_losses_go_into_the_log_and_the_epoch_does_not(tmp_path: Path, arguments: TrainingArguments) -> None:
    narrates, _ = narrator(tmp_path)
    state = TrainerState(global_step=3)
    narrates.on_log(arguments, state, TrainerControl(), {"loss": 0.5, "infonce": 0.5, "epoch": 0.1})
    narrates.on_log(arguments, state, TrainerControl(), {"train_runtime": 9.0})
    assert narrates.log.records == [{"step": 3, "loss": 0.5, "infonce": 0.5}]


def test_an_evaluation_is_one_line_and_a_score_is_times_100(tmp_path: Path) -> None:
    narrates, out = narrator(tmp_path)
    narrates.evaluated(5, {"score": 0.12345, "uniformity": -1.5})
    narrates.evaluated(10, {"alignment": 0.25})
    assert out.getvalue() == "step 5: score 12.35  uniformity -1.5000\nstep 10: alignment 0.2500\n"


def test_the_bar_begins_where_the_run_goes_on_and_shows_loss_and_dev_score(
    tmp_path: Path, arguments: TrainingArguments
) -> None:
    out = io.StringIO()
    narrates, _ = narrator(tmp_path, Console(file=out, force_terminal=True, width=120, color_system=None))
    state = TrainerState(global_step=15, max_steps=20)
    narrates.on_train_begin(arguments, state, TrainerControl())
    assert narrates.bar is not None
    narrates.bar.drawn.refresh()
    assert "15/20 steps" in out.getvalue()
    narrates.on_log(arguments, state, TrainerControl(), {"loss": 0.51234})
    narrates.evaluated(15, {"score": 0.25})
    state.global_step = 16
    narrates.on_step_end(arguments, state, TrainerControl())
    narrates.bar.drawn.refresh()
    assert "16/20 steps" in out.getvalue()
    assert "loss 0.5123  dev 25.00" in out.getvalue()
    narrates.close()
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l"), "the cursor is back"
    narrates.close()


def test_before_training_begins_nothing_is_needed(tmp_path: Path, arguments: TrainingArguments) -> None:
    narrates, _ = narrator(tmp_path)
    narrates.on_step_end(arguments, TrainerState(), TrainerControl())
    narrates.close()


def test_the_first_ctrl_c_asks_for_the_end_of_the_step_and_the_second_is_at_once(arguments: TrainingArguments) -> None:
    before, listening, control = signal.getsignal(signal.SIGINT), CtrlC(), TrainerControl()
    listening.on_train_begin(arguments, TrainerState(), control)
    try:
        listening.on_step_end(arguments, TrainerState(), control)
        assert not control.should_training_stop
        os.kill(os.getpid(), signal.SIGINT)
        assert listening.asked
        listening.on_step_end(arguments, TrainerState(), control)
        assert control.should_training_stop
        assert control.should_save
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        listening.close()
    assert signal.getsignal(signal.SIGINT) is before
    listening.close()
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_the_signal_is_left_alone(arguments: TrainingArguments) -> None:
    """Python lets the main thread alone set it: a notebook's worker trains all the same."""
    before, listening, failed = signal.getsignal(signal.SIGINT), CtrlC(), []

    def work() -> None:
        try:
            listening.on_train_begin(arguments, TrainerState(), TrainerControl())
            listening.close()
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []
    assert signal.getsignal(signal.SIGINT) is before
