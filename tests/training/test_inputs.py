"""What decides a result is compared when a run goes on, and also when it is finished; what has no effect is refused."""

import json
import shutil
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

import isotrope.text
from conftest import sentences
from isotrope.errors import UserError
from isotrope.training.inputs import RunSettings, read_inputs
from isotrope.training.train import Run
from small_runs import small_run


@pytest.mark.parametrize("what", ["documents", "dev", "labels", "model", "processes", "sentences", "warmup", "seed"])
def test_what_decides_the_result_is_compared_first_also_for_a_finished_run(
    finished: Run, what: str, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Before a model is loaded."""
    model, corpus, overrides = tiny_model, corpus_file, []
    options: dict[str, object] = {"dev": str(pairs_file)}
    if what == "documents":
        corpus = tmp_path / corpus_file.name
        corpus.write_text(corpus_file.read_text() + "one more sentence\n")
    elif what == "dev":
        changed = tmp_path / pairs_file.name
        changed.write_text(pairs_file.read_text().replace("\t", " or so\t"))
        options = {"dev": str(changed)}
    elif what == "labels":
        options["labels"] = "none"
    elif what == "model":
        model = shutil.copytree(tiny_model, tmp_path / "tiny")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-3}))
    elif what in ("sentences", "seed"):
        options[what] = 304
    elif what == "warmup":
        overrides = ["train.warmup=0.5"]
    else:
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr("isotrope.training.prepare.load", lambda *_, **__: pytest.fail("it has begun to work"))
    expected = {
        "documents": "other documents", "model": "another model", "dev": "other dev: pairs",
        "labels": "other labels: pairs/test", "processes": "processes = 1, not 2", "seed": "seed = 0, not 304",
        "sentences": "sentences = 320, not 304", "warmup": "preset: train.warmup = 0.0, not 0.5",
    }  # fmt: skip
    with pytest.raises(UserError, match=f"was begun with .*{expected[what]}"):
        small_run(model, corpus, finished.folder, *overrides, **options)


def test_the_same_files_in_another_place_are_the_same_run(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "tiny")
    corpus, dev = shutil.copy(corpus_file, tmp_path / "c.txt"), shutil.copy(pairs_file, tmp_path / pairs_file.name)
    assert small_run(model, Path(corpus), finished.folder, dev=str(dev)).record == finished.record


def test_a_prompt_is_part_of_the_identity_and_of_the_model(prompted_model: Path, tmp_path: Path) -> None:
    """Also the space at its end."""
    table, options = tmp_path / "pairs.tsv", {"dev": "none", "labels": "none", "sentences": 32}
    rows = zip(sentences(40), sentences(40, seed=1), strict=True)
    table.write_text("q\tp\n" + "".join(f"{one}\t{two}\n" for one, two in rows))
    options |= {"text": "q", "positive": "p", "positive_prompt": "red: "}
    run = small_run(prompted_model, table, tmp_path / "run", prompt_name="query", **options)
    saved = SentenceTransformer(str(run.folder / "model"), device="cpu")
    assert (saved.prompts["passage"], saved.default_prompt_name) == ("a short book on ", "query")
    identity = json.loads((run.folder / "job.json").read_text())["preset"]
    assert (identity["encoder.prompt_name"], identity["encoder.positive_prompt"]) == ("query", "red: ")
    for other in ({}, {"prompt": "song of "}, {"prompt_name": "passage"}):
        with pytest.raises(UserError, match=r"was begun with .*encoder.prompt"):
            small_run(prompted_model, table, run.folder, **options, **other)


def test_output_within_the_text_is_refused(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """Its files would be read as text when the run goes on."""
    texts = tmp_path / "texts"
    texts.mkdir()
    shutil.copy(corpus_file, texts / "a.txt")
    with pytest.raises(UserError, match="lies in"):
        small_run(tiny_model, texts, texts / "run")
    assert [path.name for path in texts.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("more", "same"),
    [
        ([], True), (["train.batch_size=32"], False), (["encoder.dropout=0.1"], False), (["tokens.shuffle={}"], False)
    ],
)  # fmt: skip
def test_another_number_of_processes_is_the_same_run_if_none_draws_anything_of_its_own(
    more: list[str], same: bool, tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many sentences a step, and no dropout or token step."""

    def identity(batch: int, *overrides: str) -> object:
        return read_inputs(
            RunSettings(
                corpus=isotrope.text.open(corpus_file), model=str(tiny_model), dev="none", labels="none",
                overrides=(f"train.batch_size={batch}", "encoder.dropout=0", "views.mlp=false", *overrides),
            )
        ).identity  # fmt: skip

    one = identity(16, *more)
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert (one == identity(8, *more)) is same


@pytest.mark.parametrize(
    ("preset", "given", "problem"),
    [
        ("crops", {"positive": "p"}, "positive has no effect with the preset crops, which draws its pairs from whole"),
        ("crops", {"split": "sentences"}, "split has no effect with the preset crops"),
        ("crops", {"keep_duplicates": True}, "keep_duplicates has no effect with the preset crops"),
        ("simcse", {"held_out": 5}, "held_out has no effect with the preset simcse, which reads texts, not documents"),
        ("simcse", {"title": "t"}, "title has no effect with the preset simcse"),
        (
            "simcse",
            {"positive_prompt": "p"},
            "positive_prompt has no effect .* positives only from a column",
        ),
        ("rankcse-listnet", {}, "is a preset, which is not trained yet: add --train-teachers"),
        ("simcse", {"teachers": {"guide": ["m"]}}, "--teacher guide: the preset simcse has no such teacher"),
        (
            "simcse",
            {"model": "rankcse-listnet"},
            "is a preset, .*: train it, then add --model",
        ),
        ("simcse", {"prompt_name": "query"}, "has no prompt called 'query': it has none"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(
    preset: str, given: dict[str, object], problem: str, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=problem):
        small_run(given.pop("model", tiny_model), corpus_file, tmp_path / "run", preset=preset, dev="none", **given)
    assert not (tmp_path / "run").exists()
