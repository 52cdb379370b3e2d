"""The table, the page and the card of a race."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers.library import race_result, write_library
from isotrope.encoder import load
from isotrope.evaluation.significance import Comparison
from isotrope.improvement.candidates import Candidate, CandidateTrainer, MadeCandidate
from isotrope.improvement.judge import BestSearch
from isotrope.improvement.page import (
    advice_lines,
    candidates_table,
    choice_card,
    choice_page,
    what_to_do,
)
from isotrope.improvement.result import RaceResult
from isotrope.report.card import Card
from isotrope.text import read_text


def html(result: RaceResult) -> str:
    return choice_page(result.record()).html()


def test_the_table_has_every_candidate_the_best_mean_first() -> None:
    table = candidates_table(race_result())
    assert table.header == ["candidate", "mean", "gain", "95 %", "a", "b"]
    assert [row[0] for row in table.rows] == ["→ soft", "keep", "<b>odd"]
    assert table.rows[0][1:] == ["35.00", "+10.00", "+5.00 … +15.00", "40.00", "30.00"]
    assert table.rows[1][2:4] == ["", ""]
    assert table.marks[0, 1] == "best"
    assert "a: 60 documents" in table.notes


def test_the_page_says_what_to_do() -> None:
    page = html(race_result())
    assert "Use the new model: it scores 35.0 of 100, before 25.0, judged by 60 of" in page
    assert "better than my model for these 300 documents within 2 minutes?" in page
    assert "How to switch" in page


def test_names_are_escaped() -> None:
    page = html(race_result())
    assert "<b>odd" not in page
    assert "&lt;b&gt;odd" in page


def test_what_was_left_out_is_named_by_its_reason() -> None:
    page = html(race_result(left_out={"crops": "it is late", "titles": "it is late"}))
    assert "2 candidates were left out." in page
    assert "crops; titles" in page


def test_general_english_is_told() -> None:
    one = Comparison(0.5, 0.4, -0.1, -0.2, -0.05, 0.01, 1000, "worse")
    change = replace(one, per_task={"similarity": one, "STSBenchmark": one})
    page = html(race_result(similarity=change))
    assert "330 graded pairs 50.0 → 40.0 (worse); STS-B 50.0 → 40.0" in page


def test_a_page_of_keep_has_no_switch() -> None:
    page = html(race_result("keep"))
    assert "Keep your model: nothing could be tested." in page
    assert "How to switch" not in page


def test_searches_of_both_models_are_shown() -> None:
    told = [{"query": "a ship", "before": ["a car"], "after": ["→ ✓ a boat"]}]
    shown = {"told": told, "earlier": 7, "later": 3, "queries": 60}
    searched = {"queries": 60, "first": [0.55, 0.62], "shown": shown}
    page = html(race_result(searched=searched))
    assert "in 62 of 100 searches among your documents the right text comes first" in page
    assert "→ ✓ a boat" in page


@pytest.mark.parametrize(
    ("difference", "step", "start", "sentence"),
    [
        (0.1, "", "", "For the switch, all documents are encoded again."),
        (0.005, "", "", "The gain is small, and the switch means that all documents are"),
        (0.1, "query map", "", "Your documents keep their vectors"),
        (0.1, "query map", "another model", "all documents are encoded again"),
    ],
)
def test_the_cost_of_the_switch_is_told(
    difference: float, step: str, start: str, sentence: str
) -> None:
    made = {"soft": MadeCandidate(encoder=Candidate(name="x", start=start), step=step)}
    result = race_result(made=made)
    result.verdict = replace(result.verdict, difference=difference)
    assert sentence in what_to_do(result)


@pytest.mark.parametrize("stay", [True, False])
def test_the_page_says_whether_documents_are_encoded_again(stay: bool) -> None:
    page = html(race_result(switch={"documents_stay": stay}))
    assert ("Your documents keep their vectors" in page) is stay
    assert ("Encode all documents again" in page) is not stay


def searching(word: Any, share: float) -> list[str]:
    advice = "Use the new model and add 0.3 BM25: +12.0"
    verdict = replace(race_result().verdict, word=word, low=0.05, high=0.2, advice=advice)
    return advice_lines(race_result(search=BestSearch("soft", share, verdict)))


def test_bm25_is_advised_if_the_search_is_better_with_it() -> None:
    line = searching("better", 0.3)[1]
    assert "Use the new model and add 0.3 BM25: +12.0 (+5.00 … +20.00)" in line
    assert "isotrope search INDEX --hybrid 0.3" in line


def test_a_better_search_comes_before_a_kept_model() -> None:
    advice = "Keep the model and add 0.2 BM25: +3.2 points on tasks made from your documents"
    verdict = replace(race_result().verdict, advice=advice)
    lines = advice_lines(race_result("keep", search=BestSearch("keep", 0.2, verdict)))
    assert advice in lines[0]
    assert lines[1].startswith("Keep your model")


def test_a_search_with_the_given_model_and_a_better_model_are_alternatives() -> None:
    advice = "Keep the model and add 0.2 BM25: +3.2 points on tasks made from your documents"
    verdict = replace(race_result().verdict, advice=advice)
    lines = advice_lines(race_result(search=BestSearch("keep", 0.2, verdict)))
    assert lines[0].startswith(f"If your search can add BM25: {advice}")
    assert lines[1].startswith("If it can't: Use the new model")


@pytest.mark.parametrize(("word", "share"), [("no difference found", 0.3), ("better", 0.0)])
def test_bm25_is_not_advised_otherwise(word: str, share: float) -> None:
    assert len(searching(word, share)) == 1


def card_of(choice: str, model: Path, folder: Path) -> Card:
    """The card of a race of two candidates, one of which whitens another pooling."""
    source = read_text(write_library(folder / "library.jsonl"))
    trainers = {"": CandidateTrainer(str(model), source, 20, 120, 0, folder)}
    whitened = {"encoder": {"name": "pooling cls", "pooling": "cls"}, "step": "soft whitening"}
    made = {"keep": {"encoder": {"name": "keep"}, "step": ""}, "soft": whitened}
    return choice_card(trainers, race_result(choice, made=made), load(model))


def test_the_card_tells_how_the_model_was_made(tiny_model: Path, tmp_path: Path) -> None:
    card = card_of("soft", tiny_model, tmp_path)
    (step,) = card.steps
    assert {key: value for key, value, _ in step.settings} == {
        "pooling": "cls",
        "post step": "soft whitening",
    }
    assert (step.data.name, step.cites) == ("library.jsonl", ["su2021whitening"])
    assert card.verdict is not None
    assert card.verdict.word == "better"


def test_the_card_of_keep_has_no_step(tiny_model: Path, tmp_path: Path) -> None:
    card = card_of("keep", tiny_model, tmp_path)
    assert not card.steps
    assert "Keep my model." in card.markdown(tmp_path)


def test_a_result_is_read_again_as_it_was() -> None:
    result = race_result()
    assert RaceResult.model_validate(result.record()) == result
