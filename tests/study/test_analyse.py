"""What a study says of its scores: differences, claims, who is compared with whom; its figures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from markupsafe import escape
from scipy import stats

from helpers.studies import measured
from isotrope.evaluation.significance import compare, interval, judged, resample
from isotrope.store.files import RecordLog
from isotrope.study.analyse import claim_answer, study_record
from isotrope.study.cell import RESAMPLES, without_paths
from isotrope.study.columns import column_of, suite_scores
from isotrope.study.document import conclusion, study_pages
from isotrope.study.figures import draw
from isotrope.study.plan import StudyPlan
from isotrope.study.record import AnsweredClaim, Measurement, PairTest, StudyRecord
from isotrope.study.statistics import (
    PairedTest,
    detectable,
    holm,
    paired_test,
    power,
    seeds_needed,
    spread_test,
)
from isotrope.training.folder import write_cosines

Scored = Callable[..., StudyRecord]
Sketch = Callable[..., StudyPlan]


def test_a_row_is_meant_where_a_teacher_has_its_name(scored: Scored) -> None:
    rows = """
    [run]
    seeds = 3
    backbone = "isotrope/tiny"
    [rows.simcse]
    [rows.rank]
    preset = "rankcse-listmle"
    [teachers.simcse]
    preset = "simcse"
    seed = 7
    """
    points = {"simcse": 50.0, "rankcse-listmle": 51.0}
    record = scored(
        rows, lambda cell: {"Avg.": 90.0 if cell.seed == 7 else points[cell.row.preset]}
    )
    (one,) = record.differences
    assert (one.seeds.n, one.seeds.mean) == (3, 1.0)
    assert record.spread.n == 3


def test_the_seeds_that_a_row_needs_are_by_its_own_spread_and_the_baselines(scored: Scored) -> None:
    rows = """[run]\nseeds = 3\n[rows.A]\n[rows.calm]\nset = ["views.passes=3"]\n[rows.wild]\nset = ["views.passes=4"]
    [rows.raw]\ntrain = false"""
    spread = {"A": 0.3, "calm": 0.1, "wild": 3.0, "raw": 0.0}
    record = scored(rows, lambda cell: {"Avg.": 50 + spread[cell.label] * cell.seed}, draws=True)
    assert {one.row: one.needed and one.needed["0.5"] for one in record.differences} == {
        name: seeds_needed(0.5, (0.3**2 + spread[name] ** 2) ** 0.5)
        for name in ("calm", "wild", "raw")
    }
    assert all(one.pairs.resamples == RESAMPLES for one in record.differences)


def test_p_values_are_corrected_for_the_number_of_rows(scored: Scored) -> None:
    rows = '[run]\nseeds = 3\n[rows.A]\n[rows.B]\nset = ["views.passes=3"]\n'
    rows += '[rows.C]\nset = ["views.passes=4"]\n'
    points = {"A": (50.0, 50.2, 49.9), "B": (51.0, 51.1, 51.2), "C": (50.1, 50.1, 50.3)}
    record = scored(rows, lambda cell: {"Avg.": points[cell.label][cell.seed]})
    tests = [difference.seeds for difference in record.differences if difference.seeds]
    p_values = [test.p for test in tests]
    assert [test.p_holm for test in tests] == holm(p_values)
    assert min(test.p_holm or 1 for test in tests) == 2 * min(p or 1 for p in p_values)


def test_pairs_can_be_significant_after_correction_for_31_rows(scored: Scored) -> None:
    """Of 1,000 resamples they could not; a p that their number limits is shown as a bound."""
    clear = judged(0, 0, np.random.default_rng(0).normal(5, 1, RESAMPLES))
    assert (31 * clear.p, clear.resamples) == (pytest.approx(0.0031), RESAMPLES)
    few = judged(0, 0, np.ones(1000))
    assert 31 * few.p > 0.05
    record = scored('[rows.A]\n[rows.B]\nset = ["views.passes=3"]', lambda _: {"Avg.": 50.0})
    pairs = PairTest(low=1.0, high=2.0, p=few.p, p_holm=31 * few.p, resamples=1000)
    difference = record.differences[0].model_copy(update={"pairs": pairs})
    record = record.model_copy(update={"differences": [difference]})
    assert "| ≤ 0.062 |" in study_pages(record)["table.md"]


def test_differences_of_a_study_are_corrected_together(scored: Scored) -> None:
    """By Holm's procedure over all rows: the least p counts as often as there are rows."""
    rows = "[run]\nseeds = 3\n[rows.A]\n" + "".join(
        f'[rows.{name}]\nset = ["views.passes={passes}"]\n'
        for name, passes in (("B", 3), ("C", 4), ("D", 5))
    )
    gains = {"A": (0.0, 0.0, 0.0), "B": (1.0, 1.1, 1.2), "C": (0.1, 0.9, 0.2), "D": (0.5, 0.7, 0.4)}
    record = scored(rows, lambda cell: {"Avg.": 50 + gains[cell.label][cell.seed]}, draws=True)
    for over in ("seeds", "pairs"):
        tests = [getattr(difference, over) for difference in record.differences]
        first, second, third = sorted(test.p for test in tests)
        corrected = [3 * first, max(3 * first, 2 * second), max(3 * first, 2 * second, third)]
        expected = [min(1.0, value) for value in corrected]
        assert sorted(test.p_holm for test in tests) == pytest.approx(expected), over


def test_over_pairs_the_mean_over_seeds_is_compared_on_the_same_resamples(sketch: Sketch) -> None:
    rows = '[run]\nseeds = 3\n[rows.A]\n[rows.B]\npreset = "simcse"\nset = ["views.passes=3"]'
    made = measured(sketch(rows), lambda _: {"Avg.": 50.0}, draws=True)
    (one,) = study_record(made).differences

    def mean(label: str) -> Any:
        draws = [made.cells[key].draws() for key in made.rows[label].values()]
        return 100 * np.mean([one["STS12"] for one in draws], axis=0)

    expected = interval(mean("B") - mean("A"))
    assert (one.pairs.low, one.pairs.high) == pytest.approx(expected)


def test_gains_are_positive_where_lower_is_better_and_equal_rows_count_for_nothing(
    scored: Scored,
) -> None:
    rows = """
    [run]
    seeds = 3
    [rows.A]
    published = {uniformity = -1.5}
    [rows.B]
    set = ["views.passes=3"]
    published = {uniformity = -2.0}
    [rows.again]
    [claims.lower]
    better = "B"
    than = "A"
    text = "B spreads wider"
    column = "uniformity"
    [claims.none]
    better = "again"
    than = "A"
    text = "nothing is something"
    column = "uniformity"
    """
    generator, mean = np.random.default_rng(0), {"A": -1.0, "B": -2.5}
    record = scored(rows, lambda cell: {"uniformity": generator.normal(mean[cell.label], 0.3)})
    lower, nothing = record.claims
    assert lower.seeds.mean > 0
    assert lower.published == pytest.approx(0.5)
    assert lower.seeds.p_holm == lower.seeds.p, "one comparison, since the other compares nothing"
    assert (nothing.answer, nothing.seeds.p_holm) == ("open", None)
    assert "A − B (uniformity)" in study_pages(record)["table.md"]


@pytest.mark.parametrize(
    ("gain", "untrained", "seeds", "word", "advice"),
    [
        (5.0, 40.0, 3, "better", 'Use "B". Search was not measured.'),
        (
            0.1,
            40.0,
            3,
            "no difference found",
            'Stay with "A": "B" is the highest of 3 rows, which may be chance.',
        ),
        (
            0.1,
            40.0,
            2,
            "not tested",
            'Stay with "A": "B" is the highest of 3 rows, which may be chance.',
        ),
        (0.1, 60.0, 3, "better", 'Use "raw": it is not trained, and no trained row scored higher.'),
        (-5.0, 40.0, 3, "worse", 'Stay with "A": no row scored higher.'),
    ],
)
def test_a_page_says_first_which_row_to_use(
    scored: Scored, gain: float, untrained: float, seeds: int, word: str, advice: str
) -> None:
    rows = f"""[run]\nseeds = {seeds}\n[rows.A]\n[rows.B]\nset = ["views.passes=3"]\n[rows.raw]\ntrain = false"""
    noise = {"A": (0.0, 0.3, 0.1), "B": (0.2, 0.0, 0.3), "raw": (0.0,)}
    level = {"A": 50.0, "B": 50.0 + gain, "raw": untrained}
    record = scored(rows, lambda cell: {"Avg.": level[cell.label] + noise[cell.label][cell.seed]})
    found = conclusion(record)
    assert found
    assert (found.before, found.word) == ("A", word)
    assert found.advice.startswith(advice)
    text = study_pages(record)
    assert f"**{word}**: {found.evidence}." in text["table.md"]
    assert escape(found.advice) in text["table.html"]


@pytest.mark.parametrize(
    ("mean", "p", "p_margin", "expected"),
    [
        (0.4, 0.01, 0.2, "holds"),
        (0.3, 0.04, 0.01, "holds"),
        (0.1, 0.4, 0.01, "does not hold"),
        (-0.6, 0.01, 0.001, "does not hold"),
        (0.4, 0.06, 0.6, "open"),
        (-0.4, 0.06, 0.06, "open"),
    ],
)
def test_a_claim_is_answered_by_rule(mean: float, p: float, p_margin: float, expected: str) -> None:
    test = PairedTest(n=5, mean=mean, sd=0.1, p=p, p_holm=p, p_margin_holm=p_margin, detectable=0.6)
    claim = AnsweredClaim(
        claim="c", text="t", row="a", than="b", column="Avg.", margin=0.5, seeds=test
    )
    assert claim_answer(claim)[0] == expected
    for change in ({"same": True}, {"seeds": None}, {"seeds": PairedTest(n=5, mean=mean, sd=0.0)}):
        assert claim_answer(claim.model_copy(update=change))[0] == "open"


def test_the_users_own_pairs_never_take_a_columns_name() -> None:
    names = {
        "STSBenchmark": "STS-B",
        "dev": "dev pairs",
        "minutes": "minutes pairs",
        "my pairs": "my pairs",
    }
    assert {name: column_of(name) for name in names} == names


def test_what_differs_behind_published_numbers_stands_beside_them_and_in_claims(
    scored: Scored,
) -> None:
    rows = """
    [rows.ours]
    [rows.theirs]
    set = ["views.passes=3"]
    published = {"Avg." = 74.62}
    source = "DCLR Table 1"
    differs = "trained on NLI text"
    [claims.c]
    better = "ours"
    than = "theirs"
    text = "ours is better"
    """
    record = scored(rows, lambda _: {"Avg.": 50.0})
    page = study_pages(record)["table.md"]
    assert "published (DCLR Table 1; trained on NLI text)" in page
    assert "ours is better; published theirs: trained on NLI text" in page


def test_a_suites_scores_are_points_and_its_average_is_of_the_papers_tasks() -> None:
    accuracies = {"MR": {"accuracy": 0.8}, "SST2": {"accuracy": 0.9}, "SST5": {"accuracy": 0.1}}
    assert suite_scores("transfer", accuracies) == pytest.approx(
        {"MR": 80, "SST": 90, "Transfer Avg.": 85}
    )
    geometry = {"alignment": 0.1, "uniformity": -2.0, "mean_cosine": 0.5}
    assert suite_scores("geometry", {"STS-B": geometry})["mean cosine"] == 0.5
    found = {"CACM": {"ndcg@10": 0.2}, "NPL": {"ndcg@10": 0.1}}
    assert suite_scores("retrieval", found) == pytest.approx(
        {"CACM": 20, "NPL": 10, "nDCG Avg.": 15}
    )


def test_holm_is_the_stepwise_definition() -> None:
    """Reject at level a while p of rank i is at most a / (m − i): the smallest such a."""
    generator = np.random.default_rng(0)
    for m in range(1, 20):
        values = generator.uniform(0, 0.3, size=m)
        levels = [
            max((m - i) * p for i, p in enumerate(np.sort(values)) if p <= value)
            for value in values
        ]
        assert holm(values.tolist()) == pytest.approx(np.minimum(1, levels))
    assert holm([0.02, None, 0.03]) == pytest.approx([0.04, None, 0.04])


def test_the_paired_test_is_scipys() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(1, 1, 6), generator.normal(0, 1, 6)
    found, expected = paired_test(a.tolist(), b.tolist(), margin=0.5), stats.ttest_rel(a, b)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert found.p_margin == pytest.approx(stats.ttest_1samp(a - b, 0.5).pvalue)
    assert paired_test([1.0, 2.0], [0.0, 0.5]).p is None
    assert paired_test([1.0], [0.0]).sd is None
    assert (paired_test([1, 2, 3], [1, 2, 3]).p, paired_test([2, 3, 4], [1, 2, 3]).p) == (1.0, 0.0)


def test_the_test_of_spreads_agrees_with_simulation() -> None:
    first, second = np.random.default_rng(3).normal(0, 1, (2, 300, 5))
    found = [spread_test(a, b) for a, b in zip(first, second, strict=True)]
    assert np.mean([(one.p or 1) < 0.05 for one in found]) == pytest.approx(0.05, abs=0.03)
    assert all(
        ((one.p or 1) < 0.05) == ((one.low or 0) > 0 or (one.high or 0) < 0) for one in found
    )
    shown = np.exp(found[0].detectable or 0)
    wider = [spread_test(a, shown * b).p or 1 for a, b in zip(first, second, strict=True)]
    assert np.mean([p < 0.05 for p in wider]) == pytest.approx(0.8, abs=0.06)
    assert found[0].mean == pytest.approx(np.log(second[0].std(ddof=1) / first[0].std(ddof=1)))
    assert spread_test([1.0, 2.0], [1.0, 2.0, 3.0]).p is None
    assert spread_test([63.3] * 6, [1.0, 2.0, 3.0]).p is None, "one model has no spread"


def test_claims_on_spreads_on_shares_and_of_several_rows(scored: Scored) -> None:
    rows = """[run]\nseeds = 6\n[rows.a]\npublished_sd = { "Avg." = 0.1 }\n[rows.b]\nset = ["views.passes=3"]
    published_sd = { "Avg." = 0.7 }\n[rows.c]\nset = ["views.passes=4"]
    [claims.steady]\nbetter = "a"\nthan = "b"\ntext = "t"\nspread = true
    [claims.shaky]\nbetter = "b"\nthan = "a"\ntext = "t"\nspread = true
    [claims.kept]\nbetter = "c"\nthan = "a"\ntext = "t"\nshare = 0.9
    [claims.lost]\nbetter = "c"\nthan = "a"\ntext = "t"\nshare = 0.99
    [claims.both]\neach = ["b", "c"]\nbetter = "a"\nthan = "{}"\ntext = "above {}"\nsource = "{} 1\""""
    steps = (0.0, 0.1, -0.1, 0.05, -0.05, 0.02)
    means, wide = {"a": 50.0, "b": 50.0, "c": 48.0}, {"a": 1, "b": 30, "c": 1}
    record = scored(
        rows, lambda cell: {"Avg.": means[cell.label] + wide[cell.label] * steps[cell.seed]}
    )
    answers = {one.claim: one.answer for one in record.claims}
    assert answers == {
        "steady": "holds",
        "shaky": "does not hold",
        "kept": "holds",
        "lost": "does not hold",
        "both: b": "open",
        "both: c": "holds",
    }
    last = record.claims[-1]
    assert (last.row, last.than, last.text, last.source) == ("a", "c", "above c", "c 1")
    steady = record.claims[0]
    assert (steady.published, steady.seeds.mean) == pytest.approx((np.log(7), np.log(30)))
    text = study_pages(record)["table.md"]
    assert "ln(s of b / s of a) (Avg.)" in text
    assert "c − 0.9 × a (Avg.)" in text


def test_what_n_seeds_can_show_agrees_with_simulation() -> None:
    n, sd = 5, 0.7
    least = detectable(sd, n)
    draws = np.random.default_rng(2).normal(least, sd, (20_000, n))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(
        0.8, abs=0.01
    )
    needed = seeds_needed(0.5, sd)
    assert needed is not None
    assert power(0.5, sd, needed) >= 0.8 > power(0.5, sd, needed - 1)
    assert seeds_needed(0.001, 10.0) is None
    assert seeds_needed(0.5, 0.02) == 3, "where scipy's lower tail is NaN"
    assert all(0.8 <= power(0.5, 0.3, n) <= 1 for n in range(6, 200))


def test_draws_kept_apart_compare_as_the_two_models_would_together() -> None:
    generator = np.random.default_rng(3)
    gold = generator.integers(0, 6, 80).astype(float)
    old, new = gold + generator.normal(0, 3, 80), gold + generator.normal(0, 2, 80)
    together = compare({"a": (gold, old)}, {"a": (gold, new)})
    before, after = (resample({"a": (gold, values)})["a"] for values in (old, new))
    apart = judged(together.before, together.after, after - before)
    expected = together.per_task["a"]
    assert (apart.difference, apart.low, apart.high, apart.p) == (
        expected.difference,
        expected.low,
        expected.high,
        expected.p,
    )


def test_of_absolute_paths_two_names_stay() -> None:
    """So the same model elsewhere is the same settings."""
    value = {
        "x": ["/home/me/models/bert", "/bert", "princeton-nlp/sup-simcse", "a/b/c/d", 3, None, True]
    }
    expected = {"x": ["models/bert", "bert", "princeton-nlp/sup-simcse", "a/b/c/d", 3, None, True]}
    assert without_paths(value) == without_paths(expected) == expected


KINDS = {
    "bars": "",
    "plane": "",
    "cosines": "",
    "in_batch": "",
    "projection": "",
    "sweep": 'x = "train.epochs"\n',
}
KINDS["curve"] = 'columns = ["uniformity", "alignment"]\n'


class _Pairs:
    gold = np.linspace(0, 5, 30)


@pytest.fixture
def made(sketch: Sketch) -> StudyPlan:
    """A study with a figure of each kind, whose cells have all that a figure may read."""
    rows = '[run]\nseeds = 2\n[rows.A]\nsweep = {"train.epochs" = [1, 2, 40]}\n'
    figures = (
        f'[figures.{kind}]\nkind = "{kind}"\ntitle = "{kind}"\n{more}'
        for kind, more in KINDS.items()
    )
    made = sketch(rows + "".join(figures))
    sets: Any = {"STSBenchmark": {"test": _Pairs()}}
    for cell in made.cells.values():
        cell.numbers.mkdir(parents=True)
        write_cosines(
            cell.numbers / "after.npz", sets, {"STSBenchmark": {"test": np.linspace(-0.5, 1, 30)}}
        )
        log = RecordLog(cell.numbers / "metrics.jsonl")
        for step in (10, 20):
            log.add({"step": step, "uniformity": -1.0, "score": 0.5})
        scores = {"Avg.": 50.0 + cell.seed, "alignment": 0.2, "uniformity": -2.0}
        measured_here = Measurement(
            scores=scores, in_batch=[1] * 40, projection=[[0.5, 0.1], [0.7, -0.2]]
        )
        cell.finish(measured_here, settings={}, environment={})
    return made


def test_each_figure_is_drawn_and_the_same_for_the_same_numbers_without_damaged_cells(
    made: StudyPlan, tmp_path: Path
) -> None:
    assert draw(made, study_record(made), tmp_path) == {kind: f"{kind}.svg" for kind in KINDS}
    texts = {path: path.read_bytes() for path in tmp_path.glob("*.svg")}
    assert len({*texts.values()}) == len(KINDS)
    draw(made, study_record(made), tmp_path)
    assert {path: path.read_bytes() for path in texts} == texts
    for cell in list(made.cells.values())[1:]:
        (cell.numbers / "after.npz").write_bytes(b"PK")
    assert draw(made, study_record(made), tmp_path).keys() == KINDS.keys()
    for cell in made.cells.values():
        (cell.folder / "result.json").write_text("{}")
    assert draw(made, study_record(made), tmp_path) == {}
