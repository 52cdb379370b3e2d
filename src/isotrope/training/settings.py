"""The settings of a training run: one record, built by the command line, studies and the quickstart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from isotrope.text.cleaning import Cleaning


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Everything that was asked for.

    Args:
        corpus: files or folders of text: see ``isotrope.text.corpus.open_corpus``. A preset with ``[pairs]`` reads
            them as documents: see ``isotrope.text.collection.open_documents``.
        output: the run's folder: see `isotrope.training.folder.RunFolder`.
        preset: the name of a shipped preset, or a .toml file.
        backbone: the model to begin with, instead of the preset's.
        prompt: words before every text, such as "query: "; None takes the preset's, or the model's default prompt.
        prompt_name: the same, by the name of one of the backbone's own prompts.
        positive_prompt: words before positives and hard negatives; None: as before all texts.
        teachers: name of a teacher, or of one of its models in the preset -> the models to take instead.
        dev: what chooses the checkpoint: pairs (``stsb``, ``sickr``, the user's .tsv files), or ``transfer-dev``, the
            seven transfer tasks. With several, their mean chooses. ``none`` keeps the last checkpoint. None takes the
            preset's sets if a data folder is known, else ``none``.
        test: pairs that judge the result: ``sts`` (seven test sets), ``stsb``, ``none``. None takes ``sts`` if a
            data folder is known, else half of the user's own dev pairs.
        data: the folder that holds ``senteval/``; None takes ISOTROPE_DATA.
        seed: of the head, the order, the dropout and the random steps.
        sentences: train on a random sample of this size; None takes all.
        overrides: ``key=value`` over the preset's keys.
        text: the column of the sentences, or of the documents' texts, in tables.
        title: the column of the documents' titles, in tables; None: ``title`` if there is one.
        held_out: random documents to leave out of training: `isotrope.text.collection.Documents.split` with this seed.
        positive: the column of the positives.
        negatives: the columns of hard negatives.
        split: ``sentences`` trains on the sentences of the texts: see `isotrope.text.split.language_of`. None takes
            each text as it is.
        keep_duplicates: train on every line, also on one that occurred before.
        log_to: trackers that transformers knows (``tensorboard``, ``wandb``, …).
        resume: go on with a run that was stopped or killed. The result is that of a run without interruption.
    """

    corpus: str | Path | Sequence[str | Path]
    output: str | Path
    preset: str | Path = "simcse"
    backbone: str | None = None
    prompt: str | None = None
    prompt_name: str | None = None
    positive_prompt: str | None = None
    teachers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dev: str | Sequence[str] | None = None
    test: str | None = None
    data: str | Path | None = None
    seed: int = 0
    sentences: int | None = None
    overrides: Iterable[str] = ()
    text: str | None = None
    title: str | None = None
    held_out: int = 0
    positive: str | None = None
    negatives: Iterable[str] = ()
    split: str | None = None
    keep_duplicates: bool = False
    log_to: Iterable[str] = ()
    resume: bool = False

    @property
    def paths(self) -> list[str | Path]:
        """The corpus, one path or many, as a list."""
        return [self.corpus] if isinstance(self.corpus, str | Path) else list(self.corpus)

    @property
    def cleaning(self) -> Cleaning:
        """What is dropped from the corpus."""
        return Cleaning(dedupe=not self.keep_duplicates)
