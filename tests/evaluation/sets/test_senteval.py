"""The STS sets as they lie on disk; each mistake is named."""

import shutil

import pytest

from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.sets.senteval import STS_TASKS, SUBSETS, load_sts
from oracle.similarity import DATA, HashEncoder, needs_data, needs_raw


@needs_data
def test_counts_and_default_splits():
    totals = {task: {part: len(p) for part, p in load_sts(DATA, task).items()} for task in STS_TASKS}
    assert [sum(totals[task].values()) for task in SUBSETS] == [3108, 1500, 3750, 3000, 1186]
    assert totals["STSBenchmark"] == {"dev": 1500, "test": 1379}
    assert totals["SICKRelatedness"] == {"dev": 500, "test": 4927}
    assert load_sts(DATA / "senteval", "STS13").keys() == load_sts(DATA / "senteval/downstream", "STS13").keys()


@needs_data
def test_text_is_as_in_the_file():
    pairs = load_sts(DATA, "SICKRelatedness", ("dev",))["dev"]
    assert pairs.first[0] == "The young boys are playing outdoors and the man is smiling nearby"
    assert pairs.gold[0] == 3.6


@pytest.fixture
def copied(tmp_path):
    """A data folder of our own with STS12, STS-B and SICK, to be damaged."""
    for folder in ("STS/STS12-en-test", "STS/STSBenchmark", "SICK"):
        shutil.copytree(
            DATA / "senteval/downstream" / folder, tmp_path / "downstream" / folder, copy_function=shutil.copyfile
        )
    return tmp_path


@needs_data
@pytest.mark.parametrize(
    ("task", "file", "damage", "words"),
    [
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", None, "STS.gs.MSRpar.txt does not exist"),
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", lambda t: t[t.index("\n") :], "749 rows found, 750 expected"),
        ("STS12", "STS/STS12-en-test/STS.gs.MSRpar.txt", lambda t: "x" + t, "damaged .*'x"),
        ("STS12", "STS/STS12-en-test/STS.input.MSRpar.txt", lambda t: "no tab" + t[t.index("\n") :], "damaged"),
        ("STSBenchmark", "STS/STSBenchmark/sts-dev.csv", lambda t: t[t.index("\n") + 1 :], "1499 .* 1500 expected"),
        ("SICKRelatedness", "SICK/SICK_trial.txt", lambda t: t.encode("utf-16"), "damaged .*utf-8"),
    ],
)
def test_bad_data_is_named_in_one_line(copied, task, file, damage, words):
    path = copied / "downstream" / file
    if damage is None:
        path.unlink()
    else:
        damaged = damage(path.read_text(encoding="utf-8"))
        path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    with pytest.raises(UserError, match=words) as caught:
        suite.run(HashEncoder(), "sts", copied, tasks=[task])
    assert path.name in str(caught.value)
    assert "ISOTROPE_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_folders_are_named(tmp_path, monkeypatch):
    with pytest.raises(UserError, match="does not exist"):
        load_sts(tmp_path / "nowhere", "STS12")
    with pytest.raises(UserError, match="neither senteval/downstream nor downstream"):
        load_sts(tmp_path, "STS12")
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    with pytest.raises(UserError, match="no data folder given"):
        load_sts(None, "STS12")
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    with pytest.raises(UserError, match="neither"):
        load_sts(None, "STS12")


@needs_raw
def test_the_raw_files_are_found_where_senteval_s_are_not(tmp_path):
    for name in ("sts-raw", "stsb-raw", "sick-raw"):
        (tmp_path / name).symlink_to(DATA / name)
    for task in ("STS16", "STSBenchmark", "SICKRelatedness"):
        found, raw = load_sts(tmp_path, task), load_sts(DATA, task, layout="raw")
        assert all(found[part].first == raw[part].first for part in raw)
        assert any(found[part].first != pairs.first for part, pairs in load_sts(DATA, task).items())
