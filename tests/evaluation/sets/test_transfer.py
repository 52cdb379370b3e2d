"""The transfer tasks as they lie on disk; each mistake is named."""

import shutil

import pytest

from isotrope.errors import UserError
from isotrope.evaluation import suite
from isotrope.evaluation.sets.transfer import CLASSES, TRANSFER_TASKS, load_transfer
from oracle.similarity import DATA, HashEncoder, needs_data


@needs_data
def test_counts_and_classes():
    counts = {"MR": [10662], "CR": [3775], "SUBJ": [10000], "MPQA": [10606], "SST2": [67349, 872, 1821]}
    counts |= {"SST5": [8544, 1101, 2210], "TREC": [5452, 500], "MRPC": [4076, 1725]}
    for task in TRANSFER_TASKS:
        parts = load_transfer(DATA, task)
        assert [len(part) for part in parts.values()] == counts[task]
        for part in parts.values():
            assert len(part.labels) == len(part.first) == len(part.second or part.first)
            assert set(part.labels) == set(range(CLASSES[task]))
            assert all(" ".join(s.split()) == s for s in part.first)


@needs_data
def test_text_is_as_in_the_files():
    trec = load_transfer(DATA, "TREC")["train"]
    assert (trec.first[0], trec.labels[0]) == ("How did serfdom develop in and then leave Russia ?", 1)
    assert sum(not sentence.isascii() for sentence in trec.first) == 1  # latin-1
    mrpc = load_transfer(DATA, "MRPC")["train"]
    assert mrpc.first[0].startswith("Amrozi accused his brother")
    assert mrpc.second[0].startswith("Referring to him as only")
    assert mrpc.labels[0] == 1
    cr = load_transfer(DATA, "CR")["all"]
    assert cr.first.count("") == 4  # blank lines count
    assert (cr.labels[0], cr.labels[-1]) == (1, 0)
    sst = load_transfer(DATA, "SST5")["dev"]
    assert sst.first[1] == "one long string of cliches ."
    assert sst.labels[1] == 1


DAMAGE = [
    ("SUBJ", "subj.subjective", lambda t: b"".join(t.splitlines(True)[:20]), "20 .* 5000 expected"),
    ("SUBJ", "subj.subjective", lambda t: b"".join(t.splitlines(True)[:20] * 250), "repeated: a corrupt SUBJ"),
    ("MR", "rt-polarity.neg", None, "rt-polarity.neg does not exist"),
    ("TREC", "train_5500.label", lambda t: t.replace(b"DESC:manner", b"DESK:manner", 1), "damaged"),
    ("MRPC", "msr_paraphrase_train.txt", lambda t: t.replace(b"1\t702876", b"2\t702876", 1), "damaged"),
    ("MRPC", "msr_paraphrase_test.txt", lambda t: t.replace(b"PCCW", b"\xe9", 1), "damaged .*utf-8"),
    ("SST5", "fine/sentiment-dev", lambda t: b"7" + t[1:], "damaged"),
]


@needs_data
@pytest.mark.parametrize(("task", "file", "damage", "words"), DAMAGE)
def test_bad_data_is_named_in_one_line(tmp_path, task, file, damage, words):
    folder = {"SST5": "SST"}.get(task, task)
    copied = tmp_path / "downstream" / folder
    shutil.copytree(DATA / "senteval/downstream" / folder, copied, copy_function=shutil.copyfile)
    path = copied / file
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    encoder = HashEncoder()
    with pytest.raises(UserError, match=words) as caught:
        suite.run(encoder, "transfer", tmp_path, tasks=[task], setting="fast")
    assert "\n" not in str(caught.value)
    assert not encoder.calls  # before long work
