"""A step behind a model is fitted on the sentences that the row has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import isotrope.text as text
from conftest import WORDS, sentences
from isotrope.encoder import load
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.evaluation.sts import score, similarities
from isotrope.post.whitening import Whitening
from isotrope.study import study
from isotrope.study.columns import sts_scores
from isotrope.study.post_step import fresh, with_post_step
from isotrope.study.run_cell import reading, run_cell
from isotrope.study.spec import read_study
from isotrope.text.batches import PermutedBatches
from isotrope.text.opened import open as text_open
from isotrope.training.pairs import dev_pairs, judges
from studies import planned, quiet, write_study


@pytest.mark.parametrize(
    "then", ["whitening:fit=text.txt", "sif", "flux", "whitening:k=0", "flow:fit=target,sentences=5"]
)
def test_a_step_that_has_other_sentences_is_refused_first(
    then: str, tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, f'[rows.white]\nthen = "{then}"\n')
    with pytest.raises(UserError, match="then = "):
        planned(read_study(file), tmp_path / "out")


def test_a_step_behind_is_fitted_on_the_sentences_that_the_row_has(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = '[rows.plain]\ntrain = false\n[rows.white]\ntrain = false\nthen = "whitening:k=4,exponent=0.25"\n'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)
    cells = {cell.label: cell for cell in planned(read_study(file), tmp_path / "out").cells.values()}
    found = {label: run_cell(cell) for label, cell in cells.items()}
    assert found["white"]["settings"]["then"] == "whitening:k=4,exponent=0.25"
    assert "then" not in found["plain"]["settings"]

    opened = text_open(corpus_file).texts()
    rows_of_seed = PermutedBatches(len(opened), 16, 0, limit=96).rows(0, 96)  # as a training of seed 0 visits them
    encoder = load(tiny_model, "mean")
    fitted = Whitening(k=4, exponent=0.25).behind(encoder).fit(opened.dataset[rows_of_seed.tolist()]["text"])
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()  # the half that judges
    (pairs,) = held.values()
    sides = (fitted.encode(side) for side in (pairs.first, pairs.second))
    expected = np.prod([side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides], axis=0).sum(axis=1)
    ((_, white),), ((_, plain),) = (cells[row].cosines().values() for row in ("white", "plain"))
    np.testing.assert_allclose(white, expected, atol=1e-4)
    assert not np.allclose(plain, expected, atol=1e-2)


def test_on_the_target_a_step_is_fitted_on_the_sentences_of_the_test(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = '[rows.white]\ntrain = false\nthen = "whitening:k=4,fit=target"\n'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows)
    (cell,) = planned(read_study(file), tmp_path / "out").cells.values()
    run_cell(cell)
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = held.values()
    both = Whitening(k=4).behind(load(tiny_model, "mean")).encode([*pairs.first, *pairs.second])
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    ((_, cosines),) = cell.cosines().values()
    np.testing.assert_allclose(cosines, (both[: len(pairs)] * both[len(pairs) :]).sum(axis=1), atol=1e-4)


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
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    assert scores["GloVe"] == pytest.approx(
        sts_scores(score({"pairs": held}, similarities(WordVectors(tmp_path / "words.txt"), {"pairs": held})))["Avg."]
    )
    (tmp_path / "words.txt").write_text("no words here")
    with pytest.raises(UserError, match="no word vector"):
        planned(read_study(file, {"vectors": str(tmp_path / "words.txt")}), tmp_path / "other")


def test_vectors_are_remembered_until_they_are_asked_for_anew(tiny_model: Path, corpus_file: Path) -> None:
    encoder = load(tiny_model, "mean")
    for then in ("", "whitening:k=4", "whitening:k=4,fit=target"):
        judged = with_post_step(encoder, then, text.open(corpus_file), 96, 0)
        texts = sentences(20)
        before = judged.encode(texts)
        with reading(encoder, 4, "fp32"):
            assert np.array_equal(judged.encode(texts), before), then
            assert not np.allclose(fresh(judged).encode(texts), before, atol=1e-3), then


def test_behind_a_model_that_keeps_its_head_the_head_stays(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    keep = 'set = ["train.keep_head=true", "encoder.pooling=mean"]\n'
    rows = f'[rows.plain]\n{keep}[rows.centred]\nthen = "whitening:exponent=0"\n{keep}'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows, seeds=1)
    made = planned(read_study(file), tmp_path / "out")
    for cell in made.cells.values():
        run_cell(cell)
    trained = load(made.cells[made.rows["plain"][0]].model)
    assert len(trained) == 3, "encoder, pooling, head"
    opened = text_open(corpus_file).texts()
    step = Whitening(exponent=0).behind(trained)
    step.fit(opened.dataset[PermutedBatches(len(opened), 16, 0, limit=96).rows(0, 96).tolist()]["text"])
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = held.values()
    first, second = (
        side / np.linalg.norm(side, axis=1, keepdims=True) for side in map(step.encode, (pairs.first, pairs.second))
    )
    ((_, cosines),) = made.cells[made.rows["centred"][0]].cosines().values()
    np.testing.assert_allclose(cosines, (first * second).sum(axis=1), atol=1e-4)


def test_a_model_is_trained_once_whatever_stands_behind_it(
    tmp_path: Path, tiny_model: Path, corpus_file: Path, pairs_file: Path
) -> None:
    rows = '[rows.plain]\n[rows.white]\nthen = "whitening"\n[rows.short]\nthen = "whitening:k=4"\n'
    file = write_study(tmp_path, tiny_model, corpus_file, pairs_file, rows, seeds=1)
    made = planned(read_study(file), tmp_path / "out")
    assert sum(cell.train for cell in made.cells.values()) == 1
    alone = planned(read_study(file), tmp_path / "out", only=["plain"])
    assert made.rows["plain"] == alone.rows["plain"]
    assert len({run_cell(cell)["scores"]["Avg."] for cell in made.cells.values()}) == 3
    cell = made.cells[made.rows["white"][0]]
    trained = made.cells[made.rows["plain"][0]].model
    step = Whitening().behind(load(trained))
    opened = text_open(corpus_file).texts()
    step.fit(opened.dataset[PermutedBatches(len(opened), 16, 0, limit=96).rows(0, 96).tolist()]["text"])
    ((_, cosines),) = cell.cosines().values()
    (held,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = held.values()
    sides = [
        side / np.linalg.norm(side, axis=1, keepdims=True) for side in map(step.encode, (pairs.first, pairs.second))
    ]
    np.testing.assert_allclose(cosines, (sides[0] * sides[1]).sum(axis=1), atol=1e-4)
