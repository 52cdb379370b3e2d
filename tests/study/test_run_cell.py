"""One cell, run in this process; a step behind its model is fitted on the sentences that the row
has.
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from helpers.refusals import refused
from helpers.words import WORDS, sentences
from isotrope.encoder import load
from isotrope.encoder.word_vectors import WordVectors
from isotrope.post.fitted import FittedEncoder
from isotrope.post.whitening import Whitening
from isotrope.study.analyse import study_record
from isotrope.study.measure import reading
from isotrope.study.plan import StudyPaths, StudyPlan
from isotrope.study.run_cell import run_cell, with_post_step
from isotrope.study.spec import read_study
from isotrope.text import read_text
from isotrope.text.sample import RowOrder
from isotrope.training.pairs import dev_pairs, judges
from oracle.similarity import DATA

Plan = Callable[..., StudyPlan]
needs_collections = pytest.mark.skipif(
    not (DATA / "domain" / "cacm").is_dir(), reason="needs domain/ in ISOTROPE_DATA"
)


def test_untrained_rows_are_judged_by_half_of_every_dev_set_and_may_be_students(
    plan: Plan, pairs_file: Path, tmp_path: Path
) -> None:
    files = [shutil.copy(pairs_file, tmp_path / name) for name in ("dev.tsv", "other.tsv")]
    rows = '[rows.raw]\ntrain = false\n[rows.short]\ntrain = false\nset = ["encoder.student=layers:1"]\n'
    cells = [*plan(rows, dev=[",".join(map(str, files))]).cells.values()]
    raw, short = map(run_cell, cells)
    assert raw.scores.keys() == {"dev pairs", "other", "Avg."}, "and 'dev' is what has selected"
    assert raw.scores["Avg."] != short.scores["Avg."]
    cells[0].model.mkdir()
    assert run_cell(cells[0]) == raw
    assert cells[0].model.is_dir(), "another study that shares the cell may need it"
    with refused("no-dev-pairs"):
        plan(rows, dev=["none"])


def test_a_cell_and_the_step_behind_it_read_the_duplicates_that_are_kept(
    plan: Plan, tmp_path: Path
) -> None:
    # 24 are fewer than the study's 96
    (text := tmp_path / "text.txt").write_text("\n".join(4 * sentences(24)))
    made = plan('[rows.white]\nthen = "whitening:k=4"\n', corpus=[str(text)], keep_duplicates=True)
    trained, white = map(run_cell, made.cells.values())
    assert trained.selection["steps"] == 6
    assert white.scores["Avg."] != trained.scores["Avg."]


@needs_collections
def test_a_suite_is_asked_as_the_study_says(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    def scores(asked: str) -> dict[str, float]:
        file = tmp_path / "spec.toml"
        file.write_text(
            f'title = "t"\n[run]\nbackbone = {str(tiny_model)!r}\n{asked}\n[rows.raw]\ntrain = false\n'
        )
        spec = read_study(file, {"corpus": [str(corpus_file)], "test": "none", "dev": ["none"]})
        made = StudyPlan(spec, StudyPaths(tmp_path / "out", str(DATA)))
        return dict(run_cell(made.cells[made.rows["raw"][0]]).scores)

    whole = scores('suites = {retrieval = {tasks = ["CACM"]}}')
    cut = scores('suites = {retrieval = {tasks = ["CACM"], max_length = 6}}')
    rough = scores('suites = {retrieval = {tasks = ["CACM"], max_length = 6, precision = "bf16"}}')
    assert whole.keys() == cut.keys() == {"CACM", "nDCG Avg."}
    assert len({cell["CACM"] for cell in (whole, cut, rough)}) == 3
    assert rough["CACM"] == pytest.approx(cut["CACM"], abs=2)


def test_two_processes_never_work_on_one_cell(plan: Plan) -> None:
    """The second waits, and takes what the first has measured."""
    (cell,) = plan("[rows.raw]\ntrain = false\n").cells.values()
    with ThreadPoolExecutor(2) as both:
        first, second = both.map(run_cell, [cell, cell])
    assert first == second, "also the seconds that it took"


def test_pairs_of_documents_are_a_row_beside_rows_of_texts(plan: Plan, tmp_path: Path) -> None:
    """One corpus: one row reads it as documents, the other as texts."""
    documents = tmp_path / "documents.jsonl"
    texts = [" ".join(sentences(3, seed=seed)) for seed in range(100)]
    documents.write_text("".join(json.dumps({"title": "", "text": text}) + "\n" for text in texts))
    rows = '[rows.SimCSE]\npreset = "simcse"\n[rows.Crops]\npreset = "crops"\nset = ["pairs.rounds=3"]\n'
    results = {
        cell.label: run_cell(cell) for cell in plan(rows, corpus=[str(documents)]).cells.values()
    }
    assert [result.selection["steps"] for result in results.values()] == [6, 6]
    assert results["Crops"].settings["pairs"]["rounds"] == 3
    assert "pairs" not in results["SimCSE"].settings


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
[rows.behind]
train = false
then = "whitening:k=4"
"""


def test_whitening_makes_positives_more_diverse_and_a_column_shows_it(plan: Plan) -> None:
    records = {
        cell.label: run_cell(cell) for cell in plan(POSITIVES, positives=True).cells.values()
    }
    planes = {label: np.array(record.projection) for label, record in records.items()}
    assert all(
        plane.shape == (96, 2) and (np.hypot(*plane.T) <= 1.001).all() for plane in planes.values()
    )
    first, second = (planes["SimCSE"] ** 2).sum(axis=0)
    assert first > second > 0, "the longest direction comes first"
    found = {label: record.scores for label, record in records.items()}
    simcse, whitened = found["SimCSE"], found["whitened"]
    assert simcse["feature diversity"] == simcse["diversity"] > 0, (
        "nothing stands between the encoder and the head"
    )
    assert whitened["diversity"] > whitened["feature diversity"] > 0
    assert "feature diversity" not in found["one pass"], "one view lies apart from no other"
    assert 0 < found["one pass"]["diversity"] < whitened["diversity"]
    assert "diversity" not in found["behind"]


def test_positives_decide_the_key_only_where_they_are_asked_for(plan: Plan) -> None:
    for positives in (False, True):
        few, many = (
            plan("[rows.raw]\ntrain = false", sentences=n, positives=positives).cells.keys()
            for n in (48, 96)
        )
        assert (few == many) != positives, "without them, no text is read"


def judging(pairs_file: Path) -> Any:
    """The half of the pairs that judges."""
    (parts,) = judges(None, dev_pairs([str(pairs_file)], None), None)[0].values()
    (pairs,) = parts.values()
    return pairs


def fitted(step: Any, corpus_file: Path) -> Any:
    """The step, fitted on the sentences that a training of seed 0 visits."""
    opened = read_text(corpus_file).texts()
    rows = RowOrder(len(opened), 96, seed=0).rows(0, 96)
    return step.fit(opened.dataset[rows.tolist()]["text"])


def cosines_of(encoder: Any, pairs_file: Path) -> Any:
    """Cosines of the judging pairs, encoded at once."""
    pairs = judging(pairs_file)
    both = encoder.encode([*pairs.first, *pairs.second])
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    return (both[: len(pairs)] * both[len(pairs) :]).sum(axis=1)


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
    assert found["white"].settings["then"] == "whitening:k=4,exponent=0.25"
    assert "then" not in found["plain"].settings
    encoder = load(tiny_model, "mean")
    expected = cosines_of(
        fitted(Whitening(k=4, exponent=0.25).behind(encoder), corpus_file), pairs_file
    )
    ((_, plain),), ((_, white),), ((_, target),) = (cells[row].cosines().values() for row in cells)
    np.testing.assert_allclose(white, expected, atol=1e-4)
    assert not np.allclose(plain, expected, atol=1e-2)
    np.testing.assert_allclose(
        target, cosines_of(Whitening(k=4).behind(encoder), pairs_file), atol=1e-4
    )


@pytest.mark.parametrize(("then", "expected"), [("flow", 96), ("whitening:k=4", 40)])
def test_a_flow_is_fitted_on_all_sentences_of_the_row(
    plan: Plan, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, then: str, expected: int
) -> None:
    """Since they are its steps; the covariance of a linear step needs no more than a limit."""
    monkeypatch.setattr("isotrope.study.run_cell.SENTENCES_FOR_A_STEP", 40)
    fitted_on: list[int] = []

    def fit(self: FittedEncoder, texts: list[str]) -> FittedEncoder:
        fitted_on.append(len(texts))
        return self

    monkeypatch.setattr(FittedEncoder, "fit", fit)
    (cell,) = plan(f'[rows.raw]\ntrain = false\nthen = "{then}"\n').cells.values()
    with_post_step(load(tiny_model, "mean"), cell)
    assert fitted_on == [expected]


def test_word_vectors_are_a_row_where_a_file_is_named(
    plan: Plan, tmp_path: Path, pairs_file: Path
) -> None:
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
    then = "whitening:fit=target"
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
    without = plan(rows)
    assert list(without.rows) == ["raw"]
    record = study_record(without)
    assert record.references["GloVe"].as_json() == {
        "published": {"Avg.": 61.32},
        "published_sd": {},
        "source": "",
        "differs": "",
    }
    assert not record.claims, "printed numbers answer no claim"
    made = plan(rows, vectors=str(tmp_path / "words.txt"), only=("GloVe", "SIF", "white"))
    scores = {cell.label: run_cell(cell).scores["Avg."] for cell in made.cells.values()}
    assert len(set(scores.values())) == 3
    record = study_record(made)
    assert [claim.claim for claim in record.claims] == ["words"]
    assert "words.txt" in str(record.scale.backbones)
    assert str(tmp_path) not in json.dumps(record.as_json())
    pairs = judging(pairs_file)
    cosines = cosines_of(WordVectors(tmp_path / "words.txt"), pairs_file)
    assert scores["GloVe"] == pytest.approx(100 * spearmanr(cosines, pairs.gold).statistic, abs=0.1)
    (tmp_path / "words.txt").write_text("no words here")
    with refused("no-word-vectors"):
        plan(rows, vectors=str(tmp_path / "words.txt"))


OWN_DOCUMENTS = """
[rows.NLI]
train = false
then = "whitening:k=4"
documents = "nli"
published = {"Avg." = 66.28}
[rows.BT]
preset = "contrastive-bt"
set = ["terms.translated.size=8", "train.max_length=32"]
documents = "translations"
positive = "translation"
published = {"Avg." = 62.63}
[rows.raw]
train = false
[claims.c]
each = ["NLI", "BT"]
better = "{}"
than = "raw"
text = "{} helps"
"""


@pytest.fixture
def row_documents(tmp_path: Path) -> dict[str, str]:
    """Sentences for a step, and a table whose second column has the positives."""
    nli, pairs = tmp_path / "nli.txt", tmp_path / "pairs.tsv"
    nli.write_text("\n".join(sentences(40, seed=5)) + "\n", encoding="utf-8")
    both = zip(sentences(40, seed=6), sentences(40, seed=7), strict=True)
    rows = "".join(f"{text}\t{translation}\n" for text, translation in both)
    pairs.write_text(f"text\ttranslation\n{rows}", encoding="utf-8")
    return {"nli": str(nli), "translations": str(pairs)}


def test_rows_whose_documents_are_missing_have_printed_numbers_only(plan: Plan) -> None:
    without = plan(OWN_DOCUMENTS)
    assert list(without.rows) == ["raw"]
    record = study_record(without)
    assert sorted(record.references) == ["BT", "NLI"]
    assert not record.claims


def test_a_row_that_cannot_be_run_names_its_documents(plan: Plan) -> None:
    with refused("not-run", "NLI") as printed:
        plan(OWN_DOCUMENTS, only=("NLI",))
    assert printed.value.remedy == "name its documents 'nli' with --row-documents nli=FILE"


def test_wrong_documents_of_a_row_are_refused(
    plan: Plan, tmp_path: Path, row_documents: dict[str, str]
) -> None:
    with refused("unknown-name", "nil", "did you mean 'nli'?"):
        plan(OWN_DOCUMENTS, row_documents={"nil": row_documents["nli"]})
    with refused("missing-path", "missing.txt"):
        plan(OWN_DOCUMENTS, row_documents={"nli": "missing.txt"})
    (few := tmp_path / "few.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    with refused("batch-larger-than-text", "few"):
        plan('[rows.few]\ndocuments = "nli"', row_documents={"nli": str(few)})


def test_other_rows_stay_the_same_cells(plan: Plan, row_documents: dict[str, str]) -> None:
    made = plan(OWN_DOCUMENTS, row_documents=row_documents)
    assert len(made.corpora) == 3
    assert set(plan(OWN_DOCUMENTS).cells) < set(made.cells)


def test_a_step_is_fitted_and_a_training_reads_what_the_row_names(
    plan: Plan, row_documents: dict[str, str], tmp_path: Path, tiny_model: Path, pairs_file: Path
) -> None:
    made = plan(OWN_DOCUMENTS, row_documents=row_documents)
    cells = {cell.label: cell for cell in made.cells.values()}
    found = {label: run_cell(cells[label]) for label in ("NLI", "BT")}
    ((_, white),) = cells["NLI"].cosines().values()
    step = Whitening(k=4).behind(load(tiny_model, "mean")).fit(sentences(40, seed=5))
    np.testing.assert_allclose(white, cosines_of(step, pairs_file), atol=1e-4)
    assert found["BT"].data["corpus"]["rows"] == 40
    record = study_record(made)
    assert [claim.claim for claim in record.claims] == ["c: NLI", "c: BT"]
    assert str(tmp_path) not in json.dumps(record.as_json())
    assert record.note.endswith("reads all of them, unless it has a number of sentences.")


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


@pytest.mark.parametrize(
    ("keep_head", "step"), [("true", Whitening(exponent=0)), ("false", Whitening())]
)
def test_a_model_is_trained_once_whatever_stands_behind_it(
    plan: Plan, corpus_file: Path, pairs_file: Path, keep_head: str, step: Whitening
) -> None:
    """A model that keeps its head has it before the step, too."""
    keep = f'set = ["train.keep_head={keep_head}", "encoder.pooling=mean"]\n'
    rows = f'[rows.plain]\n{keep}[rows.white]\nthen = "whitening:exponent={step.exponent}"\n{keep}'
    made = plan(rows + f'[rows.short]\nthen = "whitening:k=4"\n{keep}')
    assert sum(cell.row.train for cell in made.cells.values()) == 1
    assert made.rows["plain"] == plan(rows, only=("plain",)).rows["plain"]
    assert len({run_cell(cell).scores["Avg."] for cell in made.cells.values()}) == 3
    trained = load(made.cells[made.rows["plain"][0]].model)
    assert len(trained) == (3 if keep_head == "true" else 2), "encoder, pooling, head"
    ((_, cosines),) = made.cells[made.rows["white"][0]].cosines().values()
    np.testing.assert_allclose(
        cosines, cosines_of(fitted(step.behind(trained), corpus_file), pairs_file), atol=1e-4
    )
