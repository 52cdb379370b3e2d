"""Options lie over the study's own settings, and what is left out is as its file says."""

from pathlib import Path
from typing import Any

import pytest

from isotrope.errors import UserError
from isotrope.study.study import Options, with_options

FILE = """
title = "t"
[run]
corpus = "theirs.txt"
backbone = "isotrope/tiny"
sentences = 500
seeds = 4
threads = 2
dev = ["none"]
test = "none"
[rows.SimCSE]
"""


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(FILE)
    return path


def test_what_is_left_out_is_as_the_file_says(file: Path, tmp_path: Path) -> None:
    plain, _ = with_options(file, {"output": tmp_path})
    run = plain.run
    assert (list(run.corpus), run.backbone, run.sentences, run.seeds, run.threads) == (
        ["theirs.txt"], "isotrope/tiny", 500, 4, 2,
    )  # fmt: skip
    nothing: Options = {"output": tmp_path, "documents": [], "model": None, "sentences": None, "dev": ()}
    assert with_options(file, nothing)[0] == plain


@pytest.mark.parametrize(
    ("option", "key", "value"),
    [
        ("documents", "corpus", ("mine.txt", "more.txt")),
        ("model", "backbone", "isotrope/minilm"),
        ("sentences", "sentences", 64),
        ("dev", "dev", ("stsb",)),
        ("threads", "threads", 1),
    ],
)
def test_an_option_replaces_its_setting_alone(file: Path, tmp_path: Path, option: str, key: str, value: Any) -> None:
    plain, _ = with_options(file, {"output": tmp_path})
    spec, _ = with_options(file, {"output": tmp_path, option: value})  # type: ignore[misc]
    assert getattr(spec.run, key) == value
    assert spec.run.model_copy(update={key: getattr(plain.run, key)}) == plain.run


def test_the_place_is_where_input_and_output_lie(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, place = with_options(file, {"output": str(tmp_path)})
    assert (place.output, place.data, place.forced) == (tmp_path, None, ())
    _, place = with_options(file, {"output": tmp_path, "overrides": ["train.epochs=2"]})
    assert place.forced == ("train.epochs=2",)
    monkeypatch.setenv("ISOTROPE_DATA", "theirs")
    assert with_options(file, {"output": tmp_path})[1].data == "theirs"
    assert with_options(file, {"output": tmp_path, "data": Path("mine")})[1].data == "mine"


def test_a_mistake_is_one_line(file: Path, tmp_path: Path) -> None:
    for options, message in (({"sentences": -1}, "sentences"), ({"threads": 0}, "threads")):
        with pytest.raises(UserError, match=message):
            with_options(file, {"output": tmp_path, **options})  # type: ignore[typeddict-item]
    with pytest.raises(UserError, match="does not exist"):
        with_options(tmp_path / "none.toml", {"output": tmp_path})
