"""SentEval's eight transfer tasks from its folder: MR, CR, SUBJ, MPQA, SST2, SST5, TREC and MRPC.

The files are read as SentEval reads them. CR, MR, SUBJ, MPQA and TREC are latin-1. SST and MRPC are UTF-8, and MRPC
begins with a byte-order mark. A sentence is split at white space and joined by one space. A blank line of CR or MPQA is
a sample. Every row count is checked: any encoder gets 99 % on a corrupt SUBJ that has only 20 subjective sentences.

Sources: MR (Pang and Lee, 2005), CR (Hu and Liu, 2004), SUBJ (Pang and Lee, 2004), MPQA (Wiebe et al., 2005), SST
(Socher et al., 2013), TREC (Li and Roth, 2002), MRPC (Dolan et al., 2004), all as in SentEval (Conneau and Kiela, 2018,
https://arxiv.org/abs/1803.05449).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import read_text
from isotrope.evaluation.sets.senteval import downstream_folder

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
_REMEDY = "check the download, and set ISOTROPE_DATA or pass --data with the folder that holds senteval/"
_CORRUPT_SUBJ = (
    "this is a corrupt SUBJ, of which one once circulated (20 subjective sentences, accuracies above 99 %); fetch "
    "5000 objective and 5000 subjective sentences, all different"
)

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

    Raises UserError for an unknown task, a missing file, a wrong encoding, row count or class, a malformed line, a
    corrupt SUBJ, one file under two names.
    """
    if task not in TRANSFER_TASKS:
        raise UserError(f"unknown transfer task {task!r}", f"choose from {', '.join(TRANSFER_TASKS)}")
    folder = downstream_folder(data)
    if task in _BINARY:
        return {"all": _read_binary(folder, task)}
    return {
        split: _labelled(_rows(folder / name, *_FORMATS[task]), folder / name, expected)
        for split, (name, expected) in _SPLIT[task].items()
    }


def _read_binary(folder: Path, task: str) -> LabelledTexts:
    remedy = _CORRUPT_SUBJ if task == "SUBJ" else _REMEDY
    parts = [
        _labelled([(" ".join(line.split()), None, label) for line in _latin1(folder / name)], folder / name, n, remedy)
        for label, (name, n) in zip((1, 0), _BINARY[task].items(), strict=True)
    ]
    both = LabelledTexts(parts[0].first + parts[1].first, None, np.concatenate([part.labels for part in parts]))
    one, zero = (set(part.first) for part in parts)
    if 2 * len(one & zero) > min(len(one), len(zero)):
        raise UserError(f"{' and '.join(_BINARY[task])} share {len(one & zero)} sentences", remedy)
    if task == "SUBJ" and len(one | zero) < len(both):  # the real one repeats none
        raise UserError(f"{folder / task}: {len(both) - len(one | zero)} sentences are repeated", remedy)
    return both


def _labelled(rows: Sequence[LabelledRow], path: Path, expected: int, remedy: str = _REMEDY) -> LabelledTexts:
    if len(rows) != expected:
        raise UserError(f"{path}: {len(rows)} samples found, {expected} expected", remedy)
    second = [row[1] for row in rows if row[1] is not None]
    return LabelledTexts([row[0] for row in rows], second or None, np.array([row[2] for row in rows], dtype=np.int64))


def _rows(
    path: Path, read: Callable[[Path], list[str]], parse: Callable[[str], LabelledRow | None]
) -> list[LabelledRow]:
    rows = []
    for number, line in enumerate(read(path), start=1):
        if parse is _mrpc and number == 1:  # the header
            continue
        row = parse(line.strip())
        if row is None:
            raise UserError(f"{path}, line {number}: {line[:60]!r} has no class or no sentence", _REMEDY)
        rows.append(row)
    return rows


def _trec(line: str) -> LabelledRow | None:
    """``NUM:dist How far is it …``: coarse class, fine class, question."""
    target, _, question = line.partition(" ")
    coarse = target.partition(":")[0]
    return (" ".join(question.split()), None, _TREC_CLASSES.index(coarse)) if coarse in _TREC_CLASSES else None


def _sst2(line: str) -> LabelledRow | None:
    """Sentence, tab, class."""
    sentence, _, label = line.partition("\t")
    return (" ".join(sentence.split()), None, int(label)) if label in {"0", "1"} else None


def _sst5(line: str) -> LabelledRow | None:
    """Class, space, sentence."""
    label, _, sentence = line.partition(" ")
    return (" ".join(sentence.split()), None, int(label)) if label in {"0", "1", "2", "3", "4"} else None


def _mrpc(line: str) -> LabelledRow | None:
    """Class, two identifiers, two sentences, between tabs."""
    cells = line.split("\t")
    if len(cells) != 5 or cells[0] not in {"0", "1"}:
        return None
    return " ".join(cells[3].split()), " ".join(cells[4].split()), int(cells[0])


def _utf8(path: Path) -> list[str]:
    return _lines(read_text(path, _REMEDY))


def _latin1(path: Path) -> list[str]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist", _REMEDY) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror})", _REMEDY) from None
    if b"\0" in raw:
        raise UserError(f"{path}: a binary file or UTF-16, latin-1 expected", _REMEDY)
    if not raw.isascii() and _is_utf8(raw):  # any bytes are latin-1, but these would be read as other words
        raise UserError(f"{path}: UTF-8, latin-1 expected", _REMEDY)
    return _lines(raw.decode("latin-1"))


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _lines(text: str) -> list[str]:
    # "\n" alone ends a line: str.splitlines would also cut at U+0085, which is a character of latin-1 files
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


_FORMATS: dict[str, tuple[Callable[[Path], list[str]], Callable[[str], LabelledRow | None]]] = {
    "SST2": (_utf8, _sst2),
    "SST5": (_utf8, _sst5),
    "TREC": (_latin1, _trec),
    "MRPC": (_utf8, _mrpc),
}
