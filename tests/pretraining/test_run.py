"""Whole runs: killed, stopped, prolonged, damaged; and folders that are not ours."""

import io
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from typer.testing import CliRunner

from helpers.forks import code, fork
from helpers.small_runs import logged
from helpers.toy import TOY, run_toy, same, weights
from isotrope.cli.main import app
from isotrope.console.plain import plain_console
from isotrope.errors import Stopped, UserError
from isotrope.pretraining import pretrain
from isotrope.pretraining.recipe import RECIPES
from isotrope.store.mark import claim
from isotrope.training.checkpoints import checkpoint_step, whole_checkpoints


def sealed(output: Path) -> list[Path]:
    return list(output.glob("checkpoints/checkpoint-*/contents.json"))


def test_a_run_killed_at_any_moment_ends_with_the_same_weights(corpus, finished, tmp_path):
    child, deadline = fork(work(corpus, tmp_path)), time.monotonic() + 120
    while len(sealed(tmp_path)) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert code(child, kill_after=0) == -signal.SIGKILL
    steps = TOY.tokens // TOY.step_tokens
    assert checkpoint_step(whole_checkpoints(tmp_path / "checkpoints")[-1]) < steps
    # as if the kill had come while this one was written
    torn = tmp_path / "checkpoints" / f"checkpoint-{steps - 1}"
    claim(torn, "checkpoint")
    (torn / "model.safetensors").write_bytes(b"torn")
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))
    losses = [
        {row["step"]: row["held_out_loss"] for row in logged(output)}
        for output in (tmp_path, finished)
    ]
    assert losses[0] == losses[1]


def stop(corpus: Path, output: Path) -> None:
    """Press Ctrl-C at the line of the first checkpoint."""

    class Interrupting(io.StringIO):
        def write(self, text: str) -> int:
            if "tokens/s" in text and "tokens/s" not in self.getvalue():
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    with pytest.raises(Stopped, match=r"after step \d+ of 20"):
        run_toy(corpus, output, console=plain_console(file=Interrupting()))


def test_ctrl_c_leaves_a_checkpoint_and_what_was_made_of_the_text_is_made_again_where_it_is_damaged(
    corpus, finished, tmp_path
):
    stop(corpus, tmp_path)
    assert not (tmp_path / "model").exists()
    assert sealed(tmp_path)
    for checkpoint in tmp_path.glob("checkpoints/checkpoint-*"):
        shutil.rmtree(checkpoint)
    damaged = {
        "corpus/tokens.bin": b"odd",
        "vectors/vectors.npy": b"",
        "corpus/tokenizer.json": b"{}",
    }
    for name, contents in damaged.items():
        (tmp_path / "prepared" / name).write_bytes(contents)
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))


@pytest.mark.slow
def test_a_finished_run_is_exported_again_and_can_be_prolonged(corpus, finished, tmp_path):
    run_toy(corpus, tmp_path)
    run_toy(corpus, tmp_path)  # nothing is left to train
    assert same(weights(tmp_path), weights(finished))
    run_toy(corpus, tmp_path, tokens=2 * TOY.tokens)
    steps = [row["step"] for row in logged(tmp_path)]
    assert steps == sorted(set(steps))
    straight = tmp_path / "straight"
    run_toy(corpus, straight, tokens=2 * TOY.tokens)
    assert same(weights(tmp_path), weights(straight))  # the short run's decay has left no trace


def work(corpus: Path, output: Path, most: int = resource.RLIM_INFINITY) -> Callable[[], None]:
    """A run with files of at most ``most`` bytes; a user's error ends it with 2."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        try:
            run_toy(corpus, output)
        except UserError:
            os._exit(2)

    return run


def test_a_full_disk_is_one_clear_line_and_the_run_goes_on(corpus, finished, tmp_path):
    for most in (2_000, 30_000):  # bytes of a file: the ids, the optimizer
        assert code(fork(work(corpus, tmp_path, most))) == 2
    assert not list(tmp_path.rglob("*.isotrope-draft"))
    run_toy(corpus, tmp_path)
    assert same(weights(tmp_path), weights(finished))


@pytest.fixture
def output(finished, tmp_path) -> Path:
    """A copy of the finished run that a test may spoil."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.mark.parametrize("name", ["job.json", "plan.json"])
@pytest.mark.parametrize("contents", ["{", "[1]"])
def test_a_damaged_record_is_one_clear_line_and_nothing_is_lost(
    corpus, finished, output, name, contents
):
    (output / name).write_text(contents)
    with pytest.raises(UserError, match=rf"{name} is damaged.*--restart"):
        run_toy(corpus, output)
    assert same(weights(output), weights(finished))


def test_a_damaged_curve_counts_as_far_as_it_is_whole(corpus, output):
    (output / "result.json").unlink()
    rows = (output / "metrics.jsonl").read_text().splitlines()
    (output / "metrics.jsonl").write_text("\n".join([*rows[:4], '{"step"', *rows[5:]]) + "\n")
    run_toy(corpus, output)
    assert [row["step"] for row in logged(output)] == [1, 2, 3, 4]
    assert "nats" in (output / "model" / "README.md").read_text()


@pytest.mark.parametrize("name", ["checkpoints/checkpoint-40", "model"])
def test_foreign_things_in_our_own_folder_are_refused_before_training_and_stay(
    corpus, output, name
):
    shutil.rmtree(output / "model")
    (output / name).mkdir()
    (output / name / "model.safetensors").write_bytes(b"somebody's")
    with pytest.raises(UserError, match=Path(name).name):
        run_toy(corpus, output)
    assert (output / name / "model.safetensors").read_bytes() == b"somebody's"


def test_held_out_files_are_not_trained_on(corpus, finished, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("zebra giraffe the zebra hears\n" * 60)
    run_toy(corpus, tmp_path / "run", held_out=[other], tokens=3 * TOY.step_tokens)
    assert "zebra" not in AutoTokenizer.from_pretrained(tmp_path / "run" / "model").get_vocab()
    assert logged(tmp_path / "run")[0]["held_out_loss"] != logged(finished)[0]["held_out_loss"]


def test_a_cold_start_differs_and_needs_no_vectors_and_a_list_of_texts_is_read_as_its_file(
    corpus, finished, tmp_path
):
    given = {
        "size": TOY,
        "checkpoint_minutes": 0.0,
        "tokens": 2 * TOY.step_tokens,
        "cold_start": True,
    }
    pretrain(
        corpus.read_text("utf-8").splitlines(),
        output=tmp_path,
        console=plain_console(quiet=True),
        **given,
    )
    assert not (tmp_path / "prepared" / "vectors").exists()
    read = [output / "prepared" / "corpus" / "tokens.bin" for output in (tmp_path, finished)]
    assert read[0].read_bytes() == read[1].read_bytes()
    assert logged(tmp_path)[0]["held_out_loss"] != logged(finished)[0]["held_out_loss"]
    assert "cold" in (tmp_path / "model" / "README.md").read_text()


def test_mistakes_are_named_with_their_remedy(corpus, finished, tmp_path):
    texts = {
        "short": "one line\n" * 9,
        "few": "the cat sees a dog .\n" * 2000,
        "other": corpus.read_text().replace("cat", "cut"),  # of the same size
    }
    for name, words in texts.items():
        (tmp_path / name).with_suffix(".txt").write_text(words)
    wide, hot = replace(TOY, width=64), replace(TOY, learning_rate=1e38, warmup_steps=0)
    for text, output, options, message in (
        (tmp_path / "none.txt", tmp_path, {}, "does not exist"),
        (corpus, tmp_path, {"size": "huge"}, "'huge' is unknown: choose one of tiny, mini, small"),
        (corpus, finished, {"seed": 1}, "seed = 0, not 1"),
        (tmp_path / "other.txt", finished, {}, "other documents"),
        (corpus, finished, {"split": "sentences"}, "other documents"),
        (tmp_path / "short.txt", tmp_path / "run", {}, "too little text"),
        (
            tmp_path / "few.txt",
            tmp_path / "few",
            {"size": wide},
            "tokens, too few for word vectors of width 64",
        ),
        (
            corpus,
            tmp_path / "hot",
            {"size": hot},
            r"diverged before step \d+.*learning_rate \(now 1e\+",
        ),
    ):
        with pytest.raises(UserError, match=message):
            run_toy(text, output, **options)
    assert not (tmp_path / "hot" / "model").exists()


def test_data_is_never_markup(corpus, tmp_path, monkeypatch):
    """Through the command line, with a corpus, a path and a licence that look like rich's markup."""
    monkeypatch.setitem(RECIPES, "tiny", TOY)
    folder = tmp_path / "[bold][" / "x]"
    folder.mkdir(parents=True)
    text = folder / "text[red].txt"
    text.write_text(corpus.read_text().replace("sees", "[/x] sees"))
    command = [
        "pretrain",
        str(text),
        "--output",
        str(folder / "[link]"),
        "--tokens",
        "128",
        "--licence",
        "[/i]",
    ]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0
    assert f"model: {folder / '[link]' / 'model'}\n" in done.output
    assert "| [/i] |" in (folder / "[link]" / "model" / "README.md").read_text()
