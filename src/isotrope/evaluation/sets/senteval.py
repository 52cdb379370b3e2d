"""The seven STS sets of the papers, from SentEval's folder (tokenised text) or from the official files (raw text).

The files are read as SentEval reads them. Lines end at a newline, columns at a tab. A sentence is split at white space
and joined by one space. Its case stays. Only pairs with a gold score count. STS13 comes without SMT, which is not free.
Every row count is checked, since a truncated or swapped file gives numbers that look right.

Sources: SemEval 2012-2016 task files; STS Benchmark (Cer et al., 2017, https://arxiv.org/abs/1708.00055);
SICK (Marelli et al., LREC 2014); SentEval (Conneau and Kiela, 2018, https://arxiv.org/abs/1803.05449).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from isotrope.errors import UserError, one_of
from isotrope.evaluation.sets.known import counted, data_folder, downloaded, downstream_folder, lines_of
from isotrope.evaluation.sets.pairs import Pairs

# Scored pairs of each subset, in SentEval's order: 3108, 1500, 3750, 3000 and 1186 in all.
SUBSETS: dict[str, dict[str, int]] = {
    "STS12": {"MSRpar": 750, "MSRvid": 750, "SMTeuroparl": 459, "surprise.OnWN": 750, "surprise.SMTnews": 399},
    "STS13": {"FNWN": 189, "headlines": 750, "OnWN": 561},
    "STS14": {"deft-forum": 450, "deft-news": 300, "headlines": 750, "images": 750, "OnWN": 750, "tweet-news": 750},
    "STS15": {"answers-forums": 375, "answers-students": 750, "belief": 375, "headlines": 750, "images": 750},
    "STS16": {
        "answer-answer": 254,
        "headlines": 249,
        "plagiarism": 230,
        "postediting": 244,
        "question-question": 209,
    },
}
SPLITS: dict[str, dict[str, int]] = {
    "STSBenchmark": {"train": 5749, "dev": 1500, "test": 1379},
    "SICKRelatedness": {"train": 4500, "dev": 500, "test": 4927},
}
STS_TASKS: tuple[str, ...] = (*SUBSETS, *SPLITS)

_SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}


def load_sts(
    data: str | Path | None, task: str, splits: Sequence[str] = ("dev", "test"), layout: str = "auto"
) -> dict[str, Pairs]:
    """Load one STS task: subset name → pairs for STS12 … STS16, split name → pairs for STSBenchmark, SICKRelatedness.

    `data` is the folder that holds `senteval/`, or that folder itself, or one that holds `downstream/`; None means the
    environment variable ISOTROPE_DATA. With `layout="raw"` it holds `sts-raw/`, `stsb-raw/`, `sick-raw/`, the official
    files before tokenisation, whose scores differ a little; "auto" takes them where SentEval's are not. `splits` says
    which of train, dev and test to read where a task has them.

    Raises UserError for an unknown task, and a file that is missing or not as it was published.
    """
    if task not in STS_TASKS:
        raise UserError(f"unknown STS task {task!r}", one_of(task, STS_TASKS))
    raw = layout == "raw" or (layout == "auto" and _is_raw(data_folder(data)))
    folder = data_folder(data) if raw else downstream_folder(data)
    if task in SUBSETS:
        folder /= f"{'sts-raw' if raw else 'STS'}/{task}-en-test"
        stem = "STS2016" if task == "STS16" and raw else "STS"
        return {
            name: _subset(folder / f"{stem}.input.{name}.txt", folder / f"{stem}.gs.{name}.txt", f"{task} {name}", n)
            for name, n in SUBSETS[task].items()
        }
    if task == "STSBenchmark":  # tab-separated in spite of its name, quotes are plain characters
        files = {split: folder / ("stsb-raw" if raw else "STS/STSBenchmark") / f"sts-{split}.csv" for split in splits}
        columns, header = (5, 6, 4), 0
    else:
        files = {split: folder / ("sick-raw" if raw else "SICK") / _SICK_FILES[split] for split in splits}
        columns, header = (1, 2, 3), 1
    found = {}
    for split, path in files.items():
        with downloaded(path):
            rows = [_cells(line, columns) for line in lines_of(path)[header:]]
            found[split] = _pairs(f"{task} {split}", counted(rows, SPLITS[task][split]))
    return found


def _is_raw(folder: Path) -> bool:
    """Whether a data folder has the official files and not SentEval's."""
    has_senteval = any((folder / name).is_dir() for name in ("senteval/downstream", "downstream"))
    return (folder / "sts-raw").is_dir() and not has_senteval


def _subset(sentences: Path, scores: Path, name: str, expected: int) -> Pairs:
    """The n-th gold line belongs to the n-th pair; a blank gold line is a pair that nobody scored."""
    with downloaded(scores):
        golds = lines_of(scores)
        scored = counted([n for n, gold in enumerate(golds) if gold.strip()], expected)
    with downloaded(sentences):
        texts = counted(lines_of(sentences), len(golds))
        rows = [[*_cells(texts[n], (0, 1)), golds[n]] for n in scored]
    with downloaded(scores):
        return _pairs(name, rows)


def _cells(line: str, columns: Iterable[int]) -> list[str]:
    cells = line.split("\t")
    return [cells[column] for column in columns]


def _pairs(name: str, rows: list[list[str]]) -> Pairs:
    first, second = ([" ".join(row[side].split()) for row in rows] for side in (0, 1))
    return Pairs(name, first, second, np.array([float(row[2]) for row in rows]))
