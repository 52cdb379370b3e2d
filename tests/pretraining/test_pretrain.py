"""Pretraining: each part against a slow, obvious oracle, and a run that is killed against one that is not."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer, get_scheduler

from conftest import ROOT
from isotrope.errors import UserError
from isotrope.pretraining import pretrain
from isotrope.pretraining.card import mean_cosine
from isotrope.pretraining.checkpoints import Plan, replan, seal, tidy, whole
from isotrope.pretraining.masking import Blocks, Collator, hide
from isotrope.pretraining.model import build
from isotrope.pretraining.recipe import SIZES, Recipe, recipe_of
from isotrope.pretraining.stream import blocks_of, sentences, tokenise
from isotrope.pretraining.tokenizer import train_tokenizer
from isotrope.pretraining.vectors import cooccurrence, factorise, ppmi, warm_embeddings
from isotrope.text.files import find_sources

TOY = Recipe(
    layers=2, width=16, inner=16, heads=2, vocabulary=120, batch=4, tokens=1_280, block=16, warmup_steps=5,
    learning_rate=2e-2, max_positions=32, held_out_blocks=8,
)  # fmt: skip
SETTINGS = {"size": TOY, "checkpoint_minutes": 0.0}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads cost more than they bring at this size, and a killed run and its continuation need the same number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    generator = np.random.default_rng(0)
    words = [
        "the",
        "cat",
        "sees",
        "a",
        "dog",
        "and",
        "hears",
        "red",
        "birds",
        "in",
        "old",
        "Ünder",
        "trees",
        "of",
        "house",
    ]
    starts, lengths = generator.integers(0, 15, 600), generator.integers(3, 12, 600)
    lines = [" ".join(words[i % 15] for i in range(a, a + n)) + " ." for a, n in zip(starts, lengths, strict=True)]
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n".join(lines), "utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(corpus):
    return train_tokenizer(sentences(find_sources([corpus])), 120, 32)


@pytest.fixture(scope="module")
def finished(corpus, tmp_path_factory) -> Path:
    """A run that nobody disturbed."""
    output = tmp_path_factory.mktemp("finished")
    pretrain([corpus], output=output, **SETTINGS)
    return output


def weights(output: Path) -> dict[str, torch.Tensor]:
    last = whole(output / "checkpoints")[-1]
    return load_file(last / "model.safetensors")


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def curve(output: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


# --- tokenizer and stream -------------------------------------------------------------------------------------------


def test_the_tokenizer_lowercases_frames_and_survives_a_round_trip(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    encoded = loaded("The CAT Ünder")
    assert loaded.convert_ids_to_tokens(encoded["input_ids"]) == ["[CLS]", "the", "cat", "under", "[SEP]"]
    assert set(encoded) == {"input_ids", "attention_mask"}  # ModernBERT takes no token types
    assert [loaded.pad_token_id, loaded.cls_token_id, loaded.sep_token_id, loaded.mask_token_id] == [0, 2, 3, 4]
    assert loaded.decode(encoded["input_ids"], skip_special_tokens=True) == "the cat under"


def test_the_stream_is_every_sentence_framed_one_after_the_other(tokenizer, tmp_path):
    source = tmp_path / "text.txt"
    source.write_bytes("the cat .\n\n  a   dog\nbad \xff byte\nthe tree\n".encode("latin-1"))
    ids = tokenise(find_sources([source]), tokenizer, tmp_path / "tokens.bin")
    expected = [id for text in ("the cat .", "a dog", "the tree") for id in tokenizer(text)["input_ids"]]
    assert ids.tolist() == expected
    assert blocks_of(ids, 4).tolist() == np.reshape(expected[:12], (3, 4)).tolist()


def test_a_half_written_stream_is_written_again(tokenizer, corpus, tmp_path):
    whole_ids = np.array(tokenise(find_sources([corpus]), tokenizer, tmp_path / "whole.bin"))
    (tmp_path / "tokens.part").write_bytes(b"left over")
    assert np.array_equal(tokenise(find_sources([corpus]), tokenizer, tmp_path / "tokens.bin"), whole_ids)


# --- word vectors ---------------------------------------------------------------------------------------------------

STREAM = np.array([2, 5, 6, 7, 3, 2, 6, 8, 5, 5, 9, 3, 2, 7, 3, 2, 5, 9, 6, 3], dtype=np.uint16)


def counted_naively(ids, window: int, vocabulary: int) -> np.ndarray:
    counts, sentence = np.zeros((vocabulary, vocabulary)), np.cumsum(ids == 2)
    for i in range(len(ids)):
        for j in range(len(ids)):
            near = i != j and abs(i - j) <= window and sentence[i] == sentence[j]
            if near and ids[i] >= 5 and ids[j] >= 5:
                counts[ids[i], ids[j]] += 1
    return counts


@pytest.mark.parametrize("at_a_time", [1, 3, 7, 1000])
@pytest.mark.parametrize("window", [1, 2, 5])
def test_cooccurrences_are_counted_as_a_double_loop_counts_them(monkeypatch, window, at_a_time):
    monkeypatch.setattr("isotrope.pretraining.vectors.TOKENS_AT_A_TIME", at_a_time)
    assert np.array_equal(cooccurrence(STREAM, 2, 5, 10, window).toarray(), counted_naively(STREAM, window, 10))


def test_ppmi_is_the_positive_log_ratio_with_smoothed_contexts():
    counts = counted_naively(STREAM, 2, 10)
    found = ppmi(cooccurrence(STREAM, 2, 5, 10, 2)).toarray()
    total, row = counts.sum(), counts.sum(1)
    for a in range(10):
        for b in range(10):
            expected = 0.0
            if counts[a, b]:
                context = row[b] ** 0.75 / (row**0.75).sum()
                expected = max(0.0, math.log(counts[a, b] / total / (row[a] / total * context)))
            assert found[a, b] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_vectors_are_the_truncated_singular_vectors_scaled_by_root_values():
    matrix = ppmi(cooccurrence(STREAM, 2, 5, 10, 2))
    left, values, _ = np.linalg.svd(matrix.toarray())
    expected = left[:, :3] * np.sqrt(values[:3])
    found = factorise(matrix, 3, seed=0)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-4)  # equal but for the signs


def test_warm_embeddings_keep_cold_rows_for_tokens_without_a_vector():
    cold = np.full((12, 3), 7.0, dtype=np.float32)
    warm = warm_embeddings(STREAM, cold, 2, 5, 2, scale=0.06, seed=0)
    assert (warm[[0, 1, 2, 3, 4, 10, 11]] == 7.0).all()
    assert np.sqrt(np.mean(warm[5:10] ** 2)) == pytest.approx(0.06, rel=1e-5)


# --- masking --------------------------------------------------------------------------------------------------------


def test_hiding_is_a_pure_function_of_seed_and_place_with_a_fixed_count():
    ids = np.array([2, *range(5, 45), 3, 2, *range(45, 64)])
    one, labels = hide(ids, TOY, 5, 120, seed=1, place=9)
    again, _ = hide(ids, TOY, 5, 120, seed=1, place=9)
    other, _ = hide(ids, TOY, 5, 120, seed=1, place=10)
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (labels != -100).sum() == round(0.3 * len(ids))
    assert np.array_equal(labels[labels != -100], ids[labels != -100])
    assert np.array_equal(one[labels == -100], ids[labels == -100])
    assert (labels[ids < 5] == -100).all()


def test_of_the_chosen_tokens_the_recipe_s_parts_are_masked_and_random():
    ids = np.random.default_rng(0).integers(5, 120, 20_000)
    shown, labels = hide(ids, TOY, 5, 120, seed=0, place=0)
    chosen = labels != -100
    as_mask, kept = (shown[chosen] == 4).mean(), (shown[chosen] == ids[chosen]).mean()
    assert as_mask == pytest.approx(0.9, abs=0.02)
    assert kept == pytest.approx(0.05, abs=0.02)
    assert shown.min() >= 2
    assert shown.max() < 120


def test_every_pass_reads_every_block_once_in_a_new_order():
    rows = Blocks(np.arange(30, dtype=np.uint16).reshape(10, 3), 30, seed=0)
    passes = [[int(rows[place]["ids"][0]) for place in range(start, start + 10)] for start in (0, 10, 20)]
    assert all(sorted(order) == list(range(0, 30, 3)) for order in passes)
    assert passes[0] != passes[1] != passes[2]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_sentence_in_a_block_is_encoded_as_if_it_stood_alone(tokenizer, attention):
    model = build(TOY, tokenizer, seed=0, attention=attention).eval()
    alone = [tokenizer(text)["input_ids"] for text in ("the cat sees a dog .", "a red bird .", "the")]
    block = np.array([id for ids in alone for id in ids], dtype=np.uint16)
    batch = Collator(TOY, len(tokenizer), 2, 5, seed=0, attention=attention)([{"ids": block, "place": 0}])
    with torch.no_grad():
        mask = batch["attention_mask"]
        packed = model.model(input_ids=torch.tensor(block.astype(int))[None], attention_mask=mask).last_hidden_state[0]
        single = torch.cat([model.model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in alone])
    assert torch.allclose(packed, single, atol=1e-5)


# --- schedule and checkpoints ---------------------------------------------------------------------------------------


def made(folder: Path, *steps: int) -> None:
    for step in steps:
        (folder / f"checkpoint-{step}").mkdir(parents=True)
        (folder / f"checkpoint-{step}" / "model.safetensors").write_bytes(b"x")
        seal(folder / f"checkpoint-{step}")


def test_the_rate_is_warmed_up_stays_and_falls_to_zero_at_the_end():
    plan = Plan(100, 80)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    options = {"num_decay_steps": plan.steps - plan.decay_start, "decay_type": "1-sqrt"}
    scheduler = get_scheduler("warmup_stable_decay", optimizer, 10, plan.steps, options)
    rates = []
    for _ in range(plan.steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    assert rates[5] == pytest.approx(0.5)
    assert rates[10:81] == [1.0] * 71
    assert rates[85] == pytest.approx(1 - math.sqrt(5 / 20))
    assert rates[100] == pytest.approx(0, abs=1e-9)


def test_a_new_budget_prolongs_or_cools_down(tmp_path):
    made(tmp_path, 40, 50, 80, 90, 100)
    assert replan(tmp_path / "none", Plan(0, 0), 100, 0.2) == (Plan(100, 80), [])
    plan, forgotten = replan(tmp_path, Plan(100, 80), 1000, 0.2)  # back to where the decay began, then on
    assert plan == Plan(1000, 800)
    assert [path.name for path in forgotten] == ["checkpoint-90", "checkpoint-100"]
    plan, forgotten = replan(tmp_path, Plan(1000, 800), 110, 0.2)  # cool down from where it is
    assert plan == Plan(110, 100)
    assert forgotten == []
    with pytest.raises(UserError, match="larger budget"):
        replan(tmp_path, Plan(1000, 800), 100, 0.2)


def test_tidying_keeps_the_last_two_and_the_start_of_the_decay_and_drops_torn_ones(tmp_path):
    made(tmp_path, 10, 20, 30, 40, 50)
    (tmp_path / "checkpoint-60").mkdir()
    tidy(tmp_path, decay_start=20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-20", "checkpoint-40", "checkpoint-50"]


# --- whole runs -----------------------------------------------------------------------------------------------------


def test_a_run_learns_and_leaves_a_model_that_loads_by_its_folder(finished):
    rows = curve(finished)
    assert rows[-1]["tokens"] == 1_280
    assert rows[-1]["held_out_loss"] < rows[0]["held_out_loss"] - 0.2
    folder = finished / "model"
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.float32
    assert model.config.hidden_size == 16
    hidden = model(**tokenizer(["the cat .", "a dog"], padding=True, return_tensors="pt")).last_hidden_state
    assert torch.isfinite(hidden).all()
    trained = weights(finished)
    for name, tensor in stored.items():
        assert torch.equal(tensor, trained[f"model.{name}"].half())
    card = (folder / "README.md").read_text()
    assert "1,280" in card
    assert f"{rows[-1]['held_out_loss']:.3f} nats" in card


def test_mean_cosine_is_that_of_sentences_encoded_one_by_one(finished):
    folder = finished / "model"
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    texts = ["the cat sees a dog .", "a red bird .", "the", "old tree in a house"]
    alone = [tokenizer(text)["input_ids"] for text in texts]
    with torch.no_grad():
        means = torch.cat([model(input_ids=torch.tensor([ids])).last_hidden_state.mean(1) for ids in alone])
    unit = torch.nn.functional.normalize(means, dim=1)
    expected = (unit @ unit.T)[~torch.eye(4, dtype=torch.bool)].mean()
    block = np.array([[id for ids in alone for id in ids]], dtype=np.uint16)
    assert mean_cosine(model, block, 2) == pytest.approx(float(expected), abs=1e-4)


def test_a_run_killed_at_any_moment_ends_with_the_same_weights(corpus, finished, tmp_path):
    code = (
        "import sys; from tests.test_pretrain import *; torch.set_num_threads(1); "
        "pretrain([sys.argv[1]], output=Path(sys.argv[2]), resume=True, **SETTINGS)"
    )
    command = [sys.executable, "-c", code, str(corpus), str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while len(whole(tmp_path / "checkpoints")) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
    reached = whole(tmp_path / "checkpoints")[-1]
    steps = TOY.tokens // TOY.step_tokens
    assert int(reached.name.split("-")[1]) < steps
    torn = tmp_path / "checkpoints" / f"checkpoint-{steps - 1}"  # as if the kill had come while this one was written
    torn.mkdir()
    (torn / "model.safetensors").write_bytes(b"torn")
    pretrain([corpus], output=tmp_path, resume=True, **SETTINGS)
    assert same(weights(tmp_path), weights(finished))
    losses = [{row["step"]: row["held_out_loss"] for row in curve(output)} for output in (tmp_path, finished)]
    assert losses[0] == losses[1]


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(corpus, finished, tmp_path):
    said = []

    def interrupt_once(line: str) -> None:
        said.append(line)
        if "tokens/s" in line and len(said) < 6:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="--resume"):
        pretrain([corpus], output=tmp_path, say=interrupt_once, **SETTINGS)
    assert not (tmp_path / "model").exists()
    assert whole(tmp_path / "checkpoints")
    pretrain([corpus], output=tmp_path, resume=True, **SETTINGS)
    assert same(weights(tmp_path), weights(finished))


def test_a_finished_run_is_exported_again_and_can_be_prolonged(corpus, finished, tmp_path):
    pretrain([corpus], output=tmp_path, **SETTINGS)
    pretrain([corpus], output=tmp_path, resume=True, **SETTINGS)  # nothing is left to train
    assert same(weights(tmp_path), weights(finished))
    pretrain([corpus], output=tmp_path, resume=True, tokens=2 * TOY.tokens, **SETTINGS)
    steps = [row["step"] for row in curve(tmp_path)]
    assert steps == sorted(set(steps))
    straight = tmp_path / "straight"
    pretrain([corpus], output=straight, tokens=2 * TOY.tokens, **SETTINGS)
    assert same(weights(tmp_path), weights(straight))  # the short run's decay has left no trace


def test_the_folder_is_true_on_every_machine(finished):
    settings = json.loads((finished / "model" / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert not {"is_local", "local_files_only"} & settings.keys()
    assert "[MASK]" in AutoTokenizer.from_pretrained(finished / "model").get_vocab()


def test_a_cold_start_differs_and_needs_no_vectors(corpus, finished, tmp_path):
    pretrain([corpus], output=tmp_path, warm_start=False, tokens=10 * TOY.step_tokens, **SETTINGS)
    assert not (tmp_path / "vectors.npy").exists()
    assert curve(tmp_path)[0]["held_out_loss"] != curve(finished)[0]["held_out_loss"]
    assert "cold" in (tmp_path / "model" / "README.md").read_text()


def test_held_out_files_are_not_trained_on(corpus, finished, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("zebra giraffe the zebra hears\n" * 60)
    pretrain([corpus], output=tmp_path / "run", held_out=[other], tokens=3 * TOY.step_tokens, **SETTINGS)
    assert (tmp_path / "run" / "held_out.bin").exists()
    words = AutoTokenizer.from_pretrained(tmp_path / "run" / "tokenizer").get_vocab()
    assert "zebra" not in words
    assert curve(tmp_path / "run")[0]["held_out_loss"] != curve(finished)[0]["held_out_loss"]


def test_mistakes_are_named_with_their_remedy(corpus, finished, tmp_path):
    with pytest.raises(UserError, match="tiny, mini, small"):
        pretrain([corpus], size="huge", output=tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        pretrain([tmp_path / "none.txt"], output=tmp_path)
    with pytest.raises(UserError, match="holds a run already"):
        pretrain([corpus], output=finished, **SETTINGS)
    with pytest.raises(UserError, match="seed = 0, now it is 1"):
        pretrain([corpus], output=finished, resume=True, seed=1, **SETTINGS)
    with FileLock(finished / ".lock"), pytest.raises(UserError, match="in use"):
        pretrain([corpus], output=finished, resume=True, **SETTINGS)
    short = tmp_path / "short.txt"
    short.write_text("one line\n")
    with pytest.raises(UserError, match="too little text"):
        pretrain([short], output=tmp_path / "run", **SETTINGS)


@pytest.mark.parametrize("name", SIZES)
def test_every_size_is_one_that_transformers_can_build(name):
    recipe = recipe_of(name)
    with torch.device("meta"):
        model = build(recipe, _Vocabulary(recipe.vocabulary), seed=0)
    assert model.config.num_hidden_layers == recipe.layers
    if name == "tiny":  # what is shipped has to fit
        assert 2 * model.model.num_parameters() < 20e6


class _Vocabulary:
    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def convert_tokens_to_ids(self, token: str) -> int:
        return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"].index(token)
