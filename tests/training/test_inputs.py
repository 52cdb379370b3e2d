"""What decides a result is compared when a run is resumed, and also when it is finished."""

from __future__ import annotations

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from conftest import sentences
from isotrope.errors import UserError
from isotrope.training.folder import RunFolder
from isotrope.training.inputs import refuse_other_run
from isotrope.training.train import Run
from small_runs import small_run, unfinished


def test_pairs_that_were_changed_since_do_not_resume_a_run(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = shutil.copytree(finished.folder, tmp_path / "run")
    (begun / "result.json").unlink()
    changed = tmp_path / pairs_file.name
    changed.write_text(pairs_file.read_text().replace("\t", " or so\t", 1))
    with pytest.raises(UserError, match=r"the (dev|test) pairs pairs"):
        small_run(tiny_model, corpus_file, begun, dev=str(changed), resume=True)


def test_a_prompt_is_part_of_the_identity_and_of_the_model(
    prompted_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    options = {"dev": "none", "test": "none", "sentences": 32}
    run = small_run(prompted_model, corpus_file, tmp_path / "run", prompt_name="query", **options)
    saved = SentenceTransformer(str(run.model), device="cpu")
    assert (saved.prompts["passage"], saved.default_prompt_name) == ("a short book on ", "query")
    for other, now in (({}, "None"), ({"prompt": "song of "}, "None"), ({"prompt_name": "passage"}, "'passage'")):
        with pytest.raises(UserError, match=rf"encoder.prompt.* = {now} \(then 'query'"):
            small_run(prompted_model, corpus_file, run.folder, resume=True, **options, **other)


def test_the_space_at_a_prompts_end_counts(prompted_model: Path, tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    rows = zip(sentences(40), sentences(40, seed=1), strict=True)
    table.write_text("q\tp\n" + "".join(f"{one}\t{two}\n" for one, two in rows))
    run = small_run(
        prompted_model, table, tmp_path / "run", dev="none", test="none", sentences=32, text="q", positive="p",
        prompt_name="query", positive_prompt="red: ",
    )  # fmt: skip
    identity = json.loads((run.folder / "run.json").read_text())["preset"]
    assert (identity["encoder.prompt_name"], identity["encoder.positive_prompt"]) == ("query", "red: ")


def test_kept_duplicates_are_another_run_also_in_its_steps_and_card(tiny_model: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "text.txt"
    corpus.write_text("\n".join(2 * sentences(32)))
    options = {"sentences": None, "dev": "none", "test": "none"}
    run = small_run(tiny_model, corpus, tmp_path / "run", keep_duplicates=True, **options)
    assert run.result["selection"]["steps"] == 4  # 64 rows, 16 a batch
    assert "| `keep_duplicates` | `true` | set for this run |" in (run.model / "README.md").read_text()
    with pytest.raises(UserError, match=r"other settings: the contents of the corpus, .* or its duplicates"):
        small_run(tiny_model, corpus, run.folder, resume=True, **options)
    assert small_run(tiny_model, corpus, run.folder, resume=True, keep_duplicates=True, **options).result == run.result


def test_another_dev_set_is_another_run(tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path) -> None:
    run = small_run(tiny_model, corpus_file, tmp_path / "run", dev=str(pairs_file), sentences=64)
    (run.folder / "result.json").unlink()
    with pytest.raises(UserError, match="the dev pairs pairs"):
        small_run(tiny_model, corpus_file, run.folder, dev="none", test="none", sentences=64, resume=True)


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("what", ["corpus", "dev", "test", "backbone", "processes", "sentences"])
def test_what_decides_the_result_is_compared_first_also_for_a_finished_run(
    finished: Run, what: str, done: bool, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Before any text is cleaned or a model is loaded."""
    begun = shutil.copytree(finished.folder, tmp_path / "run") if done else unfinished(finished, tmp_path / "run")
    model, corpus = tiny_model, corpus_file
    options: dict[str, object] = {"dev": str(pairs_file)}
    if what == "corpus":
        corpus = tmp_path / corpus_file.name
        corpus.write_text(corpus_file.read_text() + "one more sentence\n")
    elif what == "dev":
        changed = tmp_path / pairs_file.name
        changed.write_text(pairs_file.read_text().replace("\t", " or so\t"))
        options = {"dev": str(changed)}
    elif what == "test":
        options["test"] = "none"
    elif what == "backbone":
        model = shutil.copytree(tiny_model, tmp_path / "tiny")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-3}))
    elif what == "sentences":
        options["sentences"] = 304
    else:
        for name in ("LOCAL_RANK", "RANK"):
            monkeypatch.setenv(name, "0")
        for name in ("WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            monkeypatch.setenv(name, "2")
    for name in ("open_text", "load"):
        monkeypatch.setattr(f"isotrope.training.prepare.{name}", lambda *_, **__: pytest.fail("it has begun to work"))
    expected = {"corpus": "the contents of the corpus", "backbone": "the files of the backbone", "dev": "the dev pairs"}
    expected |= {"test": "the test pairs", "processes": "processes = 2 .then 1.", "sentences": "sentences = 304"}
    with pytest.raises(UserError, match=f"other settings: .*{expected[what]}"):
        small_run(model, corpus, begun, resume=True, **options)


def test_the_same_files_in_another_place_are_the_same_run(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    model = shutil.copytree(tiny_model, tmp_path / "tiny")
    corpus, dev = shutil.copy(corpus_file, tmp_path / "c.txt"), shutil.copy(pairs_file, tmp_path / pairs_file.name)
    again = small_run(model, Path(corpus), finished.folder, dev=str(dev), resume=True)
    assert again.result == finished.result


def test_a_changed_setting_is_named(finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path) -> None:
    with pytest.raises(UserError, match=r"train.warmup = 0.5 .then 0.0.: resume with those"):
        small_run(tiny_model, corpus_file, finished.folder, "train.warmup=0.5", dev=str(pairs_file), resume=True)


def test_output_within_the_corpus_is_refused(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    """Its files would be read as text when the run is resumed."""
    texts = tmp_path / "texts"
    texts.mkdir()
    shutil.copy(corpus_file, texts / "a.txt")
    with pytest.raises(UserError, match="lies in the corpus folder"):
        small_run(tiny_model, texts, texts / "run")
    assert [path.name for path in texts.iterdir()] == ["a.txt"]


def test_empty_paths_are_named_and_do_not_mean_the_present_folder(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="a corpus path is empty"):
        small_run(tiny_model, "", tmp_path / "run")
    with pytest.raises(UserError, match="the output is empty"):
        small_run(tiny_model, corpus_file, "")
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_settings_are_lost_is_not_gone_on_with(
    finished: Run, tiny_model: Path, corpus_file: Path, pairs_file: Path, tmp_path: Path
) -> None:
    begun = shutil.copytree(finished.folder, tmp_path / "run")
    (begun / "run.json").unlink()
    with pytest.raises(UserError, match="is missing: choose another --output"):
        small_run(tiny_model, corpus_file, begun, dev=str(pairs_file), resume=True)


@pytest.mark.parametrize(
    ("setting", "refused"),
    [
        ({}, False), ({"train.batch_size": 8}, True), ({"encoder.dropout": 0.1}, True),
        ({"tokens.shuffle.on": [1]}, True), ({"loss": "a:B"}, True),
    ],
)  # fmt: skip
def test_another_number_of_processes_goes_on_where_none_draws_anything_of_its_own(
    setting: dict[str, object], refused: bool, tmp_path: Path
) -> None:
    """As many sentences a step, and no dropout, token step or outside loss."""
    preset = {"encoder.dropout": 0.0, "train.batch_size": 16, "train.epochs": 1.0} | setting
    then = {"preset": preset | ({} if "train.batch_size" in setting else {"train.batch_size": 8}), "processes": 2}
    (tmp_path / "run.json").write_text(json.dumps(then))
    with pytest.raises(UserError, match=r"processes = 1 \(then 2\)") if refused else nullcontext():
        refuse_other_run(RunFolder(tmp_path), {"preset": preset, "processes": 1}, resume=True)
