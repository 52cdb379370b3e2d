"""The seven STS sets of the papers, from SentEval's folder (tokenised text) or from the official files (raw text).

The files are read as SentEval reads them. Lines end at a newline, columns at a tab. A sentence is split at white space
and joined by one space. Its case stays. Only pairs with a gold score count. STS13 comes without SMT, which is not free.
Every row count is checked, since a truncated or swapped file gives numbers that look right.

Sources: SemEval 2012-2016 task files; STS Benchmark (Cer et al., 2017, https://arxiv.org/abs/1708.00055);
SICK (Marelli et al., LREC 2014); SentEval (Conneau and Kiela, 2018, https://arxiv.org/abs/1803.05449).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isotrope.errors import UserError
from isotrope.evaluation.sets.pairs import Pairs, read_score, read_text

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

LAYOUTS = ("auto", "senteval", "raw")
_SICK_FILES = {"train": "SICK_train.txt", "dev": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
_REMEDY = "check the download, and set ISOTROPE_DATA or pass --data with the folder that holds senteval/"


def load_sts(
    data: str | Path | None, task: str, splits: Sequence[str] = ("dev", "test"), layout: str = "auto"
) -> dict[str, Pairs]:
    """Load one STS task: subset name → pairs for STS12 … STS16, split name → pairs for STSBenchmark, SICKRelatedness.

    `data` is the folder that holds `senteval/`, or that folder itself, or one that holds `downstream/`; None means the
    environment variable ISOTROPE_DATA. With `layout="raw"` it holds `sts-raw/`, `stsb-raw/`, `sick-raw/`, the official
    files before tokenisation, whose scores differ a little; "auto" takes them where SentEval's are not. `splits` says
    which of train, dev and test to read where a task has them.

    Raises UserError for an unknown task, split or layout, a missing file, a wrong row count or a malformed line.
    """
    if task not in STS_TASKS:
        raise UserError(f"unknown STS task {task!r}", f"choose from {', '.join(STS_TASKS)}")
    if layout not in LAYOUTS:
        raise UserError(f"unknown layout {layout!r}", f"choose from {', '.join(LAYOUTS)}")
    if layout == "auto":
        layout = "raw" if (data_folder(data) / "sts-raw").is_dir() and not _has_senteval(data) else "senteval"
    folder = _task_folder(data, task, layout)
    if task in SUBSETS:
        stem = "STS2016" if task == "STS16" and layout == "raw" else "STS"
        return {
            name: _read_sts(
                folder / f"{stem}.input.{name}.txt", folder / f"{stem}.gs.{name}.txt", f"{task} {name}", count
            )
            for name, count in SUBSETS[task].items()
        }
    for split in splits:
        if split not in SPLITS[task]:
            raise UserError(f"unknown split {split!r} of {task}", f"choose from {', '.join(SPLITS[task])}")
    read = _read_stsb if task == "STSBenchmark" else _read_sick
    return {split: read(folder, split, SPLITS[task][split]) for split in splits}


def data_folder(data: str | Path | None) -> Path:
    """The folder given, or else the one that ISOTROPE_DATA names; UserError where there is none."""
    given = data if data is not None else os.environ.get("ISOTROPE_DATA") or None
    if given is None:
        remedy = "pass --data (or set ISOTROPE_DATA) with the folder that holds senteval/, or use pairs of your own"
        raise UserError("no data folder given", remedy)
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise UserError(
            f"the data folder {folder} does not exist", "set ISOTROPE_DATA or pass --data with an existing one"
        )
    return folder


def _has_senteval(data: str | Path | None) -> bool:
    try:
        return downstream_folder(data).is_dir()
    except UserError:
        return False


def downstream_folder(data: str | Path | None) -> Path:
    """SentEval's `downstream` folder below (or at) `data`; UserError where there is none."""
    folder = data_folder(data)
    for candidate in (folder / "senteval" / "downstream", folder / "downstream", folder):
        if candidate.name == "downstream" and candidate.is_dir():
            return candidate
    raise UserError(f"{folder} holds neither senteval/downstream nor downstream", _REMEDY)


def _task_folder(data: str | Path | None, task: str, layout: str) -> Path:
    if layout == "raw":
        folder = data_folder(data)
        return folder / {"STSBenchmark": "stsb-raw", "SICKRelatedness": "sick-raw"}.get(task, f"sts-raw/{task}-en-test")
    folder = downstream_folder(data)
    return folder / {"STSBenchmark": "STS/STSBenchmark", "SICKRelatedness": "SICK"}.get(task, f"STS/{task}-en-test")


def _lines(path: Path) -> list[str]:
    # "\n" alone ends a line (str.splitlines would also cut at U+2028); SICK's official test file has "\r\n".
    lines = [line.rstrip("\r") for line in read_text(path, _REMEDY).split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _read_sts(sentences: Path, scores: Path, name: str, expected: int) -> Pairs:
    # The n-th gold line belongs to the n-th pair; a blank gold line is a pair that nobody scored.
    texts, golds = _lines(sentences), _lines(scores)
    if len(texts) != len(golds):
        raise UserError(f"{sentences} has {len(texts)} lines, but {scores.name} has {len(golds)}", _REMEDY)
    rows = [
        (f"{sentences}, line {n}", f"{scores}, line {n}", text.split("\t"), gold)
        for n, (text, gold) in enumerate(zip(texts, golds, strict=True), start=1)
        if gold.strip()
    ]
    return _pairs(name, rows, (0, 1), scores, expected)


def _read_stsb(folder: Path, split: str, expected: int) -> Pairs:
    path = folder / f"sts-{split}.csv"  # tab-separated in spite of its name, quotes are plain characters
    rows = [(f"{path}, line {n}", line.split("\t")) for n, line in enumerate(_lines(path), start=1)]
    return _pairs(f"STSBenchmark {split}", [(at, at, r, _cell(r, 4)) for at, r in rows], (5, 6), path, expected)


def _read_sick(folder: Path, split: str, expected: int) -> Pairs:
    path = folder / _SICK_FILES[split]
    rows = [(f"{path}, line {n}", line.split("\t")) for n, line in enumerate(_lines(path), start=1)][1:]  # a header
    return _pairs(f"SICKRelatedness {split}", [(at, at, r, _cell(r, 3)) for at, r in rows], (1, 2), path, expected)


def _cell(cells: list[str], index: int) -> str:
    return cells[index] if index < len(cells) else ""


def _pairs(
    name: str, rows: list[tuple[str, str, list[str], str]], columns: tuple[int, int], path: Path, expected: int
) -> Pairs:
    """Check rows of (place of the text, place of the score, cells, score) and join them to one record."""
    if len(rows) != expected:
        raise UserError(f"{path}: {len(rows)} scored pairs found, {expected} expected", _REMEDY)
    for place, _, cells, _ in rows:
        if len(cells) <= max(columns):
            raise UserError(f"{place}: {len(cells)} column(s), at least {max(columns) + 1} expected", _REMEDY)
    first, second = ([" ".join(cells[column].split()) for _, _, cells, _ in rows] for column in columns)
    return Pairs(name, first, second, np.array([read_score(score, place, _REMEDY) for _, place, _, score in rows]))
