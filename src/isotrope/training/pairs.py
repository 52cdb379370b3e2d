"""What selects a model and what judges it: pairs of SentEval or the user's own, and the transfer
tasks' dev sets.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from isotrope.errors import UserError, check_known
from isotrope.evaluation.sets.columns import ColumnChoice
from isotrope.evaluation.sets.files import data_checksum, data_folder
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, LabelsLike, read_labels, read_pairs
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.sets.senteval import STS_TASKS, load_sts, load_transfer
from isotrope.evaluation.sts import SimilaritySets
from isotrope.evaluation.suite import SUITES, run
from isotrope.text.permutation import Permutation
from isotrope.types import Encoder

DataFolder: TypeAlias = str | Path | None  # it holds ``senteval/``

STSB, SICKR = "STSBenchmark", "SICKRelatedness"
DEV_SETS = {"stsb-dev": STSB, "sickr-dev": SICKR, "stsb": STSB, "sickr": SICKR}
TRANSFER_DEV = "transfer-dev"
JUDGING: dict[str, tuple[Sequence[str], str]] = {  # sets that judge, by name -> tasks, split
    "sts": (STS_TASKS, "test"),
    "stsb": ([STSB], "test"),
    "stsb-dev": ([STSB], "dev"),
    "none": ([], ""),
}
SHIPPED_DEV = {*DEV_SETS, TRANSFER_DEV}  # these judge no run: see `judges`


@dataclass(frozen=True)
class TransferDev:
    """Selection on the dev sets of the papers' seven transfer tasks (RankCSE Appendix B, Table 10).

    SentEval's setting for prototypes. Where a task has no dev set, its accuracy is that of the
    inner folds.
    """

    data: Path

    def checksum(self) -> str:
        return data_checksum(self.data, SUITES["transfer"].folders)

    def accuracy(self, encoder: Encoder) -> float:
        """The mean dev accuracy, as a fraction."""
        scores = run(encoder, "transfer", self.data, SUITES["transfer"].averaged, "fast")
        return float(np.mean([task["dev_accuracy"] for task in scores.values()]))


DevSet: TypeAlias = GradedPairs | TransferDev  # what selects a checkpoint


def dev_names(dev: str | Iterable[str]) -> list[str]:
    """The sets that ``dev`` names, one by one, without ``none``."""
    if isinstance(dev, str):
        dev = [dev]
    names: list[str] = []
    for comma_separated in dev:
        names += comma_separated.split(",")
    return [name for name in names if name != "none"]


def dev_pairs(names: Iterable[str], data: DataFolder) -> dict[str, GradedPairs]:
    """Name -> pairs, for those of the names of `dev_names` that are pairs."""
    by_name: dict[str, GradedPairs] = {}
    for name in names:
        if name == TRANSFER_DEV:
            continue
        pairs = _read_dev_set(name, data)
        label = name if name in DEV_SETS else pairs.name
        if label in by_name:
            problem = f"two dev sets are called {label!r}"
            raise UserError(problem, "rename a file, or name each set once", code="equal-dev-names")
        by_name[label] = pairs
    return by_name


def _read_dev_set(name: str, data: DataFolder) -> GradedPairs:
    """The pairs of a file, or of a shipped dev set."""
    if name.endswith((".tsv", ".csv")) or Path(name).is_file():
        return read_pairs(name)
    check_known("dev set", name, DEV_SETS, ", a .tsv file, or none")
    return load_sts(data, DEV_SETS[name], ["dev"])["dev"]


def judges(
    labels: str | GradedPairs | None, dev: Mapping[str, GradedPairs], data: DataFolder
) -> tuple[SimilaritySets, dict[str, GradedPairs]]:
    """The pairs that judge a run, and the dev sets that remain for the selection.

    ``labels`` is ``sts`` (the seven test sets), ``stsb`` (its test split), pairs, or ``none``. None
    splits the user's own dev pairs: half of them select, the other half judges. Pairs that selected
    a model would judge it too well. So ``stsb-dev`` is only for figures that a paper draws from
    STS-B's dev pairs.
    """
    if isinstance(labels, str) and labels in JUDGING:
        tasks, split = JUDGING[labels]
        test_sets = {task: load_sts(data, task, [split]) for task in tasks}
        return test_sets, dict(dev)
    if labels is None:
        return _split_in_halves(dev)

    pairs = read_pairs(given_labels(labels))
    dev_checksums = [dev_set.checksum() for dev_set in dev.values()]
    if pairs.checksum() in dev_checksums:
        remedy = "leave labels out: then half of it selects, and half judges"
        raise UserError(f"{pairs.name} both selects and judges", remedy, code="selects-and-judges")
    return {pairs.name: {"test": pairs}}, dict(dev)


def _split_in_halves(
    dev: Mapping[str, GradedPairs],
) -> tuple[SimilaritySets, dict[str, GradedPairs]]:
    """A random half of each dev set that judges, and the other half, which selects."""
    selecting: dict[str, GradedPairs] = {}
    judging: dict[str, dict[str, GradedPairs]] = {}
    for name, pairs in dev.items():
        order = Permutation(len(pairs), 0)[np.arange(len(pairs))]
        first, second = np.array_split(order, 2)
        selecting[name] = pairs.rows(np.sort(first))
        judging[name] = {"test": pairs.rows(np.sort(second))}
    return judging, selecting


def given_labels(
    labels: "LabelsLike | None", columns: ColumnChoice | None = None
) -> str | Labels | None:
    """The labels that judge a run: a set's name as it is, all else as `read_labels` reads it."""
    if labels is None or (isinstance(labels, str) and labels in JUDGING):
        return labels
    if isinstance(labels, str) and not Path(labels).suffix and not Path(labels).exists():
        check_known("labels =", labels, JUDGING, ", a file, or a folder")
    return read_labels(labels, columns)


def evaluation_pairs(
    dev: str | Sequence[str] | None,
    select: Sequence[str],
    labels: str | Labels | None,
    data: DataFolder,
) -> tuple[SimilaritySets, dict[str, DevSet]]:
    """The similarity pairs that a finished run is judged by, and the dev sets, by their names,
    that choose its checkpoint.

    Args:
        dev: names of dev sets; None: the preset's ``select``.
        select: the preset's dev sets.
        labels: "sts", "none", or loaded labels; None: "sts" if there is a data folder.
        data: the data folder, if there is one.
    """
    names = dev_names(select if dev is None else dev)
    if dev is None and not data:  # a preset's shipped sets need the data folder
        names = [name for name in names if name not in SHIPPED_DEV]

    if isinstance(labels, RetrievalSet):
        labels = "none"  # queries judge, and no pairs
    if labels is None and set(names) <= SHIPPED_DEV:
        labels = "sts" if data else "none"

    judging, pairs = judges(labels, dev_pairs(names, data), data)
    selecting: dict[str, DevSet] = dict(pairs)
    if TRANSFER_DEV in names:
        selecting[TRANSFER_DEV] = _transfer_dev(data)
    return judging, selecting


def _transfer_dev(data: DataFolder) -> TransferDev:
    """Read all transfer tasks once, so that missing and broken files are refused now."""
    for task in SUITES["transfer"].averaged:
        load_transfer(data, task)
    return TransferDev(data_folder(data))
