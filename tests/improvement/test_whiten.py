"""`isotrope whiten`: the saved model is the fitted baseline, in plain sentence-transformers."""

import io
import itertools
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from helpers.refusals import refused
from helpers.words import sentences
from isotrope import load
from isotrope.cli.main import app
from isotrope.console.plain import plain_console
from isotrope.encoder import save
from isotrope.evaluation.document_tasks import HALVES_OF_SHORT, SCATTERED, tasks_of_texts
from isotrope.improvement.whiten import whiten
from isotrope.post.whitening import SOFT_WHITENING, Whitening, whitening
from isotrope.store.files import Record, read_record
from isotrope.text import read_text
from isotrope.text.sample import Sample

TEXTS = [
    "A man is eating.",
    "Two dogs run through the snow.",
    "It rains.",
    "A man is eating food, and it rains.",
]


def white(model: Path, documents: Path, output: Path, **options: Any) -> Path:
    """Whiten -> the folder of the model."""
    return whiten(model, documents, output=output, **options).folder / "model"


def record_of(folder: Path) -> Record:
    return read_record((folder if folder.name != "model" else folder.parent) / "result.json")


def drawn(corpus: Path) -> list[str]:
    """The texts that whitening is fitted on."""
    return Sample(read_text(corpus).texts(), None, 0).texts(300)


def plain(folder: Path) -> SentenceTransformer:
    """A model, as sentence-transformers opens it."""
    return SentenceTransformer(str(folder), device="cpu")


@pytest.fixture
def long_texts(tmp_path: Path) -> Path:
    """400 texts that are long enough to be halved."""
    path = tmp_path / "text.txt"
    path.write_text(
        "\n".join(f"{a} and {b}" for a, b in itertools.pairwise(sentences(401, seed=3)))
    )
    return path


def commanded(*words: object) -> str:
    """What the command says."""
    result = CliRunner().invoke(app, ["whiten", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    ("k", "pooling", "exponent"), [(None, "mean", 0.5), (7, "cls", 0.25), (9, "cls", 0.0)]
)
def test_the_saved_model_is_the_fitted_baseline(
    k: int | None,
    pooling: str,
    exponent: float,
    tiny_model: Path,
    corpus_file: Path,
    tmp_path: Path,
) -> None:
    output = white(
        tiny_model,
        corpus_file,
        tmp_path / "white",
        k=k,
        exponent=exponent,
        max_texts=300,
        pooling=pooling,
        compare=False,
    )
    fitted = (
        Whitening(k=k, exponent=exponent).behind(load(tiny_model, pooling)).fit(drawn(corpus_file))
    )
    for opened in (plain(output), load(output)):
        np.testing.assert_allclose(opened.encode(TEXTS), fitted.encode(TEXTS), atol=2e-3, rtol=1e-3)


def test_objects_give_what_files_give(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """A loaded model and its folder; a list, a DataFrame and their file; labels in a table."""
    texts = corpus_file.read_text().splitlines()
    save(load(tiny_model), tmp_path / "model")
    model = load(tmp_path / "model")

    def encoded(given: Any, documents: Any, **options: Any) -> Any:
        return whiten(given, documents, k=7, max_texts=300, compare=False, **options).model.encode(
            TEXTS
        )

    expected = encoded(tmp_path / "model", corpus_file)
    np.testing.assert_array_equal(encoded(model, texts), expected)
    labels = pandas.DataFrame({"one": texts[:12], "other": texts[12:24], "score": range(12)})
    judged = encoded(model, pandas.DataFrame({"text": texts}), labels=labels)
    np.testing.assert_allclose(judged, expected, atol=1e-5)  # more texts are encoded together


def test_the_sentences_that_it_was_fitted_on_come_out_white(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    # k: a random model's last directions have a millionth of the first one's spread, which is
    # rounding in float32
    given = {"k": 8, "exponent": 0.5, "max_texts": 300, "pooling": "cls", "compare": False}
    output = white(tiny_model, corpus_file, tmp_path / "white", **given)
    covariance = np.cov(
        np.asarray(load(output).encode(drawn(corpus_file)), dtype=np.float64).T, bias=True
    )
    np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-2)


def test_the_fit_sees_the_prompt_and_the_new_model_keeps_it(
    prompted_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    given = {"k": 4, "exponent": 0.5, "max_texts": 300, "prompt_name": "query", "compare": False}
    found = plain(white(prompted_model, corpus_file, tmp_path / "white", **given)).encode(
        drawn(corpus_file)
    )
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=2e-3)
    np.testing.assert_allclose(np.cov(found.T.astype(np.float64), bias=True), np.eye(4), atol=1e-2)


def test_unit_length_is_kept_where_the_model_had_it(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """A raw model has none, and gets none."""
    load(tiny_model, normalize=True).save_pretrained(str(tmp_path / "unit"))
    for name, model, has in (("new", tmp_path / "unit", True), ("raw", tiny_model, False)):
        found = plain(white(model, corpus_file, tmp_path / name, max_texts=200, compare=False))
        assert np.allclose(np.linalg.norm(found.encode(TEXTS), axis=1), 1, atol=1e-5) is has
        assert record_of(tmp_path / name)["unit_length"] is has


@pytest.mark.parametrize("normalize", [False, True])
def test_a_model_whose_vectors_are_cut_is_whitened_behind_the_cut(
    normalize: bool, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    encoder = load(tiny_model, "mean", normalize=normalize)
    encoder.truncate_dim = 8
    encoder.save(str(tmp_path / "cut"))
    output = white(tmp_path / "cut", corpus_file, tmp_path / "white", max_texts=300, compare=False)
    vectors = np.asarray(encoder.encode(drawn(corpus_file)), dtype=np.float64)
    mean, matrix = whitening(vectors, exponent=SOFT_WHITENING)
    expected = (encoder.encode(TEXTS) - mean) @ matrix
    np.testing.assert_allclose(plain(output).encode(TEXTS), expected, atol=2e-3, rtol=1e-3)
    assert record_of(output)["unit_length"] is False, "what is cut has no unit length"


def test_directions_that_are_left_out_are_counted_and_no_path_of_this_machine_is_kept(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """A LayerNorm takes one direction from the mean of BERT's last layer."""
    output = white(
        tiny_model, corpus_file, tmp_path / "white", max_texts=200, pooling="mean", compare=False
    )
    assert record_of(output)["dimensions"] == {"before": 32, "after": 31, "left_out": 1}
    assert load(output).get_embedding_dimension() == 31
    for path in output.rglob("*"):
        if path.suffix in {".json", ".md"}:
            assert str(tiny_model.parent) not in path.read_text(encoding="utf-8"), path.name


def test_the_comparison_is_made_on_texts_that_the_fit_has_not_seen(
    tiny_model: Path, long_texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, list[str]] = {}
    monkeypatch.setattr(
        "isotrope.improvement.whiten.whitening",
        lambda vectors, *args: (
            seen.update(fit=list(map(str, vectors.round(6).tolist()))) or whitening(vectors, *args)
        ),
    )
    monkeypatch.setattr(
        "isotrope.improvement.whiten.tasks_of_texts",
        lambda texts: seen.update(held=texts) or tasks_of_texts(texts),
    )
    record = record_of(white(tiny_model, long_texts, tmp_path / "white"))
    held = [
        str(row)
        for row in load(tiny_model).encode(seen["held"]).astype(np.float64).round(6).tolist()
    ]
    assert len(seen["fit"]) == record["corpus"]["used"] == 320
    assert len(held) == record["held_out"]["texts"] == 80
    assert not set(held) & set(seen["fit"])
    assert record["verdict"]["difference"] == record["self_made"]["difference"]
    assert set(record["self_made"]["per_task"]) == {HALVES_OF_SHORT, SCATTERED}


def test_a_worse_model_is_written_with_a_warning(
    tiny_model: Path, long_texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fit that keeps noise alone: what it says of the texts is lost."""
    noise = 1e-9 * np.random.default_rng(0).standard_normal((32, 1))
    monkeypatch.setattr(
        "isotrope.improvement.whiten.whitening", lambda x, *rest: (x.mean(axis=0), noise)
    )
    shown = commanded(tiny_model, long_texts, "--output", tmp_path / "white")
    assert "verdict: worse: " in shown
    assert "Keep " in shown
    assert max(len(line) for line in shown.splitlines() if line.startswith(" ")) <= 90, (
        "the table fits"
    )
    assert load(tmp_path / "white" / "model").get_embedding_dimension() == 1


def test_labelled_pairs_judge_before_the_tasks_do(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    pairs, output = tmp_path / "mine.tsv", tmp_path / "white"
    pairs.write_text(
        "".join(
            f"{a}\t{b}\t{i % 6}\n" for i, (a, b) in enumerate(itertools.pairwise(sentences(40)))
        )
    )
    shown = commanded(
        tiny_model, corpus_file, "--output", output, "--labels", pairs, "--max-texts", 200, "--k", 5
    )
    found = record_of(output)
    assert "Spearman × 100" in shown
    assert "5 dimensions" in shown
    assert load(output / "model").get_embedding_dimension() == 5
    assert found["verdict"]["judge"] == "39 graded pairs of mine"
    assert list(found["pairs"]["per_task"]) == ["mine"]


def test_short_texts_are_not_compared_and_the_user_hears_why(
    tiny_model: Path, tmp_path: Path
) -> None:
    text = tmp_path / "short.txt"
    text.write_text("\n".join({" ".join(words.split()[:5]) for words in sentences(300)}))
    shown = commanded(tiny_model, text, "--output", tmp_path / "white")
    assert "verdict: not tested; keep " in shown
    assert record_of(tmp_path / "white")["verdict"]["word"] == "not tested"


@pytest.mark.parametrize("exponent", [-0.1, 0.6, float("nan")])
def test_an_impossible_exponent_is_refused_at_once(exponent: float, tmp_path: Path) -> None:
    with refused("impossible-exponent"):
        white("no model", "no text", tmp_path / "white", exponent=exponent)


def test_mistakes_are_one_line_and_nothing_is_written(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "white"
    with refused("too-few-sentences"):
        white(tiny_model, corpus_file, target, max_texts=3)
    model = SentenceTransformer(str(tiny_model))
    next(iter(model.parameters())).data.fill_(float("nan"))
    model.save_pretrained(str(tmp_path / "broken"))
    with refused("weights-not-finite"):
        white(tmp_path / "broken", corpus_file, target)
    assert not target.exists()
    target.mkdir()
    (target / "thesis.txt").write_text("do not lose me")
    with refused("folder-is-not-ours"):
        white(tiny_model, corpus_file, target)
    assert (target / "thesis.txt").read_text() == "do not lose me"


def test_a_few_sentences_are_enough_to_centre_and_the_comparison_gets_its_part(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    few = tmp_path / "few.txt"
    few.write_text("\n".join(corpus_file.read_text().splitlines()[:20]))
    record = record_of(white(tiny_model, few, tmp_path / "white", exponent=0.0))
    assert record["dimensions"] == {"before": 32, "after": 32, "left_out": 0}
    assert record["held_out"]["texts"] == 4


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_paths_that_are_not_utf8_or_look_like_markup(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    """The text may lie there; a model cannot, since safetensors opens no such path."""
    odd = tmp_path / os.fsdecode(b"Gr\xfc\xdfe")
    (odd / "[").mkdir(parents=True)
    text = Path(shutil.copy(corpus_file, odd / "[/x].txt"))
    shown = commanded(
        tiny_model, text, "--k", 4, "--max-texts", 100, "--output", tmp_path / "[/x]white"
    )
    assert "[/x]white" in shown
    with refused("folder-is-not-ours"):
        white(tiny_model, text, odd / "white")
    shutil.copytree(tiny_model, odd / "model")
    with refused("model-not-loadable"):
        white(odd / "model", text, tmp_path / "other")
    assert {path.name for path in odd.iterdir()} == {"[", "model"}


def test_what_is_read_of_the_text_is_said_and_sentences_are_read_whole(
    tiny_model: Path, tmp_path: Path
) -> None:
    read = sentences(600)
    corpus = tmp_path / "paragraphs.txt"
    corpus.write_text(
        "".join(". ".join(read[i : i + 12]).replace(". ", "x. ") + ".\n" for i in range(0, 600, 12))
    )
    warned = "warning: much of the text is cut off: add --split sentences"
    for split, count in ((None, "50 kept"), ("sentences", "600 sentences, 600 kept")):
        out = io.StringIO()
        white(
            tiny_model,
            corpus,
            tmp_path / count,
            split=split,
            compare=False,
            console=plain_console(file=out),
        )
        assert count in out.getvalue()
        assert (warned in out.getvalue()) is (split is None)
