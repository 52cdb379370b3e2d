"""A recorded cell is run again. The one in kept/ finds any change of the code that changes a study's numbers.

If such a change is meant, delete kept/study.json: the test makes it again, and fails once.
"""

import json
import shutil
from pathlib import Path

import pytest

from conftest import in_process
from isotrope.evaluation.sets.similarity import similarity_pairs
from isotrope.study import study
from isotrope.study.verify import verify
from studies import quiet

KEPT = Path(__file__).with_name("kept") / "study.json"
STUDY = """
title = "Cells that take seconds"
[run]
sentences = 128
seeds = 1
backbone = "isotrope/tiny"
test = "dev-half"
positives = true
set = ["train.batch_size=32", "train.eval_steps=2", "train.epochs=1", "train.learning_rate=1e-3"]
[rows.WhitenedCSE]
preset = "whitenedcse"
set = ["encoder.pooling=first_last", "views.sgw.groups=128"]
[rows."Before training"]
train = false
set = ["encoder.pooling=mean"]
"""


def given(folder: Path) -> tuple[Path, list[str], list[str]]:
    """The study's file, its text and its labels, of the pairs that come with isotrope."""
    pairs = similarity_pairs()
    lines = zip(pairs.first, pairs.second, pairs.gold, strict=True)
    for name, text in {
        "kept.toml": STUDY,
        "text.txt": "\n".join(pairs.first),
        "pairs.tsv": "\n".join(f"{first}\t{second}\t{gold}" for first, second, gold in lines),
    }.items():
        (folder / name).write_text(f"{text}\n", encoding="utf-8")
    return folder / "kept.toml", [str(folder / "text.txt")], [str(folder / "pairs.tsv")]


@pytest.mark.parametrize("cell", ["WhitenedCSE, seed 0", "Before training, seed 0"])
def test_a_kept_cell_gives_its_record_with_todays_code(cell: str, tmp_path: Path) -> None:
    file, text, pairs = given(tmp_path)
    if not KEPT.is_file():
        study(file, output=tmp_path / "out", documents=text, dev=pairs, console=quiet())
        shutil.copyfile(tmp_path / "out" / "study.json", KEPT)
        pytest.fail("the record was made again: commit it if its difference is meant")
    found = verify(file, cell=cell, output=KEPT.parent, documents=text, dev=pairs, console=quiet())
    assert not found.beyond, f"{found}: if that is meant, see the head of this file"


def test_a_command_says_whether_a_drawn_cell_gives_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, (text,), (pairs,) = given(tmp_path)
    command = ["study", "verify", str(file), "--output", str(tmp_path), "--documents", text, "--dev", pairs]

    def said(*more: str) -> tuple[int, str]:
        code = in_process([*command, *more], monkeypatch)
        out = capsys.readouterr()
        return code, out.out + out.err

    assert said() == (2, f"isotrope: {tmp_path / 'study.json'} is missing: name the --output of a study that has run\n")
    record = json.loads(KEPT.read_text())
    row, raw = record["rows"]
    raw["scores"]["0"]["Avg."] += 3
    (tmp_path / "study.json").write_text(json.dumps(record))
    code, text = said("--cell", "before training")
    assert code == 2
    assert "did you mean 'Before training, seed 0'?" in text
    code, text = said("--cell", "Before training, seed 0")
    assert code == 1
    assert "differs from its record by more than 0.005 points: Avg. 25.07 → 22.07" in text.replace("0.5", "0.005")
    raw["scores"]["0"]["Avg."] -= 3
    row["scores"] = {}
    record["environments"][0]["packages"]["torch"] = "1.0"
    (tmp_path / "study.json").write_text(json.dumps(record))
    code, text = said("--seed", "3")
    assert code == 0
    assert "Before training, seed 0: equal to its record within 0.5 points, at most 0.000 apart\nsince then: " in text
    assert "packages: torch = '1.0', not '" in text
    raw["scores"].clear()
    (tmp_path / "study.json").write_text(json.dumps(record))
    assert said()[0] == 2
