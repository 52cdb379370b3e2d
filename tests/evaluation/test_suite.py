"""One door to every evaluation."""

import json
from pathlib import Path

import pandas
import pytest

import datasets
from isotrope import load
from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.sets.senteval import SPLITS, STS_TASKS
from isotrope.evaluation.suite import SUITES, compare_cases, compare_pairs, main_scores
from oracle.similarity import DATA, HashEncoder, needs_data
from wordbag import WORDS, Bag, as_lines, own_pairs, results_of


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"suite": "transfr"}, "unknown suite 'transfr': did you mean 'transfer'. choose one of sts, transfer, "),
        ({"suite": "sts", "tasks": ["STS17"]}, "no task 'STS17'.*STSBenchmark"),
        ({"suite": "sts", "setting": "fast"}, "no setting 'fast'"),
        ({"suite": "geometry", "tasks": ["STS12"]}, "no task 'STS12'"),
    ],
)
def test_suite_refuses_what_it_has_not(arguments, words, tmp_path):
    with pytest.raises(UserError, match=words):
        suite.run(HashEncoder(), data=tmp_path, **arguments)


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
    average = suite.suite_average(result)
    assert average.exact == pytest.approx((6 * 0.700049 + 0.70006) / 7, abs=1e-12)
    assert round(average.exact, 4) == 0.7001
    assert average.printed == 0.7000
    del result["STS14"]
    with pytest.raises(UserError, match="STS14"):
        suite.suite_average(result)


def test_models_and_labels_of_any_form_give_the_same_result(tiny_model, tmp_path):
    pairs = own_pairs()
    (tmp_path / "labels.tsv").write_text(as_lines(pairs))
    loaded = load(tiny_model)
    loaded.train()
    columns = {"first": pairs.first, "second": pairs.second, "score": pairs.gold}
    wanted = suite.run(loaded, "sts", tmp_path / "labels.tsv")
    assert loaded.training, "a model is left as it was"
    for model in (str(tiny_model), tiny_model):
        tables = pandas.DataFrame(columns), datasets.Dataset.from_dict(columns), [*zip(*columns.values(), strict=True)]
        for labels in tables:
            assert suite.run(model, "sts", labels) == wanted
    answered = suite.run(loaded, "retrieval", [(f"{text}?", text) for text in dict.fromkeys(pairs.first)])
    assert answered["labels"]["queries"] == 8
    with pytest.raises(UserError, match="retrieval cannot use 40 graded pairs of labels: choose sts or ranking"):
        suite.run(loaded, "retrieval", tmp_path / "labels.tsv")


@pytest.mark.parametrize("suite", ["sts", "ranking"])
def test_comparison_case_by_case(suite: str) -> None:
    pairs = own_pairs(400)
    good, bad = (results_of(Bag(known), suite, pairs) for known in (len(WORDS), 3))
    judge = SUITES[suite].compare
    assert judge is not None
    there, back, same = judge(bad, good, 0), judge(good, bad, 0), judge(good, good, 0)
    assert there.verdict == "better"
    assert back.verdict == "worse"
    assert (same.verdict, same.difference) == ("not significant", 0)
    assert there.after == pytest.approx(main_scores(suite, good)["mine"])
    with pytest.raises(UserError, match="different tasks"):
        judge(good, {"yours": good["mine"]}, 0)


def test_judges_find_the_cases_of_every_suite() -> None:
    results = {"t": {"per_sample": {"correct": [0, 1, 1]}, "per_pair": {"gold": [1, 2, 3], "cosine": [0.1, 0.3, 0.2]}}}
    assert compare_cases("per_sample", "correct")(results, results, 0).before == pytest.approx(2 / 3)
    assert compare_pairs(results, results, 0).before == pytest.approx(0.5)


def test_evaluator_in_a_training(data: Path) -> None:
    from isotrope import load
    from isotrope.evaluation.evaluator import SuiteEvaluator

    evaluator = SuiteEvaluator(data=data, tasks=["SICKRelatedness"])
    model = load("isotrope/tiny")
    metrics = evaluator(model)
    assert metrics.keys() == {"sts_SICKRelatedness", "sts_score"}
    assert evaluator.primary_metric in metrics
    assert metrics["sts_score"] == pytest.approx(SUITES["sts"].evaluate(model, ["SICKRelatedness"], data, "dev")[
        "SICKRelatedness"]["spearman"]["dev"])  # fmt: skip
    with pytest.raises(UserError, match="no task 'STS12'"):
        SuiteEvaluator(tasks=["STS12"])
