"""Several models at once: what is remembered, compared, shown and written, and the doors for other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from isotrope.errors import UserError
from isotrope.evaluation import cache
from isotrope.evaluation.models import EvaluationRequest, RememberingEncoder, evaluate_models
from isotrope.evaluation.paired_cases import compare_cases, compare_pairs
from isotrope.evaluation.sets.pairs import Pairs
from isotrope.evaluation.significance import compare_means, compare_tasks
from isotrope.evaluation.suite import SUITES, main_scores
from isotrope.report import scores
from isotrope.report.page import Page
from isotrope.report.tables import Table, best_marks, check_table_file, latex, markdown, write_tables

WORDS = ["the", "a", "cat", "dog", "bird", "sat", "ran", "flew", "on", "over", "mat", "house", "tree", "small", "big"]


def own_pairs(count: int = 40, seed: int = 0) -> Pairs:
    """Graded by how many words two sentences share; each first sentence has several partners."""
    generator = np.random.default_rng(seed)
    first = [" ".join(generator.choice(WORDS, 6)) for _ in range(count // 5)]
    rows = [(one, " ".join(generator.choice([*one.split(), *WORDS], 6))) for one in first for _ in range(5)]
    gold = np.array([5 * len({*a.split()} & {*b.split()}) / 6 for a, b in rows])
    return Pairs("mine", [a for a, _ in rows], [b for _, b in rows], gold)


class Bag:
    """Counts of words, so many of them."""

    def __init__(self, known: int = len(WORDS)) -> None:
        self.words, self.asked = WORDS[:known], []

    def encode(self, sentences: list[str]) -> Any:
        self.asked += sentences
        return np.array([[s.split().count(w) for w in self.words] + [0.1] for s in sentences], dtype=np.float32)


def results_of(encoder: Any, suite: str, pairs: Pairs) -> dict[str, Any]:
    return {pairs.name: SUITES[suite].of_pairs(encoder, pairs)}


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_result_is_computed_once(cached: Path) -> None:
    calls: list[int] = []

    def compute() -> dict[str, Any]:
        calls.append(1)
        return {"a": {"accuracy": 0.25}}

    assert cache.remembered_result({"model": "m", "data": "1"}, compute) == cache.remembered_result(
        {"data": "1", "model": "m"}, compute
    )
    assert len(calls) == 1
    cache.remembered_result({"model": "m", "data": "2"}, compute)
    assert len(calls) == 2
    for kept in cached.rglob("*.json"):
        kept.write_text("{ damaged")
    assert cache.remembered_result({"model": "m", "data": "2"}, compute) == {"a": {"accuracy": 0.25}}
    assert len(calls) == 3


def test_other_code_is_another_result(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.remembered_result({"model": "m"}, lambda: {"version": 1}) == {"version": 1}
    monkeypatch.setattr(cache, "code_checksum", lambda: "another")
    assert cache.remembered_result({"model": "m"}, lambda: {"version": 2}) == {"version": 2}


def test_a_result_stands_where_it_cannot_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "file"))
    assert cache.remembered_result({"model": "m"}, lambda: {"x": 1}) == {"x": 1}


def test_data_checksum_sees_bytes_and_names(tmp_path: Path) -> None:
    (tmp_path / "senteval").mkdir()
    (tmp_path / "senteval" / "a").write_text("1")
    (tmp_path / "domain").mkdir()
    first = cache.data_checksum(tmp_path, ("senteval",))
    (tmp_path / "domain" / "b").write_text("1")
    assert cache.data_checksum(tmp_path, ("senteval",)) == first  # another suite's data
    (tmp_path / "senteval" / "a").rename(tmp_path / "senteval" / "c")
    renamed = cache.data_checksum(tmp_path, ("senteval",))
    (tmp_path / "senteval" / "c").write_text("2")
    assert len({first, renamed, cache.data_checksum(tmp_path, ("senteval",))}) == 3


@pytest.mark.parametrize("given", ["", "senteval", "senteval/downstream"])
def test_data_checksum_sees_the_data_from_wherever_they_are_named(tmp_path: Path, given: str) -> None:
    """The data folder may be SentEval's own, or what lies in it: a changed score is another result there too."""
    file = tmp_path / "senteval" / "downstream" / "STS" / "scores"
    file.parent.mkdir(parents=True)
    for suite in ("sts", "transfer", "ranking", "geometry"):
        seen = set()
        for content in ("1", "2"):
            file.write_text(content)
            seen.add(cache.data_checksum(tmp_path / given, SUITES[suite].folders))
        assert len(seen) == 2


def test_every_sentence_is_encoded_once() -> None:
    bag, pairs = Bag(), own_pairs()
    remembering = RememberingEncoder(bag)
    for suite in ("sts", "ranking", "geometry"):
        assert json.dumps(results_of(remembering, suite, pairs)) == json.dumps(results_of(Bag(), suite, pairs))
    assert sorted(bag.asked) == sorted({*pairs.first, *pairs.second})


@pytest.mark.parametrize("suite", ["sts", "ranking"])
def test_comparison_case_by_case(suite: str) -> None:
    pairs = own_pairs(400)
    good, bad = (results_of(Bag(known), suite, pairs) for known in (len(WORDS), 3))
    judge = SUITES[suite].compare
    assert judge is not None
    there, back, same = judge(bad, good, 0), judge(good, bad, 0), judge(good, good, 0)
    assert there.verdict == "better"
    assert back.verdict == "worse"
    assert (same.verdict, same.difference) == ("cannot be told", 0)
    assert there.after == pytest.approx(main_scores(suite, good)["mine"])
    with pytest.raises(UserError, match="different tasks"):
        judge(good, {"yours": good["mine"]}, 0)


def test_tasks_are_resampled_by_themselves() -> None:
    generator = np.random.default_rng(0)
    old = {name: generator.random(50) for name in "ab"}
    new = {name: values + 0.1 * generator.standard_normal(50) for name, values in old.items()}
    both = compare_tasks(old, new)
    assert both.difference == pytest.approx(np.mean([new[n].mean() - old[n].mean() for n in "ab"]))
    assert both.per_task["a"] == compare_tasks({"a": old["a"]}, {"a": new["a"]}).per_task["a"]
    one = compare_means(old["a"], new["a"])
    assert both.per_task["a"].difference == one.difference
    with pytest.raises(UserError, match="different tasks"):
        compare_tasks(old, {"a": new["a"]})


def test_judges_find_the_cases_of_every_suite() -> None:
    results = {"t": {"per_sample": {"correct": [0, 1, 1]}, "per_pair": {"gold": [1, 2, 3], "cosine": [0.1, 0.3, 0.2]}}}
    assert compare_cases("per_sample", "correct")(results, results, 0).before == pytest.approx(2 / 3)
    assert compare_pairs(results, results, 0).before == pytest.approx(0.5)


def test_marks() -> None:
    nan = float("nan")
    assert best_marks([[1, 3, 2], [1, 1, nan]], [False, True]) == {
        (1, 1): "best", (2, 1): "second", (0, 2): "best", (1, 2): "best"
    }  # fmt: skip
    assert best_marks([[1.0]], [False]) == {}


TABLE = Table("a & b", ["model", "x_1"], [["m|<1>", "1.00"], ["n", "2.00"]], {(1, 1): "best", (0, 1): "second"})


def test_formats_escape_and_mark() -> None:
    assert markdown([TABLE]).split("\n")[-3:] == ["| m\\|<1> | *1.00* |", "| n | **2.00** |", ""]
    tex = latex([TABLE])
    assert r"\caption{a \& b}" in tex
    assert r"model & x\_1 \\" in tex
    assert r"n & \textbf{2.00} \\" in tex
    shown = Page("t", tables=[TABLE]).html()
    assert "<h3>a &amp; b</h3>" in shown
    assert '<td>m|&lt;1&gt;</td><td class="number second">1.00</td>' in shown


def test_targets_are_checked_before_the_work(tmp_path: Path) -> None:
    for name, problem in (("x.pdf", "no format"), ("none/x.md", "does not exist")):
        with pytest.raises(UserError, match=problem):
            check_table_file(tmp_path / name)
    (tmp_path / "d.md").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        check_table_file(tmp_path / "d.md")
    for ending in (".md", ".tex", ".html"):
        write_tables([TABLE], check_table_file(tmp_path / f"x{ending}"))
        assert "2.00" in (tmp_path / f"x{ending}").read_text()


def test_what_is_asked_is_checked_before_a_model_is_loaded(tmp_path: Path) -> None:
    pairs = own_pairs()
    for arguments, problem in (
        (("nonsense",), "unknown suite 'nonsense'"),
        (("transfer:slow",), "no setting 'slow'"),
        (("sts", "CR"), "no task 'CR'"),
        (("sts:dev", "STS12"), "no task 'STS12' in the setting dev"),
        (("sts", None, tmp_path / "none"), "none"),
        (("retrieval", None, None, [pairs]), "takes no pairs"),
    ):
        with pytest.raises(UserError, match=problem):
            EvaluationRequest.read(*arguments)
    assert not EvaluationRequest.read("sts", None, None, [pairs]).of_data
    assert EvaluationRequest.read("sts, transfer:fast", None, tmp_path, [pairs]).suites == {
        "sts": "test",
        "transfer": "fast",
    }


def test_intervals_hold_the_score_and_shrink_with_pairs() -> None:
    def width(count: int) -> float:
        result = results_of(Bag(), "sts", own_pairs(count))
        (row,) = scores.interval_table("sts", {"bag": result}).rows
        low, high = map(float, row[1].split(" … "))
        assert low < 100 * main_scores("sts", result)["mine"] < high
        return high - low

    assert width(2000) < width(100) / 2


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


def test_the_average_is_the_papers(data: Path, cached: Path) -> None:
    encoder = Bag()
    from isotrope.evaluation.suite import average, run

    result = run(encoder, "sts", data)
    (table,) = scores.suite_tables("sts", {"bag": result})
    assert table.header[-1] == "Avg."
    assert table.rows[0][-1] == f"{100 * average(result).exact:.2f}"


def test_command_line(tmp_path: Path, cached: Path) -> None:
    from isotrope.cli.main import app

    pairs, texts = tmp_path / "mine.tsv", tmp_path / "classes.tsv"
    mine = own_pairs()
    pairs.write_text("".join(f"{a}\t{b}\t{g}\n" for a, b, g in zip(mine.first, mine.second, mine.gold, strict=True)))
    texts.write_text("".join(f"{a} {i}\t{i % 3}\n" for i, a in enumerate(mine.second)))
    arguments = ["evaluate", "isotrope/tiny", "isotrope/tiny@cls", "--suite", "sts", "--compare"]
    written = ["--json", str(tmp_path / "r.json"), "--table", str(tmp_path / "r.md")]
    outcome = CliRunner().invoke(app, [*arguments, "--pairs", str(pairs), "--texts", str(texts), *written])
    assert outcome.exit_code == 0, outcome.output
    kept = json.loads((tmp_path / "r.json").read_text())["isotrope/tiny"]
    assert kept.keys() == {"sts, own data", "retrieval, own data"}
    assert "per_pair" not in kept["sts, own data"]["mine"]
    assert "nDCG@10" in (tmp_path / "r.md").read_text()
    with pytest.raises(UserError, match="one model"):
        CliRunner().invoke(
            app, [arguments[0], arguments[1], "--compare", "--pairs", str(pairs)], catch_exceptions=False
        )


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


def test_mteb_takes_any_encoder() -> None:
    """A real task of mteb's own classes, its data from here."""
    import mteb
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    from datasets import Dataset, DatasetDict
    from isotrope.evaluation.mteb import MtebEncoder

    pairs = own_pairs()

    class Mine(AbsTaskSTS):
        metadata = TaskMetadata(
            name="Mine", dataset={"path": "mine", "revision": "1"}, description="mine", reference=None, type="STS",
            category="t2t", modalities=["text"], eval_splits=["test"], eval_langs=["eng-Latn"],
            main_score="cosine_spearman", date=None, domains=None, task_subtypes=None, license=None,
            annotations_creators=None, dialect=None, sample_creation=None, bibtex_citation="",
        )  # fmt: skip
        min_score, max_score = 0, 5

        def load_data(self, **_: Any) -> None:
            columns = {"sentence1": pairs.first, "sentence2": pairs.second, "score": pairs.gold.tolist()}
            self.dataset, self.data_loaded = DatasetDict(test=Dataset.from_dict(columns)), True

    found = mteb.evaluate(MtebEncoder(Bag(), "isotrope/bag"), Mine(), cache=None, show_progress_bar=False)
    score = found.task_results[0].scores["test"][0]["cosine_spearman"]
    assert score == pytest.approx(main_scores("sts", results_of(Bag(), "sts", pairs))["mine"], abs=2e-3)
