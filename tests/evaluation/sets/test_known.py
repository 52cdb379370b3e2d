"""SentEval's sets as they lie on disk: what they hold, each mistake named, and the checksum of their folder."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.sets.known import data_checksum
from isotrope.evaluation.sets.senteval import CLASSES, STS_TASKS, SUBSETS, TRANSFER_TASKS, load_sts, load_transfer
from isotrope.evaluation.suite import SUITES
from oracle.similarity import DATA, HashEncoder, needs_data


@needs_data
def test_counts_and_default_splits_of_sts() -> None:
    totals = {task: {part: len(p) for part, p in load_sts(DATA, task).items()} for task in STS_TASKS}
    assert [sum(totals[task].values()) for task in SUBSETS] == [3108, 1500, 3750, 3000, 1186]
    assert totals["STSBenchmark"] == {"dev": 1500, "test": 1379}
    assert totals["SICKRelatedness"] == {"dev": 500, "test": 4927}
    assert load_sts(DATA / "senteval", "STS13").keys() == load_sts(DATA / "senteval/downstream", "STS13").keys()


@needs_data
def test_counts_and_classes_of_the_transfer_tasks() -> None:
    counts = {"MR": [10662], "CR": [3775], "SUBJ": [10000], "MPQA": [10606], "SST2": [67349, 872, 1821]}
    counts |= {"SST5": [8544, 1101, 2210], "TREC": [5452, 500], "MRPC": [4076, 1725]}
    for task in TRANSFER_TASKS:
        parts = load_transfer(DATA, task)
        assert [len(part.labels) for part in parts.values()] == counts[task]
        for part in parts.values():
            assert len(part.labels) == len(part.first) == len(part.second or part.first)
            assert set(part.labels) == set(range(CLASSES[task]))
            assert all(" ".join(s.split()) == s for s in part.first)


@needs_data
def test_text_is_as_in_the_files() -> None:
    sick = load_sts(DATA, "SICKRelatedness", ("dev",))["dev"]
    assert sick.first[0] == "The young boys are playing outdoors and the man is smiling nearby"
    assert sick.gold[0] == 3.6
    trec = load_transfer(DATA, "TREC")["train"]
    assert (trec.first[0], trec.labels[0]) == ("How did serfdom develop in and then leave Russia ?", 1)
    assert sum(not sentence.isascii() for sentence in trec.first) == 1  # latin-1
    mrpc = load_transfer(DATA, "MRPC")["train"]
    assert mrpc.second is not None
    assert mrpc.first[0].startswith("Amrozi accused his brother")
    assert mrpc.second[0].startswith("Referring to him as only")
    assert mrpc.labels[0] == 1
    cr = load_transfer(DATA, "CR")["all"]
    assert cr.first.count("") == 4  # blank lines count
    assert (cr.labels[0], cr.labels[-1]) == (1, 0)
    sst = load_transfer(DATA, "SST5")["dev"]
    assert (sst.first[1], sst.labels[1]) == ("one long string of cliches .", 1)


GOLD, INPUT = (f"STS/STS12-en-test/STS.{kind}.MSRpar.txt" for kind in ("gs", "input"))
PARAPHRASES = "MRPC/msr_paraphrase_{}.txt"
DAMAGE: list[tuple[str, str, Callable[[bytes], bytes] | None, str]] = [
    ("STS12", GOLD, None, "STS.gs.MSRpar.txt does not exist"),
    ("STS12", GOLD, lambda t: t[t.index(b"\n") :], "749 rows found, 750 expected"),
    ("STS12", GOLD, lambda t: b"x" + t, "damaged .*'x"),
    ("STS12", INPUT, lambda t: b"no tab" + t[t.index(b"\n") :], "damaged"),
    ("STSBenchmark", "STS/STSBenchmark/sts-dev.csv", lambda t: t[t.index(b"\n") + 1 :], "1499 .* 1500 expected"),
    ("SICKRelatedness", "SICK/SICK_trial.txt", lambda t: t.decode().encode("utf-16"), "damaged .*utf-8"),
    ("SUBJ", "SUBJ/subj.subjective", lambda t: b"".join(t.splitlines(True)[:20]), "20 .* 5000 expected"),
    ("SUBJ", "SUBJ/subj.subjective", lambda t: b"".join(t.splitlines(True)[:20] * 250), "repeated: a corrupt SUBJ"),
    ("MR", "MR/rt-polarity.neg", None, "rt-polarity.neg does not exist"),
    ("TREC", "TREC/train_5500.label", lambda t: t.replace(b"DESC:manner", b"DESK:manner", 1), "damaged"),
    ("MRPC", PARAPHRASES.format("train"), lambda t: t.replace(b"1\t702876", b"2\t702876", 1), "damaged"),
    ("MRPC", PARAPHRASES.format("train"), lambda t: t.replace(b"1\t702876", b"1\t0\t702876", 1), "not 5 columns"),
    ("MRPC", PARAPHRASES.format("test"), lambda t: t.replace(b"PCCW", b"\xe9", 1), "damaged .*utf-8"),
    ("SST5", "SST/fine/sentiment-dev", lambda t: b"7" + t[1:], "damaged"),
]


@needs_data
@pytest.mark.parametrize(("task", "file", "damage", "words"), DAMAGE)
def test_bad_data_is_named_in_one_line_before_long_work(
    tmp_path: Path, task: str, file: str, damage: Callable[[bytes], bytes] | None, words: str
) -> None:
    folder = {"SST5": "SST", "SICKRelatedness": "SICK"}.get(task, str(Path(file).parent))
    path = tmp_path / "downstream" / file
    shutil.copytree(DATA / "senteval/downstream" / folder, tmp_path / "downstream" / folder, copy_function=shutil.copy)
    path.chmod(0o644)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    encoder = HashEncoder()
    with pytest.raises(UserError, match=words) as caught:
        suite.run(encoder, "sts" if task in STS_TASKS else "transfer", tmp_path, tasks=[task])
    assert path.name in str(caught.value)
    assert "ISOTROPE_DATA" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not encoder.calls


def test_missing_folders_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="does not exist"):
        load_sts(tmp_path / "nowhere", "STS12")
    monkeypatch.delenv("ISOTROPE_DATA", raising=False)
    with pytest.raises(UserError, match="no data folder given"):
        load_sts(None, "STS12")
    monkeypatch.setenv("ISOTROPE_DATA", str(tmp_path))
    for given in (None, tmp_path):
        with pytest.raises(UserError, match=r"senteval/downstream/STS/.* does not exist: check the download"):
            load_sts(given, "STS12")


@pytest.mark.parametrize("given", ["", "senteval", "senteval/downstream"])
def test_the_checksum_sees_bytes_and_names_from_wherever_the_data_are_named(tmp_path: Path, given: str) -> None:
    """The data folder may be SentEval's own, or what lies in it. It may hold much else, which is not read."""
    folder = tmp_path / "senteval" / "downstream" / "STS"
    folder.mkdir(parents=True)
    for name in ("sts", "transfer", "ranking", "geometry"):
        seen = []
        for file, content in (("scores", "1"), ("scores", "2"), ("gold", "2")):
            for old in folder.iterdir():
                old.unlink()
            (folder / file).write_text(content)
            seen.append(data_checksum(tmp_path / given, SUITES[name].folders))
        (tmp_path / "mine").write_text(name)
        assert len(set(seen)) == 3
        assert data_checksum(tmp_path / given, SUITES[name].folders) == seen[-1]
