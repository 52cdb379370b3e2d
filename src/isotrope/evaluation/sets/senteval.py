"""SentEval's sets from its folder: seven of STS, and the transfer tasks MR, CR, SUBJ, MPQA, SST2,
SST5, TREC and MRPC.

The files are read as SentEval reads them. A sentence is split at white space and joined by one
space; its case stays. Only pairs with a gold score count. STS13 comes without SMT, which is not
free. A blank line of CR or MPQA is a sample. Every row count is checked, since a truncated or
swapped file gives numbers that look right.

Sources: SemEval 2012-2016 task files; STS Benchmark (Cer et al., 2017,
https://arxiv.org/abs/1708.00055); SICK (Marelli et al., LREC 2014); MR (Pang and Lee, 2005), CR (Hu
and Liu, 2004), SUBJ (Pang and Lee, 2004), MPQA (Wiebe et al., 2005), SST (Socher et al., 2013),
TREC (Li and Roth, 2002), MRPC (Dolan et al., 2004), all as in SentEval (Conneau and Kiela, 2018,
https://arxiv.org/abs/1803.05449).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from isotrope.evaluation.results import Indices
from isotrope.evaluation.sets.files import (
    DataFolder,
    counted,
    downloaded,
    downstream_folder,
    lines_of,
)
from isotrope.evaluation.sets.graded_pairs import GradedPairs

# Scored pairs of each subset, in SentEval's order: 3108, 1500, 3750, 3000 and 1186 in all.
SUBSETS: dict[str, dict[str, int]] = {
    "STS12": {
        "MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750,
        "surprise.SMTnews": 399,
    },
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {
        "deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750,
        "tweet-news": 750,
    },
    "STS15": {
        "answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750,
        "images": 750,
    },
    "STS16": {
        "answer-answer": 254, "headlines": 249, "plagiarism": 230, "postediting": 244,
        "question-question": 209,
    },
}  # fmt: skip
SPLITS: dict[str, dict[str, int]] = {
    "STSBenchmark": {"train": 5749, "dev": 1500, "test": 1379},
    "SICKRelatedness": {"train": 4500, "dev": 500, "test": 4927},
}
STS_TASKS: tuple[str, ...] = (*SUBSETS, *SPLITS)

# Files and their rows. The first file of a two-file task has the class 1, the second the class 0,
# as in SentEval.
_BINARY: dict[str, dict[str, int]] = {
    "MR": {"MR/rt-polarity.pos": 5331, "MR/rt-polarity.neg": 5331},
    "CR": {"CR/custrev.pos": 2407, "CR/custrev.neg": 1368},
    "SUBJ": {"SUBJ/subj.objective": 5000, "SUBJ/subj.subjective": 5000},
    "MPQA": {"MPQA/mpqa.pos": 3312, "MPQA/mpqa.neg": 7294},
}


class _Split(NamedTuple):
    """A task with a training and a test file, and perhaps a dev file. No column follows the class
    and the sentences.
    """

    files: dict[str, tuple[str, int]]  # split → file, its rows
    classes: list[str]  # 0 … K − 1
    label: int  # the column of the class, up to its colon
    sentences: list[int]
    separator: str
    encoding: str = "utf-8-sig"
    header: int = 0


_SPLIT = {
    "SST2": _Split(
        {
            "train": ("SST/binary/sentiment-train", 67349),
            "dev": ("SST/binary/sentiment-dev", 872),
            "test": ("SST/binary/sentiment-test", 1821),
        },
        ["0", "1"],
        label=1,
        sentences=[0],
        separator="\t",
    ),
    "SST5": _Split(
        {
            "train": ("SST/fine/sentiment-train", 8544),
            "dev": ("SST/fine/sentiment-dev", 1101),
            "test": ("SST/fine/sentiment-test", 2210),
        },
        [*"01234"],
        label=0,
        sentences=[1],
        separator=" ",
    ),
    "TREC": _Split(  # NUM:dist How far is it …
        {"train": ("TREC/train_5500.label", 5452), "test": ("TREC/TREC_10.label", 500)},
        ["ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"],
        label=0,
        sentences=[1],
        separator=" ",
        encoding="latin-1",
    ),
    "MRPC": _Split(  # class, two identifiers, two sentences
        {
            "train": ("MRPC/msr_paraphrase_train.txt", 4076),
            "test": ("MRPC/msr_paraphrase_test.txt", 1725),
        },
        ["0", "1"],
        label=0,
        sentences=[3, 4],
        separator="\t",
        header=1,
    ),
}
TRANSFER_TASKS: tuple[str, ...] = (*_BINARY, *_SPLIT)
CLASSES = dict.fromkeys(_BINARY, 2) | {task: len(split.classes) for task, split in _SPLIT.items()}


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """N sentences, or sentence pairs, each with its class 0 … K − 1."""

    first: list[str]  # (N,)
    second: list[str] | None  # (N,) if the task is about pairs
    labels: Indices  # (N,)

    @property
    def texts(self) -> list[str]:
        """All that is encoded, repeated texts included."""
        return [*self.first, *(self.second or [])]


def load_sts(
    data: DataFolder, task: str, splits: Sequence[str] = ("dev", "test")
) -> dict[str, GradedPairs]:
    """Load one STS task: subset name → pairs for STS12 … STS16, split name → pairs for
    STSBenchmark, SICKRelatedness.

    `data` is the folder that holds `senteval/`, or SentEval's own, which holds `downstream/`; None:
    the one that ISOTROPE_DATA names. `splits` says which of train, dev and test to read if a
    task has them.

    Raises UserError for a file that is missing or not as it was published.
    """
    folder = downstream_folder(data)
    if task in SUBSETS:
        return {name: _subset(folder / f"STS/{task}-en-test", task, name) for name in SUBSETS[task]}
    return {split: _scored_split(folder, task, split) for split in splits}


def _scored_split(folder: Path, task: str, split: str) -> GradedPairs:
    """One split of STSBenchmark or SICKRelatedness: both separate columns by tabs."""
    if task == "STSBenchmark":
        path = folder / f"STS/STSBenchmark/sts-{split}.csv"
        header_lines = 0
        first, second, score = 5, 6, 4
    else:
        name = {"dev": "trial", "test": "test_annotated"}.get(split, split)
        path = folder / f"SICK/SICK_{name}.txt"
        header_lines = 1
        first, second, score = 1, 2, 3

    with downloaded(path):
        lines = counted(lines_of(path)[header_lines:], SPLITS[task][split])
        rows = [line.split("\t") for line in lines]
        gold = [row[score] for row in rows]
        return _pairs(f"{task} {split}", rows, (first, second), gold)


def _subset(folder: Path, task: str, name: str) -> GradedPairs:
    """The n-th gold line belongs to the n-th pair; a blank one is a pair that nobody scored."""
    gold_path = folder / f"STS.gs.{name}.txt"
    with downloaded(gold_path):
        gold_lines = lines_of(gold_path)
        scored = [number for number, line in enumerate(gold_lines) if line.strip()]
        counted(scored, SUBSETS[task][name])
        gold = [float(gold_lines[number]) for number in scored]

    path = folder / f"STS.input.{name}.txt"
    with downloaded(path):
        lines = counted(lines_of(path), len(gold_lines))
        rows = [lines[number].split("\t") for number in scored]
        return _pairs(f"{task} {name}", rows, (0, 1), gold)


def _pairs(
    name: str,
    rows: Sequence[Sequence[str]],
    columns: tuple[int, int],
    gold: Sequence[str] | Sequence[float],
) -> GradedPairs:
    first, second = (_texts(rows, column) for column in columns)
    return GradedPairs(name, first, second, np.array(gold, dtype=np.float64))


def _texts(rows: Sequence[Sequence[str]], column: int) -> list[str]:
    """The sentences of a column as SentEval reads them, one space between two words."""
    return [_joined(row[column]) for row in rows]


def _joined(sentence: str) -> str:
    return " ".join(sentence.split())


def load_transfer(data: DataFolder, task: str) -> dict[str, LabelledTexts]:
    """Load one transfer task: "all" for MR, CR, SUBJ, MPQA; "train", "test" for TREC, MRPC; and
    "dev" for SST2, SST5.

    `data` and errors are as in `load_sts`. Rows are in the files' order, positive (or objective)
    ones first.
    """
    folder = downstream_folder(data)
    if task in _BINARY:
        return {"all": _binary(folder, task)}
    files = _SPLIT[task].files
    return {split: _labelled_split(folder, task, split) for split in files}


def _labelled_split(folder: Path, task: str, split: str) -> LabelledTexts:
    """One split of a task with a training and a test file."""
    layout = _SPLIT[task]
    name, expected = layout.files[split]
    path = folder / name
    most_cuts = 1 if layout.separator == " " else -1  # a sentence has spaces
    width = 1 + max(layout.label, *layout.sentences)
    with downloaded(path):
        lines = counted(lines_of(path, layout.encoding)[layout.header :], expected)
        rows = [line.strip().split(layout.separator, most_cuts) for line in lines]
        if {len(row) for row in rows} != {width}:
            raise ValueError("a line has too few columns, or too many")

        numbers = []
        for row in rows:
            label = row[layout.label].partition(":")[0]
            numbers.append(layout.classes.index(label))
        first, *others = (_texts(rows, column) for column in layout.sentences)
        second = others[0] if others else None
        return LabelledTexts(first, second, np.array(numbers, dtype=np.int64))


def _binary(folder: Path, task: str) -> LabelledTexts:
    """A task of two classes: a file of each, and the first has class 1."""
    sentences: list[str] = []
    labels: list[int] = []
    classes = (1, 0)
    for label, (name, expected) in zip(classes, _BINARY[task].items(), strict=True):
        path = folder / name
        with downloaded(path):
            lines = counted(lines_of(path, "latin-1"), expected)
            sentences += [_joined(line) for line in lines]
            labels += [label] * expected
            has_repeats = len(set(sentences)) < len(sentences)
            if task == "SUBJ" and has_repeats:  # the real one has none
                raise ValueError("sentences are repeated: a corrupt SUBJ, as one once circulated")
    return LabelledTexts(sentences, None, np.array(labels, dtype=np.int64))
