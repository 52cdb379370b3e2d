"""Whole runs: killed, stopped, prolonged, damaged; and folders that are not ours."""

import io
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from isotrope.cli.main import app
from isotrope.console.plain import plain_console
from isotrope.errors import Stopped, UserError
from isotrope.pretraining import pretrain
from isotrope.pretraining.recipe import RECIPES
from isotrope.store.mark import claim
from isotrope.training.checkpoints import checkpoint_step, whole_checkpoints
from toy import TOY, curve, run_toy, same, weights


def sealed(output: Path) -> list[Path]:
    return list(output.glob("checkpoints/checkpoint-*/contents.json"))


def test_a_run_killed_at_any_moment_ends_with_the_same_weights(corpus, finished, tmp_path):
    child, deadline = Child(corpus, tmp_path), time.monotonic() + 120
    while len(sealed(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    steps = TOY.tokens // TOY.step_tokens
    assert checkpoint_step(whole_checkpoints(tmp_path / "checkpoints")[-1]) < steps
    torn = tmp_path / "checkpoints" / f"checkpoint-{steps - 1}"  # as if the kill had come while this one was written
    claim(torn, "checkpoint")
    (torn / "model.safetensors").write_bytes(b"torn")
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))
    losses = [{row["step"]: row["held_out_loss"] for row in curve(output)} for output in (tmp_path, finished)]
    assert losses[0] == losses[1]


def stop(corpus: Path, output: Path, lines: int = 3) -> str:
    """Press Ctrl-C at the line of a checkpoint; -> what was shown."""

    class Interrupting(io.StringIO):
        def write(self, text: str) -> int:
            if self.getvalue().count("tokens/s") + text.count("tokens/s") == lines:
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    shown = Interrupting()
    with pytest.raises(Stopped, match=r"after step \d+ of 20"):
        run_toy(corpus, output, console=plain_console(file=shown))
    return shown.getvalue()


def test_ctrl_c_leaves_a_checkpoint_and_the_run_goes_on(corpus, finished, tmp_path):
    stop(corpus, tmp_path)
    assert not (tmp_path / "model").exists()
    assert sealed(tmp_path)
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))


@pytest.mark.slow
def test_a_finished_run_is_exported_again_and_can_be_prolonged(corpus, finished, tmp_path):
    run_toy(corpus, tmp_path)
    run_toy(corpus, tmp_path)  # nothing is left to train
    assert same(weights(tmp_path), weights(finished))
    run_toy(corpus, tmp_path, tokens=2 * TOY.tokens)
    steps = [row["step"] for row in curve(tmp_path)]
    assert steps == sorted(set(steps))
    straight = tmp_path / "straight"
    run_toy(corpus, straight, tokens=2 * TOY.tokens)
    assert same(weights(tmp_path), weights(straight))  # the short run's decay has left no trace


@pytest.mark.slow
def test_kills_at_random_moments_two_at_once(corpus, finished, tmp_path):
    """Of two processes that want the folder one gives way; whatever was killed, the next call ends as undisturbed."""
    expected = (finished / "model" / "model.safetensors").read_bytes()
    draw, began = random.Random(0), time.monotonic()
    assert Child(corpus, tmp_path / "timed").wait() == 0
    length = time.monotonic() - began
    for number in range(12):
        output = tmp_path / f"killed-{number}"
        for _ in range(2):
            children = [Child(corpus, output) for _ in range(1 + number % 2)]
            time.sleep(draw.uniform(0.02, 0.9) * length)
            for one in children:
                one.kill()
            assert {one.wait() for one in children} <= {0, 2, -signal.SIGKILL}
        assert Child(corpus, output).wait() == 0
        assert (output / "model" / "model.safetensors").read_bytes() == expected
        assert {path.name for path in output.iterdir()} == {path.name for path in finished.iterdir()}


class Child:
    """A run in a fork, with files of at most ``most`` bytes: exit code 0, 2 for a user's error, 1 for anything else."""

    def __init__(self, corpus: Path, output: Path, most: int = resource.RLIM_INFINITY) -> None:
        self.process = os.fork()
        if not self.process:
            code = 1
            try:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
                run_toy(corpus, output)
                code = 0
            except UserError as error:
                code = 2
                sys.stderr.write(f"{error}\n")
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


@pytest.mark.parametrize("most", [2_000, 30_000])  # bytes of a file: the ids, the optimizer
def test_a_full_disk_is_one_clear_line_and_the_run_goes_on(corpus, finished, tmp_path, most):
    assert Child(corpus, tmp_path, most).wait() == 2
    assert not list(tmp_path.rglob("*.isotrope-draft"))
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "damage"), [("model.safetensors", "truncated"), ("rng_state.pth", "missing")])
def test_a_damaged_checkpoint_is_named_and_the_older_one_is_used(corpus, finished, tmp_path, name, damage):
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    (output / "result.json").unlink()
    path = sorted(output.glob("checkpoints/checkpoint-*"), key=checkpoint_step)[-1] / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-9])
    shown = io.StringIO()
    run_toy(corpus, output, console=plain_console(file=shown))
    assert "checkpoint-20 is damaged; it is not used" in shown.getvalue()
    assert same(weights(output), weights(finished))
    assert [row["step"] for row in curve(output)] == list(range(1, 21))


def test_what_was_made_of_the_text_is_made_again_where_it_is_damaged(corpus, finished, tmp_path):
    stop(corpus, tmp_path, lines=1)
    for checkpoint in tmp_path.glob("checkpoints/checkpoint-*"):
        shutil.rmtree(checkpoint)
    damaged = {"text/tokens.bin": b"odd", "vectors/vectors.npy": b"", "tokenizer/tokenizer.json": b"{}"}
    for name, contents in damaged.items():
        (tmp_path / "prepared" / name).write_bytes(contents)
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))


@pytest.mark.parametrize("name", ["job.json", "plan.json"])
@pytest.mark.parametrize("contents", ["{", "[1]"])
def test_a_damaged_record_is_one_clear_line_and_nothing_is_lost(corpus, finished, tmp_path, name, contents):
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    (output / name).write_text(contents)
    with pytest.raises(UserError, match=rf"{name} is damaged.*--restart"):
        run_toy(corpus, output)
    assert same(weights(output), weights(finished))


@pytest.mark.parametrize("line", ['{"step": "x"}', '{"step"'])
def test_a_damaged_curve_counts_as_far_as_it_is_whole(corpus, finished, tmp_path, line):
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    (output / "result.json").unlink()
    rows = (output / "metrics.jsonl").read_text().splitlines()
    (output / "metrics.jsonl").write_text("\n".join([*rows[:4], line, *rows[5:]]) + "\n")
    run_toy(corpus, output)
    assert [row["step"] for row in curve(output)] == [1, 2, 3, 4]
    assert "nats" in (output / "model" / "README.md").read_text()


@pytest.mark.parametrize("name", ["checkpoints/checkpoint-40", "model"])
def test_foreign_things_in_our_own_folder_are_refused_before_training_and_stay(corpus, finished, tmp_path, name):
    output = tmp_path / "run"
    shutil.copytree(finished, output)
    shutil.rmtree(output / "model")
    (output / name).mkdir()
    (output / name / "model.safetensors").write_bytes(b"somebody's")
    with pytest.raises(UserError, match=Path(name).name):
        run_toy(corpus, output)
    assert (output / name / "model.safetensors").read_bytes() == b"somebody's"


def test_a_cold_start_differs_and_needs_no_vectors(corpus, finished, tmp_path):
    run_toy(corpus, tmp_path, cold_start=True, tokens=10 * TOY.step_tokens)
    assert not (tmp_path / "prepared" / "vectors").exists()
    assert curve(tmp_path)[0]["held_out_loss"] != curve(finished)[0]["held_out_loss"]
    assert "cold" in (tmp_path / "model" / "README.md").read_text()


def test_held_out_files_are_not_trained_on(corpus, finished, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("zebra giraffe the zebra hears\n" * 60)
    run_toy(corpus, tmp_path / "run", held_out=[other], tokens=3 * TOY.step_tokens)
    assert "zebra" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()
    assert curve(tmp_path / "run")[0]["held_out_loss"] != curve(finished)[0]["held_out_loss"]


def test_a_list_of_texts_gives_the_same_model_as_its_file(corpus, finished, tmp_path):
    pretrain(
        corpus.read_text("utf-8").splitlines(), output=tmp_path, size=TOY, checkpoint_minutes=0.0,
        console=plain_console(quiet=True),
    )  # fmt: skip
    assert same(weights(tmp_path), weights(finished))


def test_mistakes_are_named_with_their_remedy(corpus, finished, tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        pretrain([tmp_path / "none.txt"], output=tmp_path)
    with pytest.raises(UserError, match="'huge' is not known: choose one of tiny, mini, small"):
        pretrain(corpus, output=tmp_path, size="huge")
    with pytest.raises(UserError, match="seed = 0, not 1"):
        run_toy(corpus, finished, seed=1)
    changed = tmp_path / corpus.name
    changed.write_text(corpus.read_text().replace("cat", "cut"))  # the same name and size
    with pytest.raises(UserError, match="other documents"):
        run_toy(changed, finished)
    with pytest.raises(UserError, match="other documents"):
        run_toy(corpus, finished, split="sentences")
    short = tmp_path / "short.txt"
    short.write_text("one line\n" * 9)
    with pytest.raises(UserError, match="too little text"):
        run_toy(short, tmp_path / "run")
    few = tmp_path / "few.txt"
    few.write_text("the cat sees a dog .\n" * 2000)
    with pytest.raises(UserError, match="different tokens, too few for word vectors of width 64"):
        run_toy(few, tmp_path / "few", size=replace(TOY, width=64))
    with pytest.raises(UserError, match=r"diverged at step \d+.*learning_rate \(now 1e\+"):
        run_toy(corpus, tmp_path / "hot", size=replace(TOY, learning_rate=1e38, warmup_steps=0))
    assert not (tmp_path / "hot" / "model").exists()


def test_data_is_never_markup(corpus, tmp_path, monkeypatch):
    """Through the command line, with a corpus, a path and a licence that look like rich's markup."""
    monkeypatch.setitem(RECIPES, "tiny", TOY)
    folder = tmp_path / "[bold][" / "x]"
    folder.mkdir(parents=True)
    text = folder / "text[red].txt"
    text.write_text(corpus.read_text().replace("sees", "[/x] sees"))
    command = ["pretrain", str(text), "--output", str(folder / "[link]"), "--tokens", "128", "--licence", "[/i]"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert f"model: {folder / '[link]' / 'model'}\n" in done.output
    assert "| [/i] |" in (folder / "[link]" / "model" / "README.md").read_text()
