"""What a user asks of a training run: one record, which the command line, studies and the quickstart build alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that was asked for.

    Args:
        corpus: files or folders of text: see ``isotrope.text.corpus.open_corpus``.
        output: the run's folder: see `isotrope.run.folder.RunFolder`.
        preset: the name of a shipped preset, or a .toml file.
        backbone: the model to begin with, instead of the preset's.
        teachers: the name of a teacher, or of a model among the preset's teachers -> the models to take instead.
        dev: pairs that choose the checkpoint: ``stsb``, ``sickr``, the user's .tsv files; several for their mean;
            ``none`` keeps the last. None takes the preset's, or, where no data folder is known, none.
        test: pairs that judge the result: ``sts`` (seven test sets), ``stsb``, ``none``. None takes ``sts`` where the
            data folder is known, else half of the user's own dev pairs.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        seed: of the head, the order, the dropout and the random steps.
        sentences: train on a random sample of this size; None takes all.
        overrides: ``key=value`` over the preset's keys.
        text: the column of the sentences, in tables.
        positive: the column of the positives.
        negatives: the columns of hard negatives.
        log_to: trackers that transformers knows (``tensorboard``, ``wandb``, …).
        resume: go on with a run that was stopped or killed; the result is that of an undisturbed one.
    """

    corpus: str | Path | Sequence[str | Path]
    output: str | Path
    preset: str | Path = "simcse"
    backbone: str | None = None
    teachers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dev: str | Sequence[str] | None = None
    test: str | None = None
    data: str | Path | None = None
    seed: int = 0
    sentences: int | None = None
    overrides: Iterable[str] = ()
    text: str | None = None
    positive: str | None = None
    negatives: Iterable[str] = ()
    log_to: Iterable[str] = ()
    resume: bool = False

    @property
    def paths(self) -> list[str | Path]:
        """The corpus, one path or many, as a list."""
        return [self.corpus] if isinstance(self.corpus, str | Path) else list(self.corpus)
