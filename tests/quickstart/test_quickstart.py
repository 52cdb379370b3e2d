"""The quickstart, whole, on a small machine; its measures against naive oracles; the similarity set's integrity."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import spearmanr
from test_docstrings import build_site
from typer.testing import CliRunner

import isotrope.quickstart.run
from isotrope.cli.main import app
from isotrope.errors import Stopped, UserError
from isotrope.evaluation.significance import Comparison
from isotrope.post.whitening import whitening
from isotrope.quickstart.docstrings import Docstrings, gather, installed
from isotrope.quickstart.run import LEVEL, POOLING, STAGES, Measured, judge, measure, quickstart, tell, verdict
from isotrope.quickstart.similarity import agreement, similarity_pairs

SMALL = ["train.batch_size=16", "train.eval_steps=5", "train.learning_rate=1e-3"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Docstrings:
    site, stdlib = build_site(tmp_path_factory.mktemp("machine"), packages=16)
    return gather(installed([str(site)], stdlib), limit=320)


def run(output: Path, tiny_model: Path, text: Docstrings | None, **options: Any) -> dict[str, Any]:
    options = {"console": Console(file=io.StringIO(), width=200), **options}
    return quickstart(output, backbone=str(tiny_model), text=text, overrides=SMALL, **options)


@pytest.fixture(scope="module")
def finished(tiny_model: Path, text: Docstrings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick") / "start"
    run(folder, tiny_model, text)
    return folder


def test_the_result_holds_what_two_models_earn(finished: Path, tiny_model: Path, text: Docstrings) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    trained = finished / "run" / "model"
    encoders = {
        "before": isotrope.load(str(tiny_model), POOLING),
        "whitened": isotrope.load(str(finished / "whitened")),
        "trained": isotrope.load(str(trained)),
        "after": isotrope.load(str(finished / "model")),
    }
    assert list(encoders) == list(STAGES)
    for when, encoder in encoders.items():
        measured = measure(encoder, text)
        measures = {name: values[when] for name, values in result["measures"].items()}
        assert measures["retrieval"] == pytest.approx(np.mean(measured.reciprocal), abs=1e-6)
        assert measures["similarity"] == pytest.approx(
            spearmanr(measured.cosines, similarity_pairs().gold).statistic, abs=1e-6
        )
        assert measures["alignment"] == pytest.approx(measured.alignment, abs=1e-6)
        assert measures["uniformity"] == pytest.approx(measured.uniformity, abs=1e-6)
    for name in ("retrieval", "similarity"):
        m = result["measures"][name]
        assert m["difference"] == pytest.approx(m["after"] - m["before"])
        assert m["low"] <= m["difference"] <= m["high"]
    assert len({result["measures"]["uniformity"][stage] for stage in STAGES}) == 4
    ours = {"before": (str(tiny_model), "whitened", POOLING), "trained": (str(trained), "model", None)}
    for name, folder, pooling in ours.values():
        vectors = isotrope.load(str(finished / folder)).encode(text.sentences)
        own = isotrope.load(name, pooling).encode(text.sentences)
        expected = (own - own.mean(0)) @ whitening(own.astype(np.float64))[1]
        np.testing.assert_allclose(vectors, expected, atol=2e-3)
        np.testing.assert_allclose(np.cov(vectors.T, bias=True), np.eye(vectors.shape[1]), atol=0.02)
    assert result["text"]["sentences_trained_on"] == len(text.sentences) == 320
    assert result["text"]["queries"] == len(text.queries) > 0
    assert result["verdict"] in {"better", "worse", "cannot be told"}
    assert 0 < result["seconds"]["training"] < result["seconds"]["total"]
    assert result["peak_memory_mb"] > 50
    assert (finished / "sentences.txt").read_text().splitlines() == text.sentences
    assert not list(finished.glob("*.part"))


def test_what_is_told_names_every_figure_and_the_next_command(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = json.loads((finished / "quickstart.json").read_text())
    out = io.StringIO()
    tell(result, finished, Console(file=out, width=200))
    told = out.getvalue()
    for name in ("retrieval", "similarity"):
        for when in STAGES:
            assert f"{100 * result['measures'][name][when]:.2f}" in told
    narrow = io.StringIO()
    tell(result, finished, Console(file=narrow, width=80))
    table = narrow.getvalue().split("retrieval: ")[0].splitlines()
    assert sum(line.split()[:1] == ["retrieval"] for line in table) == 1, "one line a measure on a narrow terminal"
    assert f"{result['measures']['retrieval']['after'] * 100:.2f}" in "".join(table)
    assert f"verdict: {result['verdict']}\n" in told
    assert f"model:  {finished / 'model'}\n" in told
    command = re.search(r"isotrope (train .*) \[--dev", told)
    assert command is not None
    # the command that is shown is one that the command line takes: only the file is missing
    outcome = CliRunner().invoke(app, command[1].split())
    assert isinstance(outcome.exception, UserError)
    assert "YOUR-TEXT.txt does not exist" in str(outcome.exception)


def test_a_second_call_gives_the_same_result_at_once(
    finished: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isotrope.quickstart.run, "train", None)
    assert run(finished, tiny_model, None) == json.loads((finished / "quickstart.json").read_text())
    with pytest.raises(UserError, match="holds a result of"):
        run(finished, tiny_model, None, seed=1)


def test_a_stopped_call_goes_on_with_the_same_text(
    finished: Path, tiny_model: Path, text: Docstrings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = isotrope.quickstart.run.train

    def stop_at_step_5(*args: Any, **options: Any) -> Any:
        from isotrope.run.log import MetricsLog

        add = MetricsLog.add

        def stopping(self: MetricsLog, step: int, **values: Any) -> None:
            add(self, step, **values)
            if step >= 5:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(MetricsLog, "add", stopping)
            return train(*args, **options)

    monkeypatch.setattr(isotrope.quickstart.run, "train", stop_at_step_5)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "start", tiny_model, text)
    monkeypatch.setattr(isotrope.quickstart.run, "train", train)
    monkeypatch.setattr(isotrope.quickstart.run, "gather", None)  # it is not gathered again
    result = run(tmp_path / "start", tiny_model, None)
    undisturbed = json.loads((finished / "quickstart.json").read_text())
    assert result["resumed"]
    assert not undisturbed["resumed"]
    assert result["measures"] == undisturbed["measures"]


def test_a_folder_with_something_else_is_left_alone(tiny_model: Path, text: Docstrings, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(UserError, match="holds no quickstart"):
        run(tmp_path, tiny_model, text)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(UserError, match="does not exist"):
        quickstart(tmp_path / "new", backbone="./no-such-model", text=text)
    assert not (tmp_path / "new").exists()


def test_both_tests_see_a_difference_where_there_is_one_and_none_where_there_is_none() -> None:
    generator, gold = np.random.default_rng(0), similarity_pairs().gold
    old = Measured(generator.random(500), gold + generator.normal(size=330) * 3, 0, 0)
    new = Measured(np.minimum(old.reciprocal + 0.1 * generator.random(500), 1), gold + generator.normal(size=330), 0, 0)
    assert [t.verdict for t in judge(old, new).values()] == ["better", "better"]
    assert [t.verdict for t in judge(new, old).values()] == ["worse", "worse"]
    assert [t.verdict for t in judge(old, old).values()] == ["cannot be told", "cannot be told"]
    test = judge(old, new)["retrieval"]
    change = new.reciprocal - old.reciprocal
    error = 1.96 * change.std() / np.sqrt(500)  # the normal approximation of the same interval
    assert test.difference == pytest.approx(change.mean())
    assert (test.low, test.high) == pytest.approx((change.mean() - error, change.mean() + error), abs=0.15 * error)


@pytest.mark.parametrize(
    ("retrieval", "similarity", "expected"),
    [
        (("better", 0.001), ("cannot be told", 0.4), "better"),
        (("better", 0.001), ("better", 0.001), "better"),
        (("better", 0.001), ("worse", 0.001), "cannot be told"),
        (("cannot be told", 0.4), ("worse", LEVEL), "worse"),
        (("better", 0.04), ("cannot be told", 0.4), "cannot be told"),  # one of two tests: 5 % are not enough
        (("cannot be told", 0.1), ("cannot be told", 0.4), "cannot be told"),
    ],
)
def test_the_verdict_follows_its_rule(retrieval: Any, similarity: Any, expected: str) -> None:
    def test(verdict: Any, p: float) -> Comparison:
        return Comparison(0, 0, 0, 0, 0, p, 1000, verdict)

    assert verdict({"retrieval": test(*retrieval), "similarity": test(*similarity)}) == expected


def test_the_similarity_set_is_whole() -> None:
    pairs = similarity_pairs()
    assert len(pairs) == len(pairs.second) == len(pairs.gold) == 330
    assert len({*zip(pairs.first, pairs.second, strict=True)}) == 330
    assert all(s == s.strip() and len(s.split()) >= 2 for s in (*pairs.first, *pairs.second))
    folder = Path(isotrope.quickstart.similarity.__file__).parent
    rows = [line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines()[1:]]
    assert [row[3] for row in rows] == pairs.first
    assert set(Counter(row[2] for row in rows).values()) == {33}
    grades: list[dict[str, float]] = []
    for name in ("grades_a.tsv", "grades_b.tsv"):
        lines = [line.split("\t") for line in (folder / name).read_text().splitlines()[1:]]
        grades.append({i: float(grade) for i, grade in lines})
        assert [i for i, _ in lines] == [row[0] for row in rows]
        assert all(0 <= g <= 5 and (2 * g).is_integer() for g in grades[-1].values())
    assert pairs.gold.tolist() == [(grades[0][row[0]] + grades[1][row[0]]) / 2 for row in rows]


def test_the_two_graders_agree() -> None:
    found = agreement()
    assert 0.8 < found["spearman"] < 1
    assert 0 < found["equal"] <= found["within_half"] <= 1
    folder = Path(isotrope.quickstart.similarity.__file__).parent
    a, b = (
        [float(line.split("\t")[1]) for line in (folder / f"grades_{who}.tsv").read_text().splitlines()[1:]]
        for who in "ab"
    )
    assert found["spearman"] == pytest.approx(spearmanr(a, b).statistic)
    assert found["within_half"] == np.mean([abs(x - y) <= 0.5 for x, y in zip(a, b, strict=True)])


@pytest.mark.parametrize("stop", [Stopped("while training"), KeyboardInterrupt()])
def test_a_stopped_quickstart_ends_with_130_and_one_line(stop, monkeypatch, capsys):
    """typer turns Ctrl-C into a return value, which would end the command as if it were done."""
    from isotrope import cli

    def stopped(*_: object, **__: object) -> None:
        raise stop

    monkeypatch.setattr("isotrope.quickstart.run.quickstart", stopped)
    monkeypatch.setattr("sys.argv", ["isotrope", "quickstart"])
    with pytest.raises(SystemExit) as done:
        cli.main()
    assert done.value.code == 130
    assert "nothing finished is lost" in capsys.readouterr().err
