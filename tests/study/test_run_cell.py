"""One cell, run in this process; a step behind its model is fitted on the sentences that the row has."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isotrope.study.run_cell
import isotrope.text
from conftest import WORDS, sentences
from isotrope.encoder import load
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.evaluation.sts import score, similarities
from isotrope.post.whitening import Whitening
from isotrope.study import study
from isotrope.study.cell import Cell
from isotrope.study.columns import sts_scores
from isotrope.study.plan import Place, StudyPlan
from isotrope.study.run_cell import reading, run_cell, with_post_step
from isotrope.study.spec import read_study
from isotrope.text.sample import RowOrder
from isotrope.training.pairs import dev_pairs, judges
from oracle.similarity import DATA
from studies import planned, quiet, spec_of, write_study

Plan = Callable[..., StudyPlan]
needs_collections = pytest.mark.skipif(not (DATA / "domain" / "cacm").is_dir(), reason="needs domain/ in ISOTROPE_DATA")


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


def test_an_untrained_row_can_be_a_student_of_its_backbone(plan: Plan) -> None:
    rows = '[rows.raw]\ntrain = false\n[rows.short]\ntrain = false\nset = ["encoder.student=layers:1"]\n'
    raw, short = map(run_cell, plan(rows).cells.values())
    assert raw["scores"]["Avg."] != short["scores"]["Avg."]


def test_a_cell_and_the_step_behind_it_read_the_duplicates_that_are_kept(
    tiny_model: Path, pairs_file: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(4 * sentences(24)))  # without its duplicates: fewer than the study's 96 sentences
    file = write_study(tmp_path, tiny_model, corpus, pairs_file, '[rows.white]\nthen = "whitening:k=4"\n', seeds=1)
    trained, white = planned(read_study(file, {"keep_duplicates": True}), tmp_path / "out").cells.values()
    assert run_cell(trained)["selection"]["steps"] == 6
    assert run_cell(white)["scores"]["Avg."] != trained.record()["scores"]["Avg."]


@needs_collections
def test_a_suite_is_asked_as_the_study_says(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    def scores(asked: str) -> dict[str, float]:
        file = tmp_path / "spec.toml"
        file.write_text(f'title = "t"\n[run]\nbackbone = {str(tiny_model)!r}\n{asked}\n[rows.raw]\ntrain = false\n')
        spec = read_study(file, {"corpus": [str(corpus_file)], "test": "none", "dev": ["none"]})
        made = StudyPlan(spec, Place(tmp_path / "out", str(DATA)))
        return dict(run_cell(made.cells[made.rows["raw"][0]])["scores"])

    whole = scores('suites = {retrieval = {tasks = ["CACM"]}}')
    cut = scores('suites = {retrieval = {tasks = ["CACM"], max_length = 6}}')
    rough = scores('suites = {retrieval = {tasks = ["CACM"], precision = "bf16"}}')
    assert whole.keys() == cut.keys() == {"CACM", "nDCG Avg."}
    assert len({cell["CACM"] for cell in (whole, cut, rough)}) == 3
    assert rough["CACM"] == pytest.approx(whole["CACM"], abs=2)


def test_two_processes_never_work_on_one_cell(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits, and takes what the first has measured."""
    (cell,) = plan("[rows.raw]\ntrain = false\n").cells.values()
    measure, calls = isotrope.study.run_cell._measured, []

    def counted(cell: Cell) -> dict[str, Any]:
        calls.append(cell.key)
        return measure(cell)

    monkeypatch.setattr(isotrope.study.run_cell, "_measured", counted)
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(run_cell, [cell, cell])
    assert first == second
    assert calls == [cell.key]


def test_pairs_of_documents_are_a_row_beside_rows_of_texts(tiny_model: Path, pairs_file: Path, tmp_path: Path) -> None:
    """One corpus: one row reads it as documents, the other as texts."""
    documents = tmp_path / "documents.jsonl"
    texts = [" ".join(sentences(3, seed=seed)) for seed in range(100)]
    documents.write_text("".join(json.dumps({"title": "", "text": text}) + "\n" for text in texts))
    rows = '[rows.SimCSE]\npreset = "simcse"\n[rows.Crops]\npreset = "crops"\nset = ["pairs.rounds=3"]\n'
    spec = read_study(write_study(tmp_path, tiny_model, documents, pairs_file, rows, seeds=1))
    results = {cell.label: run_cell(cell) for cell in planned(spec, tmp_path / "out").cells.values()}
    assert [result["selection"]["steps"] for result in results.values()] == [6, 6]
    assert results["Crops"]["settings"]["pairs"]["rounds"] == 3
    assert "pairs" not in results["SimCSE"]["settings"]


def test_a_loss_of_sentence_transformers_is_a_row(plan: Plan) -> None:
    """With its own options; the study's settings of other components pass it by."""
    loss = "sentence_transformers.sentence_transformer.losses:GISTEmbedLoss"
    row = ["views=false", "scores=false", "terms=false", "teachers.before.kind=initial", f"loss={loss}"]
    row += ["loss_options.guide=before", "loss_options.temperature=0.05"]
    made = plan(f"[rows.GIST]\nset = {row}\n", forced=("train.eval_steps=2",), positives=True)
    (cell,) = made.cells.values()
    result = run_cell(cell)
    assert result["selection"]["steps"] == 6
    assert result["settings"]["loss"] == loss
    assert result["settings"]["loss_options"] == {"guide": "before", "temperature": 0.05}
    assert "diversity" not in result["scores"], "it has no views"


POSITIVES = """
[rows.SimCSE]
preset = "simcse"
train = false
[rows.whitened]
preset = "whitenedcse"
set = ["views.sgw.groups=16"]
[rows."one pass"]
preset = "whitenedcse"
set = ["views.sgw.groups=16", "views.passes=1", "views.sgw.copies=3"]
train = false
[rows.raw]
preset = "whitenedcse"
set = ["views.sgw.groups=16", "encoder.dropout=0.2"]
train = false
[rows.behind]
train = false
then = "whitening:k=4"
"""


def test_whitening_makes_positives_more_diverse_and_a_column_shows_it(plan: Plan) -> None:
    records = {cell.label: run_cell(cell) for cell in plan(POSITIVES, positives=True).cells.values()}
    planes = {label: np.array(record["projection"]) for label, record in records.items()}
    assert all(plane.shape == (96, 2) and (np.hypot(*plane.T) <= 1.001).all() for plane in planes.values())
    first, second = (planes["SimCSE"] ** 2).sum(axis=0)
    assert first > second > 0, "the longest direction comes first"
    found = {label: record["scores"] for label, record in records.items()}
    simcse, whitened, raw = found["SimCSE"], found["whitened"], found["raw"]
    assert simcse["feature diversity"] == simcse["diversity"] > 0, "nothing stands between the encoder and the head"
    for row in (whitened, raw):
        assert row["diversity"] > row["feature diversity"] > 0
    assert "feature diversity" not in found["one pass"], "one view lies apart from no other"
    assert 0 < found["one pass"]["diversity"] < whitened["diversity"]
    assert "diversity" not in found["behind"]


def test_positives_decide_the_key_only_where_they_are_asked_for(plan: Plan) -> None:
    rows = "[rows.raw]\ntrain = false\n"
    assert plan(rows, sentences=48).cells.keys() == plan(rows, sentences=96).cells.keys(), "no text is read"
    assert (
        plan(rows, sentences=48, positives=True).cells.keys() != plan(rows, sentences=96, positives=True).cells.keys()
    )


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


def test_vectors_are_remembered_until_they_are_asked_for_anew(tiny_model: Path, plan: Plan) -> None:
    encoder = load(tiny_model, "mean")
    for then in ("", "whitening:k=4"):
        (cell,) = plan(f'[rows.raw]\ntrain = false\nthen = "{then}"\n').cells.values()
        judged = with_post_step(encoder, cell)
        texts = sentences(20)
        before = judged.encode(texts)
        with reading(encoder, 4, "fp32"):
            assert np.array_equal(judged.encode(texts), before), then
            assert not np.allclose(judged.fresh().encode(texts), before, atol=1e-3), then


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
