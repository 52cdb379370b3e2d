"""The table, the page and the verdict of a race."""

from __future__ import annotations

from isotrope.improvement.page import KEEP_ADVICE, candidates_table, choice_page, evidence, race_verdict
from library import race_record


def test_the_table_has_every_candidate_the_best_mean_first() -> None:
    table = candidates_table(race_record())
    assert [row[0] for row in table.rows] == ["→ soft", "keep", "<b>odd"]
    assert table.header == ["candidate", "a", "b", "mean", "gain", "95 %", "p"]
    assert table.rows[0][1:] == ["40.00", "30.00", "35.00", "+10.00", "+5.00 … +15.00", "0.001"]
    assert table.rows[1][4:] == ["", "", ""]
    assert "a: 60 documents" in table.notes


def test_the_page_says_what_to_do_and_escapes_names() -> None:
    lost = {"before": 0.5, "after": 0.4, "verdict": "worse"}
    similarity = {"per_task": {"similarity": lost, "STSBenchmark": lost}}
    html = choice_page(
        race_record(similarity=similarity, left_out={"crops": "it is late", "titles": "it is late"}), "my model"
    ).html()
    assert "<b>odd" not in html
    assert "&lt;b&gt;odd" in html
    for words in (
        "my model",
        "330 graded pairs 50.0 → 40.0 (worse); STS-B 50.0 → 40.0",
        "Left out, it is late: crops; titles.",
        "Use the new model",
    ):
        assert words in html
    kept = choice_page(race_record("keep"), "my model").html()
    assert KEEP_ADVICE in kept
    assert "stopped before its end" in choice_page(race_record(finished=False), "my model").html()


def test_the_verdict_of_a_race() -> None:
    better = race_verdict(race_record(), "mine")
    assert str(better) == (
        "better: 25.00 → 35.00 points on average, +10.00 (95 % interval +5.00 to +15.00), judged by tasks made of your "
        "documents\nUse the new model for documents like these."
    )
    assert race_verdict(race_record("keep")).word == "no difference found"
    assert race_verdict(race_record("keep", left_out={"crops": "it is late"})).advice.endswith(
        "1 more had to be left out."
    )
    assert len(evidence(race_record()).rows) == 3
