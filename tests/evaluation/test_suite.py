"""One door to every evaluation, and several models by name."""

import json
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pytest
from sentence_transformers import SentenceTransformer

from helpers.wordbag import WORDS, Bag, as_lines, own_pairs, results_of
from isotrope import load
from isotrope.encoder.prompts import Prompts
from isotrope.errors import UserError
from isotrope.evaluation import models, suite
from isotrope.evaluation.models import RememberingEncoder, evaluate_models, plan_evaluations
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet, same_class
from isotrope.evaluation.significance import compare
from isotrope.evaluation.suite import SuiteEvaluator, cases_of, main_scores
from oracle.similarity import DATA, HashEncoder, needs_data


@needs_data
def test_suite_result_has_the_fixed_shape():
    result = suite.run(HashEncoder(), "sts", DATA, tasks=["STS13", "STSBenchmark"])
    assert set(result) == {"STS13", "STSBenchmark"}
    assert set(result["STS13"]["spearman"]) == {"all", "mean", "wmean"}
    assert set(result["STSBenchmark"]["spearman"]) == {"dev", "test"}
    assert json.loads(json.dumps(result)) == result
    assert suite.run(HashEncoder(), "sts", DATA, tasks="STS13") == {"STS13": result["STS13"]}


def scores_of(result: dict[str, Any]) -> dict[str, Any]:
    """A result on labels without the line on their form."""
    return {name: value for name, value in result["labels"].items() if name != "read_as"}


def test_models_and_labels_of_any_form_give_the_same_result(tiny_model, tmp_path):
    pairs = own_pairs()
    (tmp_path / "labels.tsv").write_text(as_lines(pairs))
    loaded = load(tiny_model).train()
    loaded[0].eval()
    columns = {"first": pairs.first, "second": pairs.second, "score": pairs.gold}
    wanted = scores_of(suite.run(loaded, "sts", tmp_path / "labels.tsv"))
    assert (loaded.training, loaded[0].training) == (True, False), "a model is left as it was"
    for model in (str(tiny_model), tiny_model):
        tables = (
            pandas.DataFrame(columns),
            datasets.Dataset.from_dict(columns),
            [*zip(*columns.values(), strict=True)],
        )
        for labels in tables:
            assert scores_of(suite.run(model, "sts", labels)) == wanted
    answered = suite.run(
        loaded, "retrieval", [(f"{text}?", text) for text in dict.fromkeys(pairs.first)]
    )
    assert answered["labels"]["queries"] == 8
    with pytest.raises(
        UserError, match="retrieval cannot use 40 graded pairs of labels: choose sts or ranking"
    ):
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
    metrics = evaluator(HashEncoder())
    assert metrics.keys() == {"sts_SICKRelatedness", evaluator.primary_metric}
    wanted = suite.run(HashEncoder(), "sts", data, ["SICKRelatedness"], "dev")["SICKRelatedness"]
    assert metrics["sts_score"] == pytest.approx(wanted["spearman"]["dev"])


def classes(pairs: GradedPairs) -> RetrievalSet:
    """Texts of three classes."""
    texts = [f"{text} {i}" for i, text in enumerate(pairs.second)]
    return same_class("classes", texts, [str(i % 3) for i in range(len(texts))])


def test_every_sentence_is_encoded_once() -> None:
    bag, pairs = Bag(), own_pairs()
    remembering = RememberingEncoder(bag)
    for name in ("sts", "ranking", "geometry"):
        assert json.dumps(results_of(remembering, name, pairs)) == json.dumps(
            results_of(Bag(), name, pairs)
        )
    assert sorted(bag.asked) == sorted({*pairs.first, *pairs.second})


def test_what_is_asked_is_checked_before_a_model_is_loaded(tmp_path: Path) -> None:
    pairs = own_pairs()
    without_lists = GradedPairs("lonely", ["a", "b"], ["c", "d"], np.array([1.0, 2.0]))
    for arguments, problem in (
        (
            ("transfr",),
            "suite 'transfr' is unknown: did you mean 'transfer'. choose one of sts, transfer, ",
        ),
        (("transfer:slow",), "the setting 'slow' is unknown"),
        (("sts", "CR"), "the task 'CR' is unknown"),
        (("sts:dev", "STS12"), "setting dev: the task 'STS12' is unknown"),
        (("sts", None, tmp_path / "none"), "none"),
        (("retrieval", None, None, [pairs]), "retrieval cannot use 40 graded pairs of mine"),
        (
            ("sts", None, None, [pairs, own_pairs(seed=1)]),
            "two of the given labels are called 'mine'",
        ),
        (("sts,ranking", None, None, [without_lists]), "lonely has no list to rank"),
        ((None, "STS12", tmp_path, [pairs]), "tasks STS12 beside your own labels: leave them out"),
    ):
        with pytest.raises(UserError, match=problem):
            plan_evaluations(*arguments)


def test_own_data_are_evaluated_alone_unless_suites_are_named(tmp_path: Path) -> None:
    pairs, own, sts = own_pairs(), ("sts, own data", "test"), ("sts", "test")
    for asked, wanted in (
        (("sts", None, None, [pairs]), [own]),
        ((None, None, tmp_path, [pairs]), [own]),
        ((None, None, tmp_path), [sts]),
        (("sts, transfer:fast", None, tmp_path, [pairs]), [sts, ("transfer", "fast"), own]),
    ):
        assert [(part.title, part.setting) for part in plan_evaluations(*asked)] == wanted


def test_results_are_remembered_until_data_or_code_change(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = own_pairs()
    texts = classes(pairs)
    asked = plan_evaluations("sts", None, None, [pairs, texts])
    first = evaluate_models(["isotrope/tiny"], asked)

    def forget(*_: object) -> None:
        raise AssertionError("a sentence was encoded again")

    monkeypatch.setattr(RememberingEncoder, "encode", forget)
    assert evaluate_models(["isotrope/tiny"], asked) == first
    changed = plan_evaluations("sts", None, None, [own_pairs(seed=1), texts])
    with pytest.raises(AssertionError, match="encoded again"):
        evaluate_models(["isotrope/tiny"], changed)
    monkeypatch.setattr(models, "code_checksum", lambda: "another")
    with pytest.raises(AssertionError, match="encoded again"):
        evaluate_models(["isotrope/tiny"], asked)


def test_prompts_are_chosen_checked_first_and_remembered_apart(
    cached: Path, prompted_model: Path
) -> None:
    pairs = own_pairs()
    texts = classes(pairs)
    asked = plan_evaluations(None, None, None, [pairs, texts])
    said: list[str] = []

    def say(line: str) -> None:
        if "prompt" in line:  # and not of the tokenizer, which knows no digits
            said.append(line)

    def results(**given: str) -> tuple[float, float]:
        (found,) = evaluate_models(
            [str(prompted_model)], asked, prompts=Prompts(**given), say=say
        ).values()
        retrieved = found["retrieval, own data"]["classes"]["mrr@10"]
        return found["sts, own data"]["mine"]["spearman"]["test"], retrieved

    none, named, words = results(), results(name="query"), results(query="song of ", document="")
    assert none[0] != named[0]
    assert none[1] == named[1] != words[1], "a search has its own prompts"
    evaluate_models([str(prompted_model)], plan_evaluations(None, None, None, [texts]), say=say)
    (line,) = said
    assert "none is used outside searches: see" in line, "a search uses the model's prompts"
    with pytest.raises(
        UserError, match="prompts for queries or documents, and no search: name the suite"
    ):
        evaluate_models(
            ["none"], plan_evaluations(None, None, None, [pairs]), prompts=Prompts(query="find: ")
        )
    own = SentenceTransformer(str(prompted_model), device="cpu")
    own.default_prompt_name = "query"
    assert named[0] == pytest.approx(
        results_of(own, "sts", pairs)["mine"]["spearman"]["test"], abs=1e-6
    )


def test_labels_in_another_script_are_one_warning(cached: Path) -> None:
    questions = [(f"Вопрос номер {number}", f"Ответ на вопрос {number}") for number in range(4)]
    said = list[str]()
    evaluate_models(
        ["isotrope/tiny"],
        plan_evaluations(None, None, None, [read_labels(questions)]),
        say=said.append,
    )
    assert len([line for line in said if "has no words of this script" in line]) == 1


@pytest.mark.parametrize("given", [{}, {"setting": "test"}, {"tasks": None}])
def test_the_evaluator_takes_labels_of_the_user_s_own(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "mine.tsv").write_text(as_lines(own_pairs()))
    evaluator = SuiteEvaluator("sts", tmp_path / "mine.tsv", **given)
    expected = suite.run(HashEncoder(), "sts", tmp_path / "mine.tsv")["mine"]["spearman"]["test"]
    assert evaluator(HashEncoder()) == {"sts_mine": expected, "sts_score": expected}


def test_a_result_on_own_labels_says_what_they_were_taken_for(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text(as_lines(own_pairs()))
    result = suite.run(HashEncoder(), "sts", tmp_path / "mine.tsv")["mine"]
    assert result["read_as"].startswith("40 graded pairs: column 1, column 2, column 3")
