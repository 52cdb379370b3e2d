"""Studies: cells that are run once, kills, failures, the tests over seeds and pairs, the answers to claims."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from isotrope.cli.study import _rows
from isotrope.encoder import load
from isotrope.errors import Stopped, UserError
from isotrope.evaluation.significance import compare, compare_draws, interval, resample
from isotrope.objective.preset import read_preset
from isotrope.post.whitening import Whitening
from isotrope.run.pairs import dev_pairs, judges
from isotrope.study import Study, study
from isotrope.study.analyse import claim_answer, recomputed, study_record
from isotrope.study.cell import gold_and_cosines, run_cell
from isotrope.study.document import pages, seeds_of
from isotrope.study.plan import Cell, Place, StudyPlan, plan_study
from isotrope.study.progress import Board
from isotrope.study.rows import expand_rows
from isotrope.study.spec import Spec, read_study, study_names, with_tuned
from isotrope.study.statistics import detectable, holm, paired_test, power, seeds_needed
from isotrope.text.batches import PermutedBatches
from isotrope.text.corpus import open_corpus

ROWS = """
[rows.SimCSE]
preset = "simcse"
published = {"Avg." = 76.25}
source = "RankCSE Table 2"
[rows.ListMLE]
preset = "rankcse-listmle"
published = {"Avg." = 80.36}
source = "RankCSE Table 2"
[rows.before]
train = false
[reference.DiffCSE]
published = {"Avg." = 78.49}
[teachers.simcse]
preset = "simcse"
seed = 7
[claims.rank]
better = "ListMLE"
than = "SimCSE"
text = "ranking helps"
[claims.teacher]
better = "ListMLE"
than = "simcse"
text = "the student passes its teacher"
[figures.curves]
kind = "curve"
title = "Over training"
columns = ["uniformity", "dev"]
rows = ["SimCSE", "ListMLE"]
[figures.cosines]
kind = "cosines"
title = "Cosines"
[figures.bars]
kind = "bars"
title = "Scores"
"""


def write_study(folder: Path, model: Path, corpus: Path, pairs: Path, rows: str = ROWS, seeds: int = 3) -> Path:
    path = folder / "small.toml"
    path.write_text(
        f"""
title = "A small study"
note = "A note."
[run]
corpus = "{corpus}"
sentences = 96
seeds = {seeds}
backbone = "{model}"
dev = "{pairs}"
test = "dev-half"
set = ["train.batch_size=16", "train.eval_steps=3", "train.epochs=1", "encoder.pooling=mean",
       "train.learning_rate=1e-3"]
{rows}"""
    )
    return path


@pytest.fixture(scope="module")
def small(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("study"), tiny_model, corpus_file, pairs_file)


@pytest.fixture(scope="module")
def finished(small: Path) -> Study:
    return study(small, output=small.parent / "out", jobs=2, console=quiet())


def quiet() -> Console:
    return Console(quiet=True)


def numbers(record: Any) -> Any:
    """A record without what a clock decides."""
    if isinstance(record, dict):
        return {key: numbers(value) for key, value in record.items() if key not in ("minutes", "seconds")}
    return [numbers(value) for value in record] if isinstance(record, list) else record


def test_a_study_leaves_its_table_and_its_cells_their_records(finished: Study) -> None:
    assert not finished.failed
    rows = {row["label"]: row for row in finished.record["rows"]}
    assert [len(rows[label]["scores"]) for label in ("SimCSE", "ListMLE", "before", "simcse")] == [3, 3, 1, 1]
    cells = [json.loads(path.read_text()) for path in sorted(finished.folder.glob("cells/*/result.json"))]
    assert len(cells) == 8, "two rows of three seeds, the backbone as it is, the teacher"
    for cell in cells:
        assert cell["environment"]["packages"]["torch"]
        assert cell["data"]["tests"]
        kept = finished.record["cells"][cell["key"]]
        assert finished.record["data"][kept["data"]] == cell["data"]
        assert finished.record["environments"][kept["environment"]] == cell["environment"]
        assert kept["seconds"] == cell["seconds"]
        assert kept["seed"] == cell["seed"]
        assert finished.record["settings"][kept["settings"]]["encoder"]["pooling"] == "mean"
        assert cell["seconds"]["cell"] > 0
        assert str(finished.folder) not in json.dumps(cell), "no path of this machine"
        if cell["label"] != "before":
            assert cell["data"]["corpus"]["key"]
            assert cell["settings"]["train"]["batch_size"] == 16
    assert {p.parent.name for p in finished.folder.glob("cells/*/model")} == {
        p.parent.name for p in finished.folder.glob("cells/*/result.json") if '"label": "simcse"' in p.read_text()
    }, "the teacher's model alone is kept"
    assert not list(finished.folder.glob("cells/*/run"))


def test_the_pages_say_what_was_measured(finished: Study) -> None:
    text = (finished.folder / "table.md").read_text()
    scores = [row["Avg."] for row in finished.record["rows"][0]["scores"].values()]
    assert f"{np.mean(scores):.2f} ± {np.std(scores, ddof=1):.2f}" in text
    for words in ("published (RankCSE Table 2)", "76.25", "DiffCSE, published", "A note.", "before (not trained)"):
        assert words in text
    html, tex = ((finished.folder / f"table.{end}").read_text() for end in ("html", "tex"))
    assert "ranking helps" in html
    assert "ranking helps" in tex
    for name in ("curves", "cosines", "bars"):
        assert (finished.folder / f"{name}.svg").read_text().lstrip().startswith("<?xml")
        assert f'<figure id="{name}">' in html


def test_the_record_alone_gives_the_pages_and_the_tests_again(finished: Study, tiny_model: Path) -> None:
    text = (finished.folder / "study.json").read_text()
    assert str(tiny_model) not in text
    assert str(finished.folder) not in text
    record = json.loads(text)
    assert recomputed(record) == record
    for name, page in pages(recomputed(record), finished.folder).items():
        assert (finished.folder / name).read_text() == page
    record["rows"][0]["scores"]["0"]["Avg."] += 1
    assert recomputed(record)["differences"] != record["differences"], "what is said is said of the scores"


def test_progress_shows_rows_seeds_and_means(finished: Study, small: Path) -> None:
    made = planned(read_study(small, {"seeds": 4}), finished.folder)
    shown = Console(width=120, record=True, file=io.StringIO())
    shown.print(Board(made, 2, shown))
    text = shown.export_text()
    mean = np.mean([scores["Avg."] for scores in finished.record["rows"][0]["scores"].values()])
    assert "3 of 4" in text
    assert f"{mean:.2f}" in text
    assert "2 of 10 cells left" in text


def test_differences_are_those_of_scipy_and_of_the_bootstrap(finished: Study) -> None:
    (one,) = finished.record["differences"]
    rows = {row["label"]: row for row in finished.record["rows"]}
    a, b = ([s["Avg."] for s in rows[label]["scores"].values()] for label in ("ListMLE", "SimCSE"))
    expected = stats.ttest_rel(a, b)
    assert one["seeds"]["p"] == pytest.approx(expected.pvalue)
    assert (one["seeds"]["low"], one["seeds"]["high"]) == pytest.approx(tuple(expected.confidence_interval(0.95)))
    assert one["pairs"]["low"] < one["seeds"]["mean"] < one["pairs"]["high"]


def test_finished_cells_are_never_run_again_and_seeds_only_add(finished: Study, small: Path) -> None:
    def times() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for p in finished.folder.glob("cells/*/result.json")}

    before = times()
    again = study(small, output=finished.folder, console=quiet(), rows=["SimCSE", "ListMLE", "before"])
    assert times() == before
    assert again.record == json.loads((finished.folder / "study.json").read_text())
    assert numbers(again.record) == numbers(json.loads(json.dumps(finished.record)))
    more = study(small, output=finished.folder, console=quiet(), seeds=4, rows=["SimCSE"])
    assert len(more.record["rows"][0]["scores"]) == 4
    after = times()
    assert len(after) == len(before) + 1
    assert {path: after[path] for path in before} == before
    study(small, output=finished.folder, console=quiet())  # as it was, for the other tests


def test_killed_and_resumed_gives_the_same_table(finished: Study, small: Path, tmp_path: Path) -> None:
    """SIGKILL of the study when its second cell is done, none of its processes lives on; the same call ends alike."""
    code = (
        "import sys, torch; from isotrope.study import study\n"
        "if __name__ == '__main__':\n    study(sys.argv[1], output=sys.argv[2], jobs=2)\n"
    )
    script = tmp_path / "go.py"
    script.write_text(code)
    running = subprocess.Popen(
        [sys.executable, str(script), str(small), str(tmp_path / "out")], stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 240
    while len(done := list(tmp_path.glob("out/cells/*/result.json"))) < 2 and time.monotonic() < until:
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert 2 <= len(done) < 8, "killed in the middle"
    resumed = study(small, output=tmp_path / "out", jobs=2, console=quiet())
    assert numbers(json.loads(json.dumps(resumed.record))) == numbers(json.loads(json.dumps(finished.record)))


def test_a_stopped_study_shows_what_is_finished(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C when the first cell is done."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Board, "finished", stop)
    with pytest.raises(Stopped, match=r"table\.md shows them"):
        study(small, output=tmp_path / "out", console=quiet())
    record = json.loads((tmp_path / "out" / "study.json").read_text())
    assert record["scale"]["finished"] == 1
    assert "1 of 8 cells finished" in (tmp_path / "out" / "table.md").read_text()


@pytest.mark.parametrize(
    ("finished", "said"),
    [([3, 3], "3 seeds"), ([3, 5, 0], "3 to 5 seeds"), ([1], "one seed"), ([0, 0], "4 seeds")],
)
def test_the_seeds_that_are_told_are_those_that_are_finished(finished: list[int], said: str) -> None:
    rows = [{"kind": "row", "scores": dict.fromkeys(range(n))} for n in finished]
    rows.append({"kind": "teacher", "scores": {0: None}})
    assert seeds_of({"rows": rows, "scale": {"seeds": 4}}) == said


def test_a_failing_cell_is_reported_and_the_others_go_on(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    rows = """
    [rows.bad]
    preset = "whitenedcse"
    set = ["views.sgw.groups=7"]
    [rows.good]
    preset = "simcse"
    [rows.pupil]
    preset = "rankcse-listmle"
    teachers = {rank = ["broken"]}
    [teachers.broken]
    preset = "whitenedcse"
    set = ["views.sgw.groups=5"]
    """
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows, seeds=1)
    said = Console(record=True, width=200, file=io.StringIO())
    done = study(file, output=tmp_path / "out", console=said)
    assert len(done.failed) == 3
    assert any("groups = 7" in why and "choose" in why for why in done.failed.values())
    assert "a model that it needs failed" in done.failed.values()
    text = done.pages[0].read_text()
    assert "Not finished" in text
    assert done.record["rows"][1]["scores"]
    assert "bad, seed 0 failed" in said.export_text()


BAD = {
    'title = "t"\n[rows.a]\npresett = "simcse"': "rows.a.presett is an unknown key",
    'title = "t"\n[rows.a]\npreset = "simcze"': "row 'a': preset 'simcze' is unknown",
    'title = "t"\n[rows.a]\nset = ["train.batch_sizes=3"]': "train.batch_sizes is an unknown key",
    'title = "t"\n[rows]': "rows",
    '[rows.a]\npreset = "simcse"': "title is missing",
    'title = "t"\n[rows.a]\n[run]\nseeds = 0': "run.seeds = 0 is not possible",
    'title = "t"\n[rows.a]\npublished = {"STS-12" = 3}': "no column 'STS-12'",
    'title = "t"\n[rows.a]\n[claims.c]\nbetter = "b"\nthan = "a"\ntext = ""': "names 'b', which is no row",
    'title = "t"\n[rows.a]\n[run]\nbaseline = "b"': "run.baseline names 'b'",
    'title = "t"\n[rows.a]\nteachers = {guide = ["x"]}': "has no teacher 'guide'",
    'title = "t"\n[rows.a]\n[run]\nset = ["terms.listnett.temperature=1"]': "no row has such a component",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.001]}\n[run]\nsentences = 100': "do not fill a batch",
    'title = "t"\n[rows.a]\nsweep = {sentences = [0.5]}': "is a share of nothing",
    'title = "t"\n[rows.a]\n[run]\nsuites = ["transfers"]': "'transfers' has no columns",
    'title = "t"\n[rows.a]\npreset = "rankcse-listnet"\n[teachers.simcse]\npreset = "rankcse-listnet"': "needs itself",
    'title = "t': "not valid TOML",
    'title = "t"\n[rows.a]\ntrain = false\nsweep = {"train.epochs" = [1]}': "rows.a.sweep would never be read",
    'title = "t"\n[rows.a]\ntrain = false\nsentences = 9': "rows.a.sentences would never be read",
    'title = "t"\n[rows.a]\ntrain = false\nthen = "whitening"\nsweep = {"train.epochs" = [1]}': "a.sweep would never",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "bars"\ntitle = ""\nx = "y"': "figures.f.x would never be read",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "cosines"\ntitle = ""\ncolumns = ["dev"]': "figures.f.columns would",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "curve"\ntitle = ""': "a run logs dev, alignment, uniformity alone",
    'title = "t"\n[rows.a]\n[figures.f]\nkind = "sweep"\ntitle = ""\nx = "train.epochs"': "no key that is swept",
    'title = "t"\n[rows.a]\nsweep = {"encoder.pooling" = ["cls"]}\n[figures.f]\nkind = "sweep"\ntitle = ""\n'
    'x = "encoder.pooling"': "is no key that is swept over numbers",
    'title = "t"\n[rows.a]\nsweep = {"train.epochs" = [1, 1]}': "two rows are 'a, epochs = 1'",
    'title = "t"\n[rows.a]\n[run]\ndev = ["missing.tsv"]': "missing.tsv does not exist",
}


@pytest.mark.parametrize("text", BAD)
def test_a_mistake_is_one_line_that_names_file_and_remedy(text: str, corpus_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        planned(read_study(file, {"corpus": [str(corpus_file)], "test": "none"}), tmp_path)
    line = str(caught.value)
    assert BAD[text] in line
    assert any(name in line for name in ("wrong", "terms.listnett", "run.suites", "missing.tsv"))
    assert "\n" not in line
    assert caught.value.remedy


def planned(spec: Spec, folder: Path, **options: Any) -> StudyPlan:
    return plan_study(spec, Place(folder, None, tuple(options.pop("forced", ()))), **options)


def spec_of(tmp_path: Path, corpus: Path, rows: str) -> Spec:
    file = tmp_path / "spec.toml"
    file.write_text(f'title = "t"\n{rows}')
    return read_study(file, {"corpus": [str(corpus)], "test": "none", "dev": ["none"], "sentences": 500})


def test_common_settings_add_no_component_and_the_row_wins(corpus_file: Path, tmp_path: Path) -> None:
    rows = """
    [run]
    backbone = "isotrope/tiny"
    set = ["views.sgw.groups=64", "train.epochs=2", "train.learning_rate=1e-4"]
    [backbones."isotrope/tiny"]
    set = ["train.learning_rate=5e-4"]
    [rows.SimCSE]
    set = ["train.epochs=3"]
    [rows.Whitened]
    preset = "whitenedcse"
    """
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path, forced=["train.batch_size=32"])
    simcse, whitened = (made.cells[made.rows[label][0]].settings for label in ("SimCSE", "Whitened"))
    assert "sgw" not in simcse["views"]
    assert whitened["views"]["sgw"]["groups"] == 64
    assert (simcse["train"]["epochs"], whitened["train"]["epochs"]) == (3, 2)
    assert simcse["train"]["learning_rate"] == 5e-4
    assert simcse["train"]["batch_size"] == whitened["train"]["batch_size"] == 32


def test_teachers_are_shared_and_equal_rows_are_one(corpus_file: Path, tmp_path: Path) -> None:
    rows = """
    [run]
    seeds = 2
    [rows.A]
    preset = "rankcse-listnet-bert-base"
    [rows.B]
    preset = "rankcse-listmle-bert-base"
    [rows.again]
    preset = "rankcse-listmle-bert-base"
    [rows.large]
    preset = "dclr-bert-large"
    [teachers.simcse-bert-large]
    preset = "simcse-bert-large"
    backbone = "isotrope/minilm"
    """
    spec = spec_of(tmp_path, corpus_file, rows)
    made = planned(spec.model_copy(update={"run": spec.run.model_copy(update={"backbone": "isotrope/tiny"})}), tmp_path)
    assert len(made.cells) == 2 + 3 * 2, "two teachers, three different rows of two seeds"
    assert made.rows["again"] == made.rows["B"]
    keys = list(made.cells)
    for cell in made.cells.values():
        assert all(keys.index(needed) < keys.index(cell.key) for needed in cell.needs)
    base, large = (made.cells[made.models[f"simcse-bert-{size}"]] for size in ("base", "large"))
    assert (base.backbone, large.backbone) == ("isotrope/tiny", "isotrope/minilm")
    assert base.keep_model
    row = made.cells[made.rows["large"][0]]
    assert row.backbone == str(large.model.resolve()), "DCLR's large models start from SimCSE"
    assert made.cells[made.rows["A"][1]].teachers == {"rank": (str(base.model.resolve()), str(large.model.resolve()))}


def test_sweeps_make_rows(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[rows.D]\npreset = "dclr"\nsweep = {"scores.noise.ratio" = [0.5, 1.0], sentences = [0.5, 1, 300]}\n'
    rows += "[rows.E]\ntrain = false"
    spec = spec_of(tmp_path, corpus_file, rows)
    made = planned(spec, tmp_path)
    assert list(made.rows)[:2] == ["D, ratio = 0.5, sentences = 0.5", "D, ratio = 0.5, sentences = 1"]
    assert [made.cells[keys[0]].sentences for keys in made.rows.values()] == [250, 500, 300] * 2 + [500]
    assert len(expand_rows(spec, ["D"])) == 6
    assert list(expand_rows(spec, ["E"], {"train.epochs": [1, 2]})) == ["E"]
    assert made.cells[made.rows["D, ratio = 0.5, sentences = 1"][0]].settings["scores"]["noise"]["ratio"] == 0.5


@pytest.mark.parametrize("name", study_names())
def test_the_studies_that_come_with_isotrope_can_be_planned(name: str, corpus_file: Path, tmp_path: Path) -> None:
    changes = {"corpus": [str(corpus_file)], "dev": ["none"], "test": "none", "suites": [], "sentences": 1_000_000}
    spec = read_study(name, changes)
    made = planned(spec, tmp_path)
    assert spec.title
    assert len(made.cells) >= max(len(made.rows), 2), "one model says nothing of chance"
    assert all(claim.text and claim.source for claim in spec.claims.values())
    if name != "first":
        assert all(row.source or not row.published for row in spec.rows.values())


def test_holm_is_the_stepwise_definition() -> None:
    def naive(values: list[float]) -> list[float]:
        """Reject at level a while p of rank i is at most a / (m − i): the smallest such a, by search."""
        m, found = len(values), []
        order = sorted(values)
        for value in values:
            needed = max((m - i) * p for i, p in enumerate(order[: order.index(value) + 1]))
            found.append(min(1.0, needed))
        return found

    generator = np.random.default_rng(0)
    for _ in range(50):
        values = generator.uniform(0, 0.3, size=generator.integers(1, 9)).tolist()
        assert holm(values) == pytest.approx(naive(values))
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


def test_what_n_seeds_can_show_agrees_with_simulation() -> None:
    n, sd = 5, 0.7
    least = detectable(sd, n)
    draws = np.random.default_rng(2).normal(least, sd, (20_000, n))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)
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
    assert compare_draws(together.before, together.after, before, after) == together.per_task["a"]


@pytest.mark.parametrize(
    ("mean", "p", "p_margin", "expected"),
    [
        (0.4, 0.01, 0.2, "holds"),
        (0.3, 0.04, 0.01, "holds"),
        (0.1, 0.4, 0.01, "does not hold"),
        (-0.6, 0.01, 0.001, "does not hold"),
        (0.4, 0.06, 0.6, "cannot be told"),
        (-0.4, 0.06, 0.06, "cannot be told"),
    ],
)
def test_a_claim_is_answered_by_rule(mean: float, p: float, p_margin: float, expected: str) -> None:
    seeds = {"n": 5, "mean": mean, "p": p, "p_holm": p, "p_margin_holm": p_margin, "detectable": 0.6}
    record = {"seeds": seeds, "same": False, "margin": 0.5}
    assert claim_answer(record)[0] == expected
    assert claim_answer(record | {"same": True})[0] == "cannot be told"
    assert claim_answer(record | {"seeds": None})[0] == "cannot be told"
    assert claim_answer(record | {"seeds": seeds | {"p": None}})[0] == "cannot be told"


def test_a_search_gives_every_row_its_trials_and_goes_on(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    pytest.importorskip("optuna")
    from isotrope.study.search import search_settings

    rows = """
    [rows.SimCSE]
    [rows.Whitened]
    preset = "whitenedcse"
    [search]
    trials = 2
    [search.keys]
    "train.warmup" = {low = 0.0, high = 0.3}
    "views.sgw.groups" = [8, 16]
    """
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)
    best = search_settings(file, output=tmp_path / "out", jobs=2, console=quiet())
    text = best.read_text()
    found = tomllib.loads(text)["rows"]
    assert {label: row["trials"] for label, row in found.items()} == {"SimCSE": 2, "Whitened": 2}
    assert not any("sgw" in one for one in found["SimCSE"]["set"])
    assert read_preset("whitenedcse", found["Whitened"]["set"]).views["sgw"]["groups"] in (8, 16)
    results = [json.loads(path.read_text()) for path in tmp_path.glob("out/cells/*/result.json")]
    assert all(result["data"]["tests"] == {} for result in results), "no test pair was looked at"
    for label, row in found.items():
        assert row["dev"] == max(r["selection"]["best_score"] for r in results if r["label"] == label)
    search_settings(file, output=tmp_path / "out", console=quiet())
    assert best.read_text() == text
    tuned = with_tuned(read_study(file), best).rows["Whitened"]
    assert tuned.set == tuple(found["Whitened"]["set"])
    with pytest.raises(UserError, match="no search's result"):
        with_tuned(read_study(file), file)
    with pytest.raises(UserError, match="none of the rows"):
        with_tuned(read_study("tiny"), best)
    # half of the dev pairs judges this study: the search has selected by the other half alone, as a run does
    done = study(file, output=tmp_path / "out", tuned=best, rows=["SimCSE"], seeds=1, jobs=2, console=quiet())
    assert done.record["rows"][0]["scores"]["0"]["dev"] == pytest.approx(100 * found["SimCSE"]["dev"], abs=1e-9)
    search_settings(file, output=tmp_path / "out", rows=["SimCSE"], sentences=64, console=quiet())
    trials = {json.loads(p.read_text())["key"] for p in tmp_path.glob("out/cells/*/result.json")}
    assert len(trials) == len(results) + 1 + 2, "other text is another search"


def test_a_model_with_other_weights_is_another_cell(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "model")
    rows = f"[run]\nbackbone = {str(model)!r}\n[rows.A]\n"

    def keys() -> set[str]:
        return set(planned(spec_of(tmp_path, corpus_file, rows), tmp_path).cells)

    first = keys()
    assert keys() == first
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(bytes(weights))
    assert not keys() & first


def test_other_pairs_under_the_same_name_make_another_cell(
    corpus_file: Path, pairs_file: Path, tmp_path: Path, data: Path
) -> None:
    """Pairs that select or judge, and the suites' data, count by what they hold, not by what they are called."""
    own, folder = tmp_path / "own.tsv", tmp_path / "data"
    shutil.copyfile(pairs_file, own)
    sts = Path("senteval") / "downstream" / "STS"
    for task in ("STSBenchmark", *(f"STS{year}-en-test" for year in range(12, 17))):
        shutil.copytree(data / sts / task, folder / sts / task)
    shutil.copytree(data / sts.with_name("SICK"), folder / sts.with_name("SICK"))
    rows = "[rows.Trained]\n[rows.Raw]\ntrain = false\n"
    (tmp_path / "spec.toml").write_text(f'title = "t"\n[run]\nbackbone = "isotrope/tiny"\n{rows}')
    run = {"corpus": [str(corpus_file)], "test": "stsb", "dev": [str(own)], "sentences": 500, "seeds": 1}

    def keys(*suites: str) -> tuple[str, str]:
        made = plan_study(
            read_study(tmp_path / "spec.toml", run | {"suites": suites}), Place(tmp_path / "out", str(folder))
        )
        return made.rows["Trained"][0], made.rows["Raw"][0]

    def swap(path: Path, old: str, new: str) -> None:
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    first = keys()
    assert keys() == first
    swap(own, own.read_text().split("\t")[0], "other words")
    selected = keys()
    assert selected[0] != first[0]
    assert selected[1] == first[1], "nothing selects a model that is not trained"
    swap(folder / sts / "STSBenchmark" / "sts-test.csv", "\t2.500\t", "\t2.400\t")
    judged_by, measured_by = keys(), keys("geometry")
    assert not set(judged_by) & set(selected)
    swap(folder / sts / "STSBenchmark" / "sts-train.csv", "a plane", "a train")
    assert keys() == judged_by, "nothing reads the training pairs"
    assert not set(keys("geometry")) & set(measured_by), "but geometry, which reads the whole folder"
    (folder / sts / "STSBenchmark" / "sts-test.csv").write_text("")
    with pytest.raises(UserError, match=r"sts-test\.csv"):
        keys()


def measured(made: StudyPlan, scores: Callable[[Cell], dict[str, float]], draws: int = 0) -> StudyPlan:
    """The plan with every cell finished, its scores given instead of trained for."""
    for i, cell in enumerate(made.cells.values()):
        (cell.model if cell.keep_model else cell.folder).mkdir(parents=True)
        known = {"preset": cell.preset, "seed": cell.seed, "settings": cell.settings, "scores": scores(cell)}
        cell.result.write_text(json.dumps(known | {"environment": {}, "data": {}, "seconds": {}}))
        if draws:
            np.savez(cell.folder / "draws.npz", STS12=np.random.default_rng(i).normal(0.5, 0.01, draws))
    return made


def test_a_row_is_meant_where_a_teacher_has_its_name(corpus_file: Path, tmp_path: Path) -> None:
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
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    points = {"simcse": 50.0, "rankcse-listmle": 51.0}
    record = study_record(measured(made, lambda cell: {"Avg.": 90.0 if cell.seed == 7 else points[cell.preset]}))
    (one,) = record["differences"]
    assert (one["seeds"]["n"], one["seeds"]["mean"]) == (3, 1.0)
    assert record["spread"]["n"] == 3


def test_over_pairs_the_mean_over_seeds_is_compared_on_the_same_resamples(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nseeds = 3\n[rows.A]\n[rows.B]\npreset = "simcse"\nset = ["views.passes=3"]'
    made = measured(planned(spec_of(tmp_path, corpus_file, rows), tmp_path), lambda _: {"Avg.": 50.0}, draws=999)
    (one,) = study_record(made)["differences"]

    def mean(label: str) -> Any:
        files = [made.cells[key].folder / "draws.npz" for key in made.rows[label].values()]
        return 100 * np.mean([np.load(file)["STS12"] for file in files], axis=0)

    expected = interval(mean("B") - mean("A"))
    assert (one["pairs"]["low"], one["pairs"]["high"]) == pytest.approx(expected)


def test_gains_are_positive_where_lower_is_better_and_equal_rows_count_for_nothing(
    corpus_file: Path, tmp_path: Path
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
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    generator = np.random.default_rng(0)
    record = study_record(
        measured(made, lambda cell: {"uniformity": generator.normal(-2.5 if cell.label == "B" else -1.0, 0.3)})
    )
    lower, nothing = record["claims"]
    assert lower["seeds"]["mean"] > 0
    assert lower["published"] == pytest.approx(0.5)
    assert lower["seeds"]["p_holm"] == lower["seeds"]["p"], "one comparison, since the other compares nothing"
    assert (nothing["answer"], nothing["seeds"]["p_holm"]) == ("cannot be told", None)
    assert "A − B (uniformity)" in pages(record | {"figures": {}})["table.md"]


def test_a_lost_teacher_is_told_of(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nbackbone = "isotrope/tiny"\nseeds = 1\n[rows.rank]\npreset = "rankcse-listmle"\n'
    made = planned(spec_of(tmp_path, corpus_file, rows), tmp_path)
    teacher, row = made.cells
    record = study_record(made, {teacher: "the memory is full", row: "a model that it needs failed"}) | {"figures": {}}
    assert "the memory is full" in pages(record)["table.md"]


def test_pages_escape_what_a_row_is_called(corpus_file: Path, tmp_path: Path) -> None:
    rows = """[run]\nseeds = 2\n[rows."φ_1 < x^2 & 5 %"]\n[rows."a|b"]\nset = ["views.passes=3"]\n"""
    made = measured(planned(spec_of(tmp_path, corpus_file, rows), tmp_path), lambda cell: {"Avg.": 50.0 - cell.seed})
    text = pages(study_record(made) | {"figures": {}})
    tables = "".join(line for line in text["table.tex"].splitlines(keepends=True) if not line.startswith("%"))
    assert r"$\varphi$\_1 $<$ x\textasciicircum{}2 \& 5 \%" in tables
    assert tables.isascii(), "so that any LaTeX takes it"
    assert "φ_1 &lt; x^2 &amp; 5 %" in text["table.html"]
    assert r"a\|b" in text["table.md"]


def test_an_untrained_row_is_judged_as_the_others_by_half_of_every_dev_set(
    tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    files = [shutil.copy(pairs_file, tmp_path / name) for name in ("dev.tsv", "other.tsv")]
    rows = f"[run]\nbackbone = {str(tiny_model)!r}\n[rows.raw]\ntrain = false\n[rows.SimCSE]\n"
    spec = spec_of(tmp_path, corpus_file, rows)
    run = spec.run.model_copy(update={"dev": (",".join(map(str, files)),), "test": "dev-half"})
    made = planned(spec.model_copy(update={"run": run}), tmp_path)
    result = run_cell(made.cells[made.rows["raw"][0]])
    assert result["scores"].keys() == {"dev pairs", "other", "Avg."}, "and 'dev' is what has selected"
    again_ = made.cells[made.rows["raw"][0]]
    again_.model.mkdir()
    run_cell(again_)
    assert again_.model.is_dir(), "another study that shares the cell may need it"
    with pytest.raises(UserError, match="without dev pairs of your own"):
        planned(spec.model_copy(update={"run": run.model_copy(update={"dev": ("none",)})}), tmp_path)


def test_a_common_setting_may_be_for_a_row_that_is_left_out(corpus_file: Path, tmp_path: Path) -> None:
    rows = '[run]\nset = ["views.sgw.groups=64"]\n[rows.A]\n[rows.B]\npreset = "whitenedcse"'
    assert list(planned(spec_of(tmp_path, corpus_file, rows), tmp_path, only=["A"]).rows) == ["A"]


def test_rows_are_named_with_commas_and_in_full(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('title = "t"\n[rows.A]\nsweep = {"train.epochs" = [1, 2]}\n[rows."B, small"]\n[rows.C]')
    assert _rows(str(file), ["A, C", "B, small", "A, epochs = 2"]) == ["A", "C", "B, small", "A, epochs = 2"]


def test_a_step_behind_is_fitted_on_the_sentences_that_the_row_has(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = '[rows.plain]\ntrain = false\n[rows.white]\ntrain = false\nthen = "whitening:k=4"\n'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)
    cells = {cell.label: cell for cell in planned(read_study(file), tmp_path / "out").cells.values()}
    found = {label: run_cell(cell) for label, cell in cells.items()}
    assert found["white"]["settings"]["then"] == "whitening:k=4"
    assert "then" not in found["plain"]["settings"]

    opened = open_corpus(corpus_file, cache=tmp_path / "corpus")
    rows_of_seed = PermutedBatches(len(opened), 16, 0, limit=96).rows(0, 96)  # as a training of seed 0 visits them
    encoder = load(tiny_model, "mean")
    fitted = Whitening(k=4).behind(encoder).fit(opened.dataset[rows_of_seed.tolist()]["text"])
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()  # the half that judges
    (pairs,) = held.values()
    sides = (fitted.encode(side) for side in (pairs.first, pairs.second))
    expected = np.prod([side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides], axis=0).sum(axis=1)
    ((_, white),), ((_, plain),) = (
        gold_and_cosines(cells[row].folder / "after.npz").values() for row in ("white", "plain")
    )
    np.testing.assert_allclose(white, expected, atol=1e-4)
    assert not np.allclose(plain, expected, atol=1e-2)


def test_an_untrained_row_with_a_step_behind_sweeps_the_sentences_of_the_step(
    corpus_file: Path, tmp_path: Path
) -> None:
    rows = (
        '[rows.white]\ntrain = false\nthen = "whitening"\nsweep = {sentences = [1, 0.5]}\n[rows.raw]\ntrain = false\n'
    )
    made = planned(spec_of(tmp_path, corpus_file, f'[run]\nbackbone = "isotrope/tiny"\n{rows}'), tmp_path)
    assert {label: made.cells[keys[0]].sentences for label, keys in made.rows.items()} == {
        "white, sentences = 1": 500, "white, sentences = 0.5": 250, "raw": 500,
    }  # fmt: skip
    assert len(made.cells) == 3


def test_a_model_is_trained_once_whatever_stands_behind_it(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = '[rows.plain]\n[rows.white]\nthen = "whitening"\n[rows.short]\nthen = "whitening:k=4"\n'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows, seeds=2)
    made = planned(read_study(file), tmp_path / "out")
    assert sum(cell.train for cell in made.cells.values()) == 2, "a seed each"
    alone = planned(read_study(file), tmp_path / "out", only=["plain"])
    assert made.rows["plain"] == alone.rows["plain"]
    done = study(file, output=tmp_path / "out", console=quiet())
    assert not done.failed
    plain, white, short = ({seed: row["scores"][seed]["Avg."] for seed in "01"} for row in done.record["rows"])
    assert len({*plain.values(), *white.values(), *short.values()}) == 6
    cell = made.cells[made.rows["white"][1]]
    trained = made.cells[made.rows["plain"][1]].model
    step = Whitening().behind(load(trained))
    opened = open_corpus(corpus_file, cache=tmp_path / "corpus")
    step.fit(opened.dataset[PermutedBatches(len(opened), 16, 1, limit=96).rows(0, 96).tolist()]["text"])
    ((_, cosines),) = gold_and_cosines(cell.folder / "after.npz").values()
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = held.values()
    sides = [
        side / np.linalg.norm(side, axis=1, keepdims=True) for side in map(step.encode, (pairs.first, pairs.second))
    ]
    np.testing.assert_allclose(cosines, (sides[0] * sides[1]).sum(axis=1), atol=1e-4)


@pytest.mark.parametrize("then", ["whitening:fit=text.txt", "sif", "flux", "whitening:k=0"])
def test_a_step_that_has_other_sentences_is_refused_first(
    then: str, tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, f'[rows.white]\nthen = "{then}"\n')
    with pytest.raises(UserError, match="then = "):
        planned(read_study(file), tmp_path / "out")
