"""What selects and what judges; the verdict: the model as the user gave it against the new one; the card."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isotrope import load
from isotrope.console.plain import plain_console
from isotrope.encoder import save
from isotrope.errors import UserError
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.evaluation.sts import main_pairs, similarities, spearman
from isotrope.training.pairs import dev_names, dev_pairs, named_pairs
from isotrope.training.train import Run
from small_runs import Small, logged, small_run

SHORT = {"sentences": 32, "dev": "none"}


def test_the_verdict_is_on_pairs_that_did_not_select(finished: Run, pairs_file: Path) -> None:
    """Half of the user's pairs select, the other half judges; its numbers are those of the two models."""
    comparison, verdict = finished.record["comparison"], finished.verdict
    (task,) = comparison["per_task"]
    scored = next(iter(finished.record["after"].values()))
    assert scored["nsamples"] == len(read_pairs(pairs_file)) // 2
    assert comparison["after"] == pytest.approx(scored["spearman"]["test"], abs=1e-12)
    assert verdict.scores == (comparison["before"], comparison["after"])
    assert verdict.difference == pytest.approx(comparison["after"] - comparison["before"])
    assert verdict.judge == "60 graded pairs of pairs"
    assert "a raw language model, pooled as sentence-transformers loads it" in verdict.before
    assert finished.record["selection"]["sets"] == [task] == ["pairs"]
    assert list(finished.table.index) == ["pairs"]
    assert finished.table["after"]["pairs"] == comparison["after"]


@pytest.fixture(scope="module")
def own_pooling(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-embedding model with a pooling and a prompt of its own, which the preset does not have."""
    model = load(tiny_model, "mean", normalize=True, device="cpu")
    model.prompts, model.default_prompt_name = {"query": "the river "}, "query"
    save(model, folder := tmp_path_factory.mktemp("own") / "model")
    return folder


def test_before_is_the_model_as_it_was_given(
    own_pooling: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    """Else `train` praises a model that has lost what the user had: 77.37 with its mean, 72.91 with the preset's."""
    said = io.StringIO()
    run = small_run(
        own_pooling, corpus_file, tmp_path / "run", "encoder.pooling=cls", "encoder.prompt=''", **SHORT,
        labels=pairs_file, console=plain_console(file=said),
    )  # fmt: skip
    pairs = {"pairs": {"test": read_pairs(pairs_file)}}
    gold, cosines = main_pairs(pairs, similarities(load(own_pooling, device="cpu"), pairs))["pairs"]
    assert run.verdict.scores is not None
    assert run.verdict.scores[0] == pytest.approx(spearman(cosines, gold), abs=1e-6)
    assert (run.verdict.before, run.verdict.judge) == ("model", "120 graded pairs of pairs")
    assert said.getvalue().count("note: the new model has the pooling cls, and is compared with model as it is") == 1


def test_it_tells_the_run_and_no_text_of_it(finished: Run, corpus_file: Path, tiny_model: Path) -> None:
    text = (finished.folder / "model" / "README.md").read_text(encoding="utf-8")
    result = finished.record
    (scores,) = result["comparison"]["per_task"].values()
    for words in (
        f"{finished.verdict.word}**: ",
        "60 graded pairs of pairs",
        f"{100 * scores['before']:.2f} | {100 * scores['after']:.2f}",
        f"## Is it better than {tiny_model.name} (a raw language model",
        "### 1. Trained with `simcse`",
        f"| text | `{corpus_file.name}` |",
        f"{result['corpus']['used']:,} of {result['corpus']['rows']:,}",
        result["corpus"]["key"],
        "| `train.batch_size` | `16` | set for this run |",
        "| `views.passes` | `2` | SimCSE Sec. 3 |",
        "| `seed` | `0` |",
        '| `train.select` | `["pairs"]` | set for this run |',
        "gao2021simcse",
        "Labelled pairs chose the checkpoint (pairs)",
        "at most 32 tokens",
    ):
        assert words in text, words
    assert f"`{json.dumps(tiny_model.name)}`" in text
    assert str(tiny_model.parent) not in text
    assert str(corpus_file.parent) not in text
    assert not [sentence for sentence in corpus_file.read_text().splitlines() if sentence and sentence in text]


def test_without_pairs_the_last_checkpoint_is_kept(small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    run = small("run", dev="none", labels="none")
    assert run.verdict.word == "not tested"
    assert "**Not judged.**" in (run.folder / "model" / "README.md").read_text(encoding="utf-8")
    assert run.record["selection"]["best_step"] is None
    assert "the last checkpoint is kept" in capsys.readouterr().out
    signals = [record for record in logged(run.folder) if "uniformity" in record]
    assert [record["step"] for record in signals] == [5, 10, 15, 20]
    assert all(np.isfinite([r["alignment"], r["uniformity"], r["mean_cosine"]]).all() for r in signals)


def test_half_of_the_users_pairs_select_and_the_other_half_judges(pairs_file: Path) -> None:
    judging, selecting = named_pairs(str(pairs_file), [], None, None)
    whole, kept, held = read_pairs(pairs_file), selecting["pairs"], judging["pairs"]["test"]
    assert len(kept) == len(held) == len(whole) // 2
    assert sorted([*kept.first, *held.first]) == sorted(whole.first)
    again = named_pairs(str(pairs_file), [], None, None)[1]["pairs"]
    assert again.checksum() == kept.checksum()


def test_none_and_several_names(pairs_file: Path, tmp_path: Path) -> None:
    assert dev_names(["stsb,none", "a.tsv"]) == ["stsb", "a.tsv"]
    assert named_pairs("none", ["stsb"], None, None) == ({}, {})
    other = shutil.copy(pairs_file, tmp_path / "other.tsv")
    assert set(dev_pairs([str(pairs_file), str(other)], None)) == {"pairs", "other"}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (("none", [], "stts", None), r"labels = 'stts' is unknown: did you mean 'sts'"),
        (("stsb-dve", [], "none", None), r"dev set 'stsb-dve' is unknown: did you mean 'stsb-dev'"),
        ((["a.tsv", "b/a.tsv"], [], None, None), "two dev sets are called 'a'"),
        (("a.tsv", [], "b/a.tsv", None), "a both selects and judges: leave labels out"),
        (("transfer-dev", [], None, "b"), r"senteval/downstream/.* does not exist"),
    ],
)
def test_what_cannot_select_or_judge_is_refused_before_training(
    given: Any, problem: str, pairs_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is never passed over, and nothing else judges in its place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    (tmp_path / "b").mkdir()
    for folder in (".", "b"):
        shutil.copy(pairs_file, Path(folder) / "a.tsv")
    with pytest.raises(UserError, match=problem):
        named_pairs(*given)
