"""`isotrope whiten`: the saved model is the fitted baseline, in plain sentence-transformers."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from typer.testing import CliRunner

from isotrope import load
from isotrope.cli.main import app
from isotrope.errors import UserError
from isotrope.post.whiten import whiten
from isotrope.post.whitening import Whitening
from isotrope.text.corpus import open_corpus
from isotrope.text.sample import Sample

TEXTS = ["A man is eating.", "Two dogs run through the snow.", "It rains.", "A man is eating food, and it rains."]


@pytest.mark.parametrize(("k", "pooling"), [(None, "mean"), (7, "cls")])
def test_the_saved_model_is_the_fitted_baseline(
    k: int | None, pooling: str, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    whiten(tiny_model, corpus_file, tmp_path / "white", k=k, sentences=300, pooling=pooling)
    corpus = open_corpus(corpus_file, cache=tmp_path / "cache")
    fitted = Whitening(k=k).behind(load(tiny_model, pooling)).fit(Sample(corpus, None, 0).texts(300))
    expected = fitted.encode(TEXTS)
    for opened in (SentenceTransformer(str(tmp_path / "white"), device="cpu"), load(tmp_path / "white")):
        np.testing.assert_allclose(opened.encode(TEXTS), expected, atol=2e-3, rtol=1e-3)


def test_the_fit_sees_the_prompt_and_the_new_model_keeps_it(
    prompted_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    whiten(prompted_model, corpus_file, tmp_path / "white", k=4, sentences=300, prompt_name="query")
    texts = Sample(open_corpus(corpus_file, cache=tmp_path / "cache"), None, 0).texts(300)
    found = SentenceTransformer(str(tmp_path / "white"), device="cpu").encode(texts)
    np.testing.assert_allclose(found.mean(axis=0), 0, atol=2e-3)
    np.testing.assert_allclose(np.cov(found.T.astype(np.float64), bias=True), np.eye(4), atol=1e-2)


def test_the_sentences_that_it_was_fitted_on_come_out_white(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    # k: a random model's last directions have a millionth of the first one's spread, which is rounding in float32
    model = load(whiten(tiny_model, corpus_file, tmp_path / "white", k=8, sentences=300, pooling="cls"))
    texts = Sample(open_corpus(corpus_file, cache=tmp_path / "cache"), None, 0).texts(300)
    covariance = np.cov(np.asarray(model.encode(texts), dtype=np.float64).T, bias=True)
    np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-2)


def test_a_folder_that_holds_something_is_kept(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("do not lose me")
    with pytest.raises(UserError, match="holds something already"):
        whiten(tiny_model, corpus_file, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "do not lose me"


def test_too_few_sentences_are_one_line_and_leave_no_folder(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    target = tmp_path / "white"
    with pytest.raises(UserError, match="3 sentences cannot whiten"):
        whiten(tiny_model, corpus_file, target, sentences=3)
    assert not target.exists()


def test_the_command_names_the_model_and_what_to_do_next(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "white"
    result = CliRunner().invoke(
        app, ["whiten", str(tiny_model), str(corpus_file), "--output", str(target), "--sentences", "300", "--k", "5"]
    )
    assert result.exit_code == 0, result.output
    assert load(target).get_embedding_dimension() == 5
    assert "isotrope evaluate" in result.output


def test_what_lies_beside_the_output_is_kept(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """`whiten` deleted a folder of the name OUTPUT.part."""
    (tmp_path / "white.part").mkdir()
    (tmp_path / "white.part" / "thesis.txt").write_text("do not lose me")
    whiten(tiny_model, corpus_file, tmp_path / "white", k=4, sentences=100)
    assert (tmp_path / "white.part" / "thesis.txt").read_text() == "do not lose me"
    assert {path.name for path in tmp_path.iterdir()} == {"white", "white.part"}


def test_places_that_cannot_be_taken_are_refused_at_once(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the corpus is opened: there is none."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    monkeypatch.chdir(tmp_path / "empty")
    for name, problem in ((".", "current folder"), ("../file", "is a file"), ("../link", "symbolic link")):
        with pytest.raises(UserError, match=problem):
            whiten(tiny_model, "no such corpus", name)
    assert not any((tmp_path / "empty").iterdir())


def test_a_model_with_broken_weights_is_refused_and_nothing_is_written(
    tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    model = SentenceTransformer(str(tiny_model))
    next(iter(model.parameters())).data.fill_(float("nan"))
    model.save_pretrained(str(tmp_path / "broken"))
    with pytest.raises(UserError, match="are finite numbers"):
        whiten(tmp_path / "broken", corpus_file, tmp_path / "white")
    assert not (tmp_path / "white").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_paths_that_are_not_utf8_or_look_like_markup(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """The text may lie there; a model cannot, since safetensors opens no such path."""
    odd = tmp_path / os.fsdecode(b"Gr\xfc\xdfe")
    (odd / "[").mkdir(parents=True)
    text = Path(shutil.copy(corpus_file, odd / "[/x].txt"))
    command = ["whiten", str(tiny_model), str(text), "--k", "4", "--sentences", "100", "--output"]
    result = CliRunner().invoke(app, [*command, str(tmp_path / "[/x]white")])
    assert result.exit_code == 0, result.output
    assert "[/x]white" in result.output
    with pytest.raises(UserError, match=r"Gr\\udcfc\\udcdfe/white is not a path in UTF-8"):
        whiten(tiny_model, text, odd / "white")
    shutil.copytree(tiny_model, odd / "model")
    with pytest.raises(UserError, match="model is not a path in UTF-8"):
        whiten(odd / "model", text, tmp_path / "other")
    assert {path.name for path in odd.iterdir()} == {"[", "model"}
