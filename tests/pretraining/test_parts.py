"""The parts of a pretraining: tokenizer, ids, word vectors, masks, schedule, card."""

import io
import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

from helpers.small_runs import logged
from helpers.toy import TOY, run_toy, weights
from isotrope.console.plain import plain_console
from isotrope.errors import UserError
from isotrope.evaluation.geometry import mean_cosine
from isotrope.pretraining.model import begin_from, build_model, sentence_sums
from isotrope.pretraining.recipe import RECIPES, Schedule, reschedule
from isotrope.pretraining.text import (
    SPECIAL,
    blocks_of,
    cooccurrence,
    ppmi,
    train_tokenizer,
    warm_embeddings,
    write_ids,
)
from isotrope.pretraining.trainer import Blocks, Keeper, collate, hide
from isotrope.text import read_text
from isotrope.training.checkpoints import checkpoint_folder

QUIET = plain_console(quiet=True)
STREAM = np.array([2, 5, 6, 7, 3, 2, 6, 8, 5, 5, 9, 3, 2, 7, 3, 2, 5, 9, 6, 3], dtype=np.uint16)


def test_the_stream_is_every_sentence_framed_one_after_the_other(tokenizer, tmp_path):
    source, target = tmp_path / "text.txt", tmp_path / "tokens.bin"
    source.write_bytes(b"the cat .\n\n  a   dog\nthe cat .\nthe tree\n")
    write_ids(read_text(source, keep_duplicates=True), tokenizer, target, QUIET)
    expected = [
        id
        for text in ("the cat .", "a dog", "the cat .", "the tree")
        for id in tokenizer(text)["input_ids"]
    ]
    assert np.fromfile(target, np.uint16).tolist() == expected
    assert (
        blocks_of(target, 4).tolist()
        == np.reshape(expected[: len(expected) // 4 * 4], (-1, 4)).tolist()
    )


def test_the_tokenizer_lowercases_frames_and_survives_a_round_trip(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    encoded = loaded("The CAT Ünder")
    assert loaded.convert_ids_to_tokens(encoded["input_ids"]) == [
        "[CLS]",
        "the",
        "cat",
        "under",
        "[SEP]",
    ]
    assert set(encoded) == {"input_ids", "attention_mask"}  # ModernBERT takes no token types
    assert [
        loaded.pad_token_id,
        loaded.cls_token_id,
        loaded.sep_token_id,
        loaded.mask_token_id,
    ] == [0, 2, 3, 4]
    assert loaded.decode(encoded["input_ids"], skip_special_tokens=True) == "the cat under"


def test_the_same_text_gives_the_same_vocabulary_though_all_pairs_are_tied():
    """The library's own trainer gives another one at every call, in one process as in several."""
    lines = [
        chr(97 + a) + chr(97 + b) + chr(97 + c)
        for a in range(9)
        for b in range(9)
        for c in range(9)
    ]
    lines += [chr(0x4E00 + i) for i in range(1500)]  # more characters than are kept, each once
    vocabularies = [train_tokenizer(lines, 1500, 32).get_vocab() for _ in range(4)]
    assert all(vocabulary == vocabularies[0] for vocabulary in vocabularies)


def test_pieces_are_learnt_by_how_often_they_occur():
    tokenizer = train_tokenizer(["low lower lowest"] * 20_001 + ["xyz"], 26, 32)
    assert tokenizer.tokenize("LOW")[0] == "low"
    assert tokenizer.tokenize("xyz") == ["x", "##y", "##z"]
    assert tokenizer.convert_tokens_to_ids(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]) == [
        0,
        1,
        2,
        3,
        4,
    ]
    assert tokenizer.tokenize("q") == ["[UNK]"]


def counted_naively(ids, window: int, vocabulary: int) -> np.ndarray:
    counts, sentence = np.zeros((vocabulary, vocabulary)), np.cumsum(ids == 2)
    for i in range(len(ids)):
        for j in range(len(ids)):
            near = i != j and abs(i - j) <= window and sentence[i] == sentence[j]
            if near and ids[i] >= 5 and ids[j] >= 5:
                counts[ids[i], ids[j]] += 1
    return counts


@pytest.mark.parametrize("at_a_time", [3, 1000])
@pytest.mark.parametrize("window", [1, 5])
def test_cooccurrences_are_counted_as_a_double_loop_counts_them(monkeypatch, window, at_a_time):
    monkeypatch.setattr("isotrope.pretraining.text.TOKENS_AT_A_TIME", at_a_time)
    assert np.array_equal(
        cooccurrence(STREAM, 10, window).toarray(), counted_naively(STREAM, window, 10)
    )


def test_ppmi_is_the_positive_log_ratio_with_smoothed_contexts():
    counts = counted_naively(STREAM, 2, 10)
    found = ppmi(cooccurrence(STREAM, 10, 2)).toarray()
    total, row = counts.sum(), counts.sum(1)
    for a in range(10):
        for b in range(10):
            expected = 0.0
            if counts[a, b]:
                context = row[b] ** 0.75 / (row**0.75).sum()
                expected = max(0.0, math.log(counts[a, b] / total / (row[a] / total * context)))
            assert found[a, b] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_warm_embeddings_are_scaled_singular_vectors_and_cold_rows_for_tokens_without_one():
    cold = np.full((12, 3), 7.0, dtype=np.float32)
    warm = warm_embeddings(STREAM, cold, 2, scale=0.06, seed=0)
    assert (warm[[0, 1, 2, 3, 4, 10, 11]] == 7.0).all()
    left, values, _ = np.linalg.svd(ppmi(cooccurrence(STREAM, 12, 2)).toarray())
    expected = (left[:, :3] * np.sqrt(values[:3]))[5:10]
    expected *= 0.06 / np.sqrt(np.mean(expected**2))
    # equal but for the signs
    assert np.allclose(warm[5:10] @ warm[5:10].T, expected @ expected.T, atol=1e-6)


def test_hiding_is_a_pure_function_of_seed_and_place_with_a_fixed_count():
    ids = np.array([2, *range(5, 45), 3, 2, *range(45, 64)])
    (one, labels), (again, _), (other, _) = (
        hide(ids, TOY, 120, seed=1, place=place) for place in (9, 9, 10)
    )
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)
    assert (labels != -100).sum() == round(0.3 * len(ids))
    assert np.array_equal(labels[labels != -100], ids[labels != -100])
    assert np.array_equal(one[labels == -100], ids[labels == -100])
    assert (labels[ids < 5] == -100).all()


def test_of_the_chosen_tokens_the_recipe_s_parts_are_masked_and_random():
    ids = np.random.default_rng(0).integers(5, 120, 20_000)
    shown, labels = hide(ids, TOY, 120, seed=0, place=0)
    chosen = labels != -100
    as_mask, kept = (shown[chosen] == 4).mean(), (shown[chosen] == ids[chosen]).mean()
    assert as_mask == pytest.approx(0.9, abs=0.02)
    assert kept == pytest.approx(0.05, abs=0.02)
    assert shown.min() >= 2
    assert shown.max() < 120


def test_every_pass_reads_every_block_once_in_a_new_order():
    rows = Blocks(np.arange(30, dtype=np.uint16).reshape(10, 3), 30, TOY, 120, seed=0)
    passes = [
        [int(rows[place]["ids"][0]) for place in range(start, start + 10)] for start in (0, 10, 20)
    ]
    assert all(sorted(order) == list(range(0, 30, 3)) for order in passes)
    assert passes[0] != passes[1] != passes[2]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_sentence_in_a_block_is_encoded_as_if_it_stood_alone(tokenizer, attention):
    model = build_model(TOY, tokenizer, seed=0).eval()
    model.set_attn_implementation(attention)
    alone = [
        tokenizer(text)["input_ids"] for text in ("the cat sees a dog .", "a red bird .", "the")
    ]
    block = np.array([id for ids in alone for id in ids], dtype=np.uint16)
    mask = collate([{"ids": block.astype(int)}])["attention_mask"]
    with torch.no_grad():
        packed = model.model(
            input_ids=torch.tensor(block.astype(int))[None], attention_mask=mask
        ).last_hidden_state[0]
        single = torch.cat(
            [model.model(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in alone]
        )
    assert torch.allclose(packed, single, atol=1e-5)


def test_training_begins_from_vectors_and_log_frequencies(tokenizer):
    model = build_model(TOY, tokenizer, 0)
    vectors = np.random.default_rng(0).normal(size=(len(tokenizer), TOY.width)).astype(np.float32)
    counts = np.arange(len(tokenizer))
    begin_from(model, vectors, counts)
    assert np.array_equal(model.model.embeddings.tok_embeddings.weight.detach().numpy(), vectors)
    assert np.allclose(
        model.decoder.bias.detach().numpy(), np.log((counts + 1) / (counts + 1).sum()), atol=1e-6
    )


@pytest.mark.parametrize("name", RECIPES)
def test_every_size_is_one_that_transformers_can_build(name):
    recipe = RECIPES[name]
    words = _Vocabulary([*SPECIAL.values(), *range(recipe.vocabulary - len(SPECIAL))])
    with torch.device("meta"):
        model = build_model(recipe, words, seed=0)
    assert model.config.num_hidden_layers == recipe.layers
    if name == "tiny":  # what is shipped has to fit
        assert 2 * model.model.num_parameters() < 20e6


class _Vocabulary(list):
    convert_tokens_to_ids = list.index


def test_a_new_budget_prolongs_or_cools_down(tmp_path):
    whole = [checkpoint_folder(tmp_path, step) for step in (40, 50, 80, 90, 100)]
    assert reschedule([], Schedule(0, 0), 100, 0.2) == (Schedule(100, 80), [])
    # back to where the decay began, then on
    schedule, usable = reschedule(whole, Schedule(100, 80), 1000, 0.2)
    assert schedule == Schedule(1000, 800)
    assert usable == whole[:3]
    # cool down from where it is
    schedule, usable = reschedule(whole, Schedule(1000, 800), 110, 0.2)
    assert schedule == Schedule(110, 100)
    assert usable == whole
    with pytest.raises(UserError, match="larger budget"):
        reschedule(whole, Schedule(1000, 800), 100, 0.2)


def test_the_last_two_checkpoints_and_the_start_of_the_decay_are_kept(tmp_path):
    whole = [checkpoint_folder(tmp_path, step) for step in (10, 20, 30, 40, 50)]
    assert Schedule(60, 20).kept(whole) == [whole[1], *whole[3:]]
    assert Schedule(60, 55).kept(whole[:1]) == whole[:1]


def test_a_held_out_loss_that_is_not_finite_ends_the_run_before_a_checkpoint(tmp_path):
    keeper = Keeper(tmp_path / "metrics.jsonl", Schedule(10, 8), 64, 3.0, QUIET, None)
    args, state = SimpleNamespace(learning_rate=0.5), SimpleNamespace(global_step=7)
    with pytest.raises(
        UserError,
        match=r"diverged before step 7: .*: lower the recipe's learning_rate \(now 0\.5\)",
    ):
        keeper.on_evaluate(args, state, None, {"eval_loss": math.nan})


def test_landmarks_have_a_checkpoint_however_short_the_run_is(corpus, tmp_path):
    shown = io.StringIO()
    run_toy(
        corpus,
        tmp_path,
        tokens=10 * TOY.step_tokens,
        checkpoint_minutes=60,
        console=plain_console(file=shown),
    )
    # the start of the decay, and the end
    assert [row["step"] for row in logged(tmp_path)] == [8, 10]
    assert sorted(path.name for path in tmp_path.glob("checkpoints/*")) == [
        "checkpoint-10",
        "checkpoint-8",
    ]
    assert "0.0 M of 0.0 M tokens, loss" in shown.getvalue()


def test_the_learning_rate_rises_stays_and_falls(finished):
    rates = [row["learning_rate"] for row in logged(finished)]
    assert rates[:5] == pytest.approx([0, 0.004, 0.008, 0.012, 0.016])
    assert rates[5:17] == [TOY.learning_rate] * 12
    assert TOY.learning_rate > rates[17] > rates[18] > rates[19] > 0


def test_mean_cosine_is_that_of_sentences_encoded_one_by_one(finished):
    folder = finished / "model"
    model, tokenizer = (
        AutoModel.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    texts = ["the cat sees a dog .", "a red bird .", "the", "old tree in a house"]
    alone = [tokenizer(text)["input_ids"] for text in texts]
    with torch.no_grad():
        means = torch.cat(
            [model(input_ids=torch.tensor([ids])).last_hidden_state.mean(1) for ids in alone]
        )
    unit = torch.nn.functional.normalize(means, dim=1)
    expected = (unit @ unit.T)[~torch.eye(4, dtype=torch.bool)].mean()
    block = np.array([[id for ids in alone for id in ids]], dtype=np.uint16)
    assert mean_cosine(sentence_sums(model, block)) == pytest.approx(float(expected), abs=1e-4)


def test_a_run_learns_and_leaves_a_model_that_loads_by_its_folder(finished):
    rows = logged(finished)
    assert rows[-1]["tokens"] == 1_280
    assert rows[-1]["held_out_loss"] < rows[0]["held_out_loss"] - 0.2
    folder = finished / "model"
    stored = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float16}
    model, tokenizer = AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert model.dtype == torch.float32
    hidden = model(
        **tokenizer(["the cat .", "a dog"], padding=True, return_tensors="pt")
    ).last_hidden_state
    assert torch.isfinite(hidden).all()
    trained = weights(finished)
    for name, tensor in stored.items():
        assert torch.equal(tensor, trained[f"model.{name}"].half())
    card = (folder / "README.md").read_text()
    assert "1,280" in card
    shown = float(card.split("| held-out loss | ")[1].split(" nats")[0])
    assert abs(shown - rows[-1]["held_out_loss"]) < 1e-3
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    assert settings["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert not {"is_local", "local_files_only"} & settings.keys(), (
        "the folder is true on every machine"
    )
