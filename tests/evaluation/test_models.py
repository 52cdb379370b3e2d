"""Several models by name: what is asked, what is encoded once, what is remembered."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isotrope.encoder.prompts import Prompts
from isotrope.errors import UserError
from isotrope.evaluation.models import EvaluationRequest, RememberingEncoder, check_widths, evaluate_models
from isotrope.evaluation.sets.domain import same_class
from isotrope.evaluation.sets.labels import read_labels
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.post.shortened import shortenings
from isotrope.report import scores
from wordbag import Bag, own_pairs, results_of


def test_every_sentence_is_encoded_once() -> None:
    bag, pairs = Bag(), own_pairs()
    remembering = RememberingEncoder(bag)
    for suite in ("sts", "ranking", "geometry"):
        assert json.dumps(results_of(remembering, suite, pairs)) == json.dumps(results_of(Bag(), suite, pairs))
    assert sorted(bag.asked) == sorted({*pairs.first, *pairs.second})


def test_what_is_asked_is_checked_before_a_model_is_loaded(tmp_path: Path) -> None:
    pairs = own_pairs()
    without_lists = Pairs("lonely", ["a", "b"], ["c", "d"], np.array([1.0, 2.0]))
    for arguments, problem in (
        (("nonsense",), "unknown suite 'nonsense'"),
        (("transfer:slow",), "no setting 'slow'"),
        (("sts", "CR"), "no task 'CR'"),
        (("sts:dev", "STS12"), "no task 'STS12' in the setting dev"),
        (("sts", None, tmp_path / "none"), "none"),
        (("retrieval", None, None, [pairs]), "retrieval cannot use 40 graded pairs of mine"),
        (("sts,ranking", None, None, [without_lists]), "lonely has no list to rank"),
        ((None, "STS12", tmp_path, [pairs]), "tasks STS12 beside your own labels: name their suite"),
    ):
        with pytest.raises(UserError, match=problem):
            EvaluationRequest.read(*arguments)
    assert not EvaluationRequest.read("sts", None, None, [pairs]).of_data
    for none in (None, ""):
        assert not EvaluationRequest.read(none, None, tmp_path, [pairs]).of_data, "own data alone, whatever data exist"
    assert EvaluationRequest.read(None, None, tmp_path).suites == {"sts": "test"}
    assert EvaluationRequest.read("sts, transfer:fast", None, tmp_path, [pairs]).suites == {
        "sts": "test",
        "transfer": "fast",
    }


def test_models_by_name_on_own_pairs(cached: Path) -> None:
    asked = EvaluationRequest.read("sts,ranking,geometry,retrieval", None, None, [own_pairs()])
    results = evaluate_models(["isotrope/tiny", "isotrope/tiny@cls"], asked)
    titles = [table.title for table in scores.all_tables(results, compare=True)]
    tests = "against isotrope/tiny (before), paired bootstrap over the same cases"
    assert titles == [
        "sts, own data: mine",
        f"sts, own data: Spearman × 100 {tests}",
        "ranking, own data: mine",
        f"ranking, own data: KCC × 100 {tests}",
        "geometry, own data: mine",
    ]


def test_results_on_own_data_are_remembered_until_the_data_change(
    cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = own_pairs()
    texts = same_class(
        "classes", [f"{text} {i}" for i, text in enumerate(pairs.second)], [str(i % 3) for i in range(40)]
    )
    asked = EvaluationRequest.read("sts", None, None, [pairs, texts])
    first = evaluate_models(["isotrope/tiny"], asked)

    def forget(*_: object) -> None:
        raise AssertionError("a sentence was encoded again")

    monkeypatch.setattr(RememberingEncoder, "encode", forget)
    assert evaluate_models(["isotrope/tiny"], asked) == first
    changed = EvaluationRequest.read("sts", None, None, [own_pairs(seed=1), texts])
    with pytest.raises(AssertionError, match="encoded again"):
        evaluate_models(["isotrope/tiny"], changed)


def test_prompts_are_chosen_checked_first_and_remembered_apart(
    cached: Path, prompted_model: Path, tiny_model: Path, tmp_path: Path
) -> None:
    pairs = own_pairs()
    texts = same_class(
        "classes", [f"{text} {i}" for i, text in enumerate(pairs.second)], [str(i % 3) for i in range(40)]
    )
    asked = EvaluationRequest.read(None, None, None, [pairs, texts])
    said: list[str] = []

    def say(line: str) -> None:
        if "prompt" in line:  # and not of the tokenizer, which knows no digits
            said.append(line)

    def results(**given: str) -> tuple[float, float]:
        (found,) = evaluate_models([str(prompted_model)], asked, prompts=Prompts(**given), say=say).values()
        retrieved = found["retrieval, own data"]["classes"]["mrr@10"]
        return found["sts, own data"]["mine"]["spearman"]["test"], retrieved

    none, named, words = results(), results(name="query"), results(query="song of ", document="")
    assert none[0] != named[0]
    assert none[1] == named[1], "a search has its own prompts"
    assert words[1] != none[1]
    assert len(said) == 1
    assert "none is used outside searches: see" in said[0]
    search = EvaluationRequest.read(None, None, None, [texts])
    evaluate_models([str(prompted_model)], search, say=say)
    assert len(said) == 1, "a search uses the model's prompts"
    with pytest.raises(UserError, match="prompts for queries or documents, and no search: name the suite"):
        evaluate_models(["none"], EvaluationRequest.read(None, None, None, [pairs]), prompts=Prompts(query="find: "))
    own = SentenceTransformer(str(prompted_model), device="cpu")
    own.default_prompt_name = "query"
    assert named[0] == pytest.approx(results_of(own, "sts", pairs)["mine"]["spearman"]["test"], abs=1e-6)
    with pytest.raises(UserError, match="has no prompt called 'question'"):
        evaluate_models([str(prompted_model)], asked, prompts=Prompts(name="question"))
    (tmp_path / "vectors.txt").write_text("a 1 2\n")
    for name, problem in ((tiny_model, "it has none"), (tmp_path / "vectors.txt", "word vectors have no prompts")):
        with pytest.raises(UserError, match=problem):
            evaluate_models([str(prompted_model), str(name)], asked, prompts=Prompts(name="query"))


def test_two_own_files_of_one_name_are_refused() -> None:
    with pytest.raises(UserError, match="two of the given labels are called 'mine'"):
        EvaluationRequest.read("sts", None, None, [own_pairs(), own_pairs(seed=1)])


def test_shortened_vectors_are_scored_beside_and_encoded_once(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = list[str]()
    encode = SentenceTransformer.encode

    def spy(self: SentenceTransformer, texts: list[str], **options: Any) -> Any:
        encoded.extend(texts)
        return encode(self, texts, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", spy)
    asked = EvaluationRequest.read("sts", None, None, [own_pairs()])
    name, steps = "isotrope/tiny", shortenings("64", "int8,binary")
    found = evaluate_models([name], asked, steps=steps)
    assert list(found) == [name, *(f"{name}, {step}" for step in steps)]
    spearman = {label: of["sts, own data"]["mine"]["spearman"]["test"] for label, of in found.items()}
    assert len(set(spearman.values())) > 3
    assert len(encoded) == len(set(encoded))
    assert evaluate_models([name], asked, steps=steps) == found, "remembered, each under its own key"
    with pytest.raises(UserError, match="isotrope/tiny has 256 dimensions, and is to be cut to 257"):
        check_widths([name], shortenings("257", None))


def test_labels_in_another_script_are_one_warning(cached: Path) -> None:
    questions = [(f"Вопрос номер {number}", f"Ответ на вопрос {number}") for number in range(4)]
    said = list[str]()
    evaluate_models(
        ["isotrope/tiny"], EvaluationRequest.read(None, None, None, [read_labels(questions)]), say=said.append
    )
    assert len([line for line in said if "has no words of this script" in line]) == 1
