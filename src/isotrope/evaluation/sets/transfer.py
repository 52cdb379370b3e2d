"""SentEval's eight transfer tasks from its folder: MR, CR, SUBJ, MPQA, SST2, SST5, TREC and MRPC.

The files are read as SentEval reads them. CR, MR, SUBJ, MPQA and TREC are latin-1. SST and MRPC are UTF-8, and MRPC
begins with a byte-order mark. A sentence is split at white space and joined by one space. A blank line of CR or MPQA is
a sample. Every row count is checked: any encoder gets 99 % on a corrupt SUBJ that has only 20 subjective sentences.

Sources: MR (Pang and Lee, 2005), CR (Hu and Liu, 2004), SUBJ (Pang and Lee, 2004), MPQA (Wiebe et al., 2005), SST
(Socher et al., 2013), TREC (Li and Roth, 2002), MRPC (Dolan et al., 2004), all as in SentEval (Conneau and Kiela, 2018,
https://arxiv.org/abs/1803.05449).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from isotrope.evaluation.sets.known import counted, downloaded, downstream_folder, lines_of

TRANSFER_TASKS: tuple[str, ...] = ("MR", "CR", "SUBJ", "MPQA", "SST2", "SST5", "TREC", "MRPC")
CLASSES: dict[str, int] = {"MR": 2, "CR": 2, "SUBJ": 2, "MPQA": 2, "SST2": 2, "SST5": 5, "TREC": 6, "MRPC": 2}

# Files and their rows. The first file of a two-file task has the class 1, the second the class 0, as in SentEval.
_BINARY: dict[str, dict[str, int]] = {
    "MR": {"MR/rt-polarity.pos": 5331, "MR/rt-polarity.neg": 5331},
    "CR": {"CR/custrev.pos": 2407, "CR/custrev.neg": 1368},
    "SUBJ": {"SUBJ/subj.objective": 5000, "SUBJ/subj.subjective": 5000},
    "MPQA": {"MPQA/mpqa.pos": 3312, "MPQA/mpqa.neg": 7294},
}
_SPLIT: dict[str, dict[str, tuple[str, int]]] = {
    "SST2": {
        "train": ("SST/binary/sentiment-train", 67349),
        "dev": ("SST/binary/sentiment-dev", 872),
        "test": ("SST/binary/sentiment-test", 1821),
    },
    "SST5": {
        "train": ("SST/fine/sentiment-train", 8544),
        "dev": ("SST/fine/sentiment-dev", 1101),
        "test": ("SST/fine/sentiment-test", 2210),
    },
    "TREC": {"train": ("TREC/train_5500.label", 5452), "test": ("TREC/TREC_10.label", 500)},
    "MRPC": {"train": ("MRPC/msr_paraphrase_train.txt", 4076), "test": ("MRPC/msr_paraphrase_test.txt", 1725)},
}
_TREC_CLASSES = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")

LabelledRow = tuple[str, str | None, int]  # sentence, the second one of a pair, class


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """N sentences, or sentence pairs, each with its class 0 … K − 1."""

    first: list[str]  # (N,)
    second: list[str] | None  # (N,) where the task is about pairs
    labels: npt.NDArray[np.int64]  # (N,)

    def __len__(self) -> int:
        return len(self.first)


def load_transfer(data: str | Path | None, task: str) -> dict[str, LabelledTexts]:
    """Load one transfer task: "all" for MR, CR, SUBJ, MPQA; "train", "test" for TREC, MRPC; and "dev" for SST2, SST5.

    `data` is the folder that holds `senteval/`, or that folder itself, or one that holds `downstream/`; None means the
    environment variable ISOTROPE_DATA. Rows are in the files' order, positive (or objective) ones first.

    Raises UserError for a file that is missing or not as it was published.
    """
    folder = downstream_folder(data)
    if task in _BINARY:
        return {"all": _binary(folder, task)}
    encoding, parse = _FORMATS[task]
    found = {}
    for split, (name, expected) in _SPLIT[task].items():
        with downloaded(folder / name):
            lines = lines_of(folder / name, encoding)[task == "MRPC" :]  # which has a header
            found[split] = _labelled([parse(line.strip()) for line in counted(lines, expected)])
    return found


def _binary(folder: Path, task: str) -> LabelledTexts:
    rows: list[LabelledRow] = []
    for label, (name, expected) in zip((1, 0), _BINARY[task].items(), strict=True):
        with downloaded(folder / name):
            lines = counted(lines_of(folder / name, "latin-1"), expected)
            rows += [(" ".join(line.split()), None, label) for line in lines]
            if task == "SUBJ" and len({row[0] for row in rows}) < len(rows):  # the real one repeats none
                raise ValueError("sentences are repeated: a corrupt SUBJ, of which one once circulated")
    return _labelled(rows)


def _labelled(rows: list[LabelledRow]) -> LabelledTexts:
    second = [row[1] for row in rows if row[1] is not None]
    return LabelledTexts([row[0] for row in rows], second or None, np.array([row[2] for row in rows], dtype=np.int64))


def _trec(line: str) -> LabelledRow:
    """``NUM:dist How far is it …``: coarse class, fine class, question."""
    target, _, question = line.partition(" ")
    return " ".join(question.split()), None, _TREC_CLASSES.index(target.partition(":")[0])


def _sst2(line: str) -> LabelledRow:
    """Sentence, tab, class."""
    sentence, _, label = line.partition("\t")
    return " ".join(sentence.split()), None, ("0", "1").index(label)


def _sst5(line: str) -> LabelledRow:
    """Class, space, sentence."""
    label, _, sentence = line.partition(" ")
    return " ".join(sentence.split()), None, ("0", "1", "2", "3", "4").index(label)


def _mrpc(line: str) -> LabelledRow:
    """Class, two identifiers, two sentences, between tabs."""
    label, _, _, first, second = line.split("\t")
    return " ".join(first.split()), " ".join(second.split()), ("0", "1").index(label)


_FORMATS: dict[str, tuple[str, Callable[[str], LabelledRow]]] = {
    "SST2": ("utf-8-sig", _sst2), "SST5": ("utf-8-sig", _sst5), "MRPC": ("utf-8-sig", _mrpc),
    "TREC": ("latin-1", _trec),
}  # fmt: skip
