"""One door to every evaluation."""

import json
from pathlib import Path

import pandas
import pytest

import datasets
from isotrope import load
from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.significance import compare
from isotrope.evaluation.suite import SuiteEvaluator, cases_of, main_scores
from oracle.similarity import DATA, HashEncoder, needs_data
from wordbag import WORDS, Bag, as_lines, own_pairs, results_of


@needs_data
def test_suite_result_has_the_fixed_shape():
    result = suite.run(HashEncoder(), "sts", DATA, tasks=["STS13", "STSBenchmark"])
    assert set(result) == {"STS13", "STSBenchmark"}
    assert set(result["STS13"]["spearman"]) == {"all", "mean", "wmean"}
    assert set(result["STSBenchmark"]["spearman"]) == {"dev", "test"}
    assert json.loads(json.dumps(result)) == result
    assert suite.run(HashEncoder(), "sts", DATA, tasks="STS13") == {"STS13": result["STS13"]}


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
    found = compare(cases_of(suite, bad), cases_of(suite, good))
    assert found.verdict == "better"
    assert found.after == pytest.approx(main_scores(suite, good)["mine"])


def test_evaluator_in_a_training(data: Path) -> None:
    evaluator = SuiteEvaluator(data=data, tasks=["SICKRelatedness"])
    model = load("isotrope/tiny")
    metrics = evaluator(model)
    assert metrics.keys() == {"sts_SICKRelatedness", "sts_score"}
    assert evaluator.primary_metric in metrics
    assert metrics["sts_score"] == pytest.approx(
        suite.run(model, "sts", data, ["SICKRelatedness"], "dev")["SICKRelatedness"]["spearman"]["dev"]
    )
    with pytest.raises(UserError, match="no task 'STS12'"):
        SuiteEvaluator(tasks=["STS12"])
