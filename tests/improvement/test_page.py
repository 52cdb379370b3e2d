"""The table, the page and the card of a race."""

from pathlib import Path

import pytest
from rich.console import Console

from helpers.library import race_record, write_library
from isotrope.encoder import load
from isotrope.improvement.budget import Budget
from isotrope.improvement.candidates import Maker, Trial
from isotrope.improvement.page import (
    advised,
    candidates_table,
    choice_card,
    choice_page,
    what_to_do,
)
from isotrope.improvement.race import Race
from isotrope.improvement.steps import Basis
from isotrope.text import read_text
from isotrope.text.pseudo_queries import PseudoQueries


def test_the_table_has_every_candidate_the_best_mean_first() -> None:
    table = candidates_table(race_record())
    assert [row[0] for row in table.rows] == ["→ soft", "keep", "<b>odd"]
    assert table.header == ["candidate", "mean", "gain", "95 %", "p", "a", "b"]
    assert table.rows[0][1:] == ["35.00", "+10.00", "+5.00 … +15.00", "0.001", "40.00", "30.00"]
    assert table.rows[1][2:5] == ["", "", ""]
    assert table.marks[0, 1] == "best"
    assert "a: 60 documents" in table.notes


def test_the_page_says_what_to_do_and_escapes_names() -> None:
    lost = {"before": 0.5, "after": 0.4, "verdict": "worse"}
    similarity = {"per_task": {"similarity": lost, "STSBenchmark": lost}}
    late = {"crops": "it is late", "titles": "it is late"}
    html = choice_page(race_record(similarity=similarity, left_out=late)).html()
    assert "<b>odd" not in html
    for words in (
        "&lt;b&gt;odd",
        "my model",
        "330 graded pairs 50.0 → 40.0 (worse); STS-B 50.0 → 40.0",
        "crops; titles",
        "2 candidates were left out.",
        "it is late",
        "How to switch",
        "Use soft",
        "better than my model for these 300 documents within 2 minutes? Done: 2 candidates were compared with it",
        "hen use the new model: it scores 35.0 of 100, before 25.0, judged by 60 of your own documents.",
    ):
        assert words in html
    assert html.count("<rect") == len(race_record()["gains"])
    assert "stopped before its end" in choice_page(race_record(finished=False)).html()
    empty = choice_page(race_record("keep", table={}, gains={})).html()
    assert "Keep your model: nothing could be tested." in empty
    assert "How to switch" not in empty


def test_searches_of_both_models_are_shown() -> None:
    told = [{"query": "a ship", "before": ["a car"], "after": ["→ ✓ a boat"]}]
    shown = {"told": told, "earlier": 7, "later": 3, "queries": 60}
    found = choice_page(
        race_record(searched={"queries": 60, "first": [0.55, 0.62], "shown": shown})
    ).html()
    assert (
        "in 62 of 100 searches among your documents the right text comes first, before in 55."
        in found
    )
    assert "→ ✓ a boat" in found


@pytest.mark.parametrize(
    ("difference", "made", "said"),
    [
        (0.1, {"step": ""}, "For the switch, all documents are encoded again."),
        (0.005, {"step": ""}, "The gain is small, and the switch means that all documents are"),
        (0.1, {"step": "query map"}, "Your documents keep their vectors"),
        (0.1, {"step": "query map", "start": "another model"}, "all documents are encoded again"),
    ],
)
def test_the_cost_of_the_switch_is_told(difference: float, made: dict[str, str], said: str) -> None:
    record = race_record(made={"soft": made})
    record["verdict"]["difference"] = difference
    assert said in what_to_do(record)


@pytest.mark.parametrize("stay", [True, False])
def test_the_page_says_whether_documents_are_encoded_again(stay: bool) -> None:
    html = choice_page(race_record(switch={"documents_stay": stay})).html()
    assert ("Your documents keep their vectors" in html) is stay
    assert ("Encode all documents again" in html) is not stay


def test_bm25_is_advised_if_it_adds_more_than_chance() -> None:
    first = "First add a search by words (BM25) to yours, because that gains most: isotrope search INDEX --hybrid 0.3 ("
    advice = advised(race_record())
    assert advice[0].startswith(f"{first}+12.00 points, +5.00 ")
    assert advice[1].startswith("Then use the new model: ")
    small = {"name": "search with 0.3 BM25", "gain": 0.02, "low": 0.01, "high": 0.03}
    second = advised(race_record(hybrid=small))[1]
    assert second.endswith("too: isotrope search INDEX --hybrid 0.3 (+2.00 points, +1.00 … +3.00).")
    assert "BM25" not in choice_page(race_record(hybrid={**small, "low": -0.01})).html()


def test_the_card_tells_a_step_and_keep_adds_none(tiny_model: Path, tmp_path: Path) -> None:
    opened = read_text(write_library(tmp_path / "library.jsonl"))
    maker = Maker(str(tiny_model), opened, 20, 120, 0, tmp_path)
    race = Race(maker, [], Basis([], PseudoQueries(), 0), Budget(tmp_path, 1), Console(quiet=True))
    race.made |= {
        "keep": (Trial("keep"), ""),
        "soft": (Trial("pooling cls", "cls"), "soft whitening"),
    }
    card = choice_card(race, race_record(), load(tiny_model))
    (step,) = card.steps
    assert {key: value for key, value, _ in step.settings} == {
        "pooling": "cls",
        "post step": "soft whitening",
    }
    assert (step.data.name, step.cites) == ("library.jsonl", ["su2021whitening"])
    assert card.verdict is not None
    assert (card.verdict.word, len(card.scores)) == ("better", 4)
    kept = choice_card(race, race_record("keep"), load(tiny_model))
    assert not kept.steps
    assert "Keep my model." in kept.markdown(tmp_path)
