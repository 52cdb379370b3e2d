"""A step behind a model is fitted on the sentences that the row has."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotrope.text
from conftest import WORDS, sentences
from isotrope.encoder import load
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.evaluation.sts import score, similarities
from isotrope.post.whitening import Whitening
from isotrope.study import study
from isotrope.study.columns import sts_scores
from isotrope.study.plan import StudyPlan
from isotrope.study.post_step import fresh, with_post_step
from isotrope.study.run_cell import reading, run_cell
from isotrope.study.spec import read_study
from isotrope.text.sample import RowOrder
from isotrope.training.pairs import dev_pairs, judges
from studies import planned, quiet, write_study

Plan = Callable[..., StudyPlan]


def judging(pairs_file: Path) -> Any:
    """The half of the pairs that judges."""
    (parts,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = parts.values()
    return pairs


def fitted(step: Any, corpus_file: Path) -> Any:
    """The step, fitted on the sentences that a training of seed 0 visits."""
    opened = isotrope.text.open(corpus_file).texts()
    rows = RowOrder(len(opened), 96, seed=0).rows(0, 96)
    return step.fit(opened.dataset[rows.tolist()]["text"])


def cosines_of(encoder: Any, pairs_file: Path) -> Any:
    """Cosines of the judging pairs, encoded at once."""
    pairs = judging(pairs_file)
    both = encoder.encode([*pairs.first, *pairs.second])
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    return (both[: len(pairs)] * both[len(pairs) :]).sum(axis=1)


@pytest.mark.parametrize(
    "then", ["whitening:fit=text.txt", "sif", "flux", "whitening:k=0", "flow:fit=target,sentences=5"]
)
def test_a_step_that_has_other_sentences_is_refused_first(then: str, plan: Plan) -> None:
    with pytest.raises(UserError, match="then = "):
        plan(f'[rows.white]\nthen = "{then}"\n')


def test_a_step_is_fitted_on_the_sentences_of_the_row_or_of_the_test(
    plan: Plan, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = """
    [rows.plain]
    train = false
    [rows.white]
    train = false
    then = "whitening:k=4,exponent=0.25"
    [rows.target]
    train = false
    then = "whitening:k=4,fit=target"
    """
    cells = {cell.label: cell for cell in plan(rows).cells.values()}
    found = {label: run_cell(cell) for label, cell in cells.items()}
    assert found["white"]["settings"]["then"] == "whitening:k=4,exponent=0.25"
    assert "then" not in found["plain"]["settings"]
    encoder = load(tiny_model, "mean")
    expected = cosines_of(fitted(Whitening(k=4, exponent=0.25).behind(encoder), corpus_file), pairs_file)
    ((_, plain),), ((_, white),), ((_, target),) = (cells[row].cosines().values() for row in cells)
    np.testing.assert_allclose(white, expected, atol=1e-4)
    assert not np.allclose(plain, expected, atol=1e-2)
    np.testing.assert_allclose(target, cosines_of(Whitening(k=4).behind(encoder), pairs_file), atol=1e-4)


def test_word_vectors_are_a_row_where_a_file_is_named(tmp_path: Path, corpus_file: Path, pairs_file: Path) -> None:
    """Averaged, weighted, whitened; nothing is trained, and no path is told."""
    generator = np.random.default_rng(0)
    lines = [f"{word} " + " ".join(f"{x:.4f}" for x in generator.normal(size=8)) for word in WORDS]
    (tmp_path / "words.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = """
    [rows.GloVe]
    vectors = true
    published = {"Avg." = 61.32}
    [rows.SIF]
    vectors = true
    then = "sif:fit=target"
    published = {"Avg." = 1}
    [rows.white]
    vectors = true
    then = "whitening:k=4"
    published = {"Avg." = 1}
    [rows.raw]
    train = false
    [claims.words]
    better = "SIF"
    than = "GloVe"
    text = "weights help"
    """
    file = write_study(tmp_path, Path("isotrope/tiny"), corpus_file, pairs_file, rows)
    unnamed = read_study(file)
    assert list(unnamed.rows) == ["raw"]
    assert unnamed.reference["GloVe"].published == {"Avg.": 61.32}
    assert "words" not in planned(unnamed, tmp_path / "without").spec.claims, "printed numbers answer no claim"
    done = study(file, output=tmp_path / "out", vectors=str(tmp_path / "words.txt"), rows=["GloVe", "SIF", "white"],
                 console=quiet())  # fmt: skip
    assert not done.failed
    scores = {row["label"]: row["scores"]["0"]["Avg."] for row in done.record["rows"]}
    assert len(set(scores.values())) == 3
    assert [claim["claim"] for claim in done.record["claims"]] == ["words"]
    assert "words.txt" in str(done.record["scale"]["backbones"])
    assert str(tmp_path) not in json.dumps(done.record)
    held = {"test": judging(pairs_file)}
    assert scores["GloVe"] == pytest.approx(
        sts_scores(score({"pairs": held}, similarities(WordVectors(tmp_path / "words.txt"), {"pairs": held})))["Avg."]
    )
    (tmp_path / "words.txt").write_text("no words here")
    with pytest.raises(UserError, match="no word vector"):
        planned(read_study(file, {"vectors": str(tmp_path / "words.txt")}), tmp_path / "other")


def test_vectors_are_remembered_until_they_are_asked_for_anew(tiny_model: Path, corpus_file: Path) -> None:
    encoder = load(tiny_model, "mean")
    for then in ("", "whitening:k=4", "whitening:k=4,fit=target"):
        judged = with_post_step(encoder, then, isotrope.text.open(corpus_file), 96, 0)
        texts = sentences(20)
        before = judged.encode(texts)
        with reading(encoder, 4, "fp32"):
            assert np.array_equal(judged.encode(texts), before), then
            assert not np.allclose(fresh(judged).encode(texts), before, atol=1e-3), then


@pytest.mark.parametrize(("keep_head", "step"), [("true", Whitening(exponent=0)), ("false", Whitening())])
def test_a_model_is_trained_once_whatever_stands_behind_it(
    plan: Plan, corpus_file: Path, pairs_file: Path, keep_head: str, step: Whitening
) -> None:
    """A model that keeps its head has it before the step, too."""
    keep = f'set = ["train.keep_head={keep_head}", "encoder.pooling=mean"]\n'
    rows = f'[rows.plain]\n{keep}[rows.white]\nthen = "whitening:exponent={step.exponent}"\n{keep}'
    made = plan(rows + f'[rows.short]\nthen = "whitening:k=4"\n{keep}')
    assert sum(cell.row.train for cell in made.cells.values()) == 1
    assert made.rows["plain"] == plan(rows, only=("plain",)).rows["plain"]
    assert len({run_cell(cell)["scores"]["Avg."] for cell in made.cells.values()}) == 3
    trained = load(made.cells[made.rows["plain"][0]].model)
    assert len(trained) == (3 if keep_head == "true" else 2), "encoder, pooling, head"
    ((_, cosines),) = made.cells[made.rows["white"][0]].cosines().values()
    np.testing.assert_allclose(cosines, cosines_of(fitted(step.behind(trained), corpus_file), pairs_file), atol=1e-4)
