"""Whiten a model for good: a linear layer after it, in plain sentence-transformers format, and
whether that helped.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from isotrope.components.citations import cited_keys
from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.console.threads import threads_line
from isotrope.encoder import load
from isotrope.encoder.checksum import GivenModel, files_checksum, located
from isotrope.encoder.embed import vectors_of
from isotrope.encoder.locate import Base
from isotrope.encoder.prompts import Prompts, used_prompt
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import (
    DocumentTask,
    compare_on_documents,
    measure_in_words,
    tasks_of_texts,
)
from isotrope.evaluation.embed import Embeddings
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels, in_words, read_labels
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import Comparison
from isotrope.evaluation.significance import compare as compare_cases
from isotrope.evaluation.similarity import similarity_of
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.improve import Improvement
from isotrope.improvement.steps import FittedStep
from isotrope.post.whitening import SOFT_WHITENING, Whitening, check_size, fewest_rows, whitening
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import COMPARED, before_after, with_average
from isotrope.report.outcome import REPORT
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import save_model
from isotrope.report.tables import Table
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.text import TextLike, TextSource, read_text
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import Sample
from isotrope.training.pairs import DEV_SETS, dev_names, dev_pairs
from isotrope.types import Vector

KIND, NEW = "whitening", "the whitened model"
HELD_OUT = 2_000  # texts at most that the comparison keeps from the fit
SETTINGS = ("k", "exponent", "seed", "pooling", "split")  # that the result tells
USUAL = {
    "k": None,
    "exponent": SOFT_WHITENING,
    "seed": 0,
    "pooling": None,
    "prompt": None,
    "split": None,
}
HOW = {  # kind of judge -> how it measures
    "pairs": "Pairs: Spearman's correlation × 100 between cosines and graded similarity.",
    "queries": "Queries: nDCG@10 × 100 of the texts that each finds.",
    "self_made": "Parts of texts: {measure}, on {used:,} texts that the fit did not see; ungraded.",
}
HOW_TESTED = "A paired bootstrap tests the change. It covers the choice of pairs and texts."


def whiten(
    model: GivenModel,
    documents: TextLike,
    *,
    output: str | Path | None = None,
    k: int | None = None,
    exponent: float = SOFT_WHITENING,
    max_texts: int = 20_000,
    seed: int = 0,
    text_column: str | None = None,
    split: str | None = None,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    labels: Any = (),
    columns: str | Sequence[str] | None = None,
    data: str | Path | None = None,
    compare: bool = True,
    restart: bool = False,
    console: Console | None = None,
) -> Improvement:
    """Fit whitening on text without labels, and save the model with it as a linear layer (D, K).

    It spreads a raw model's vectors evenly. A model that was trained on labelled pairs may lose by
    it, above all in search. So the new model is compared with the old one. Where the old model ends
    with unit length, the new one does too. Su et al., 2021, https://arxiv.org/abs/2103.15316.

    Args:
        model: a loaded model, which is left as it was, or what `isotrope.load` takes.
        documents: text of any kind: see `isotrope.text.read_text`.
        output: a folder for the new model and the report; None: a temporary one, which the result
            keeps.
        k: dimensions kept, of the largest variance; None: all that have any.
        exponent: 0.5 is full whitening, 0 is centring alone.
        max_texts: at most so many are sampled for the fit; more than D are needed, or than k.
            Exponent 0 only needs 2.
        seed: of the sample.
        text_column: the column of the texts, in tables.
        split: "sentences" fits on the sentences of the texts: see
            `isotrope.text.split.language_of`.
        pooling: as `isotrope.load` takes it, and so are the next two.
        prompt: words before every text, in the fit and in the new model.
        prompt_name: the same, by its name in the model.
        labels: what judges: ``stsb``, ``sickr``, or labels of your own, as
            `isotrope.evaluation.sets.labels.read_labels` takes them; a list of strings names
            several sets of pairs.
        columns: of your own labels, in a table: "question,answer".
        data: the folder that holds ``senteval/``, for sets by name.
        compare: compare also on tasks made from texts that are kept from the fit.
        restart: forget what an earlier call left in the output.
        console: where to report; None: nothing is shown.

    Raises:
        UserError: no such model, text or pairs, an impossible exponent, too few sentences for so
            many dimensions, an output that is not ours or was begun with something else.
    """
    console = console or plain_console(quiet=True)
    _check_exponent(exponent)
    judging = _judges(labels, columns, data)
    where = located(model)
    with watch("loading", console):
        encoder = _load_with_prompt(where, pooling, Prompts(prompt, prompt_name), console)
        source = read_text(documents, text_column=text_column, split=split)
        corpus = source.texts()

    identity = {
        "k": k,
        "exponent": exponent,
        "seed": seed,
        "pooling": pooling,
        "split": source.split,
        "model": files_checksum(where),
        "documents": corpus.key,
        "max_texts": max_texts,
        "compare": compare,
        "prompt": used_prompt(encoder),
        "labels": {name: judge.checksum() for name, judge in judging.items()},
    }
    job = Job(output, KIND, identity, [source], restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            console.print(str(corpus.report))
            record = _Whitening(job, where, encoder, source, judging, console).run()
    return Improvement(job, record, whitening_page)


def _load_with_prompt(
    model: str, pooling: str | None, prompts: Prompts, console: Console
) -> SentenceTransformer:
    """Load the model, and say so if it has prompts of which none is used."""
    encoder = load(model, pooling, prompt=prompts.text, prompt_name=prompts.name)
    note = prompts.note(encoder, model)
    if note:
        console.print(note)
    return encoder


def _check_exponent(exponent: float) -> None:
    if not 0 <= exponent <= 0.5:
        raise UserError(
            f"exponent = {exponent}",
            "choose 0 (centring alone) to 0.5 (full whitening)",
            "impossible-exponent",
        )


@dataclass
class _Whitening:
    """One call of `whiten`, in a folder that it holds."""

    job: Job
    model: str  # where it is
    encoder: SentenceTransformer
    source: TextSource
    judging: Mapping[str, Labels]
    console: Console

    def run(self) -> Record:
        """Fit on some texts, compare on others, and save."""
        settings = {name: self.job.identity[name] for name in SETTINGS}
        k = settings["k"]
        exponent = settings["exponent"]
        dimensions = int(self.encoder.get_embedding_dimension() or 0)
        fitting, held_out = self._texts(fewest_rows(dimensions, k, exponent))
        width = check_size(len(fitting), dimensions, k, exponent)
        tasks = tasks_of_texts(held_out)
        self.job.begin()

        before = self._encode(fitting, tasks)
        vectors = np.asarray(before.encode(fitting), dtype=np.float64)
        mean, matrix = whitening(vectors, k, exponent)
        step = FittedStep(mean, matrix)
        whitened = step.add_to(self.encoder)

        judgements = _judgements(before, step.apply(before), tasks, self.judging)
        corpus = self.source.texts()
        name = Base.of(self.model).name
        record = {
            **settings,
            "choice": f"whitening with exponent {exponent:g}",
            "model": name,
            "prompt": whitened.prompts.get(whitened.default_prompt_name or ""),
            "corpus": {"key": corpus.key, "rows": len(corpus), "used": len(fitting)},
            "dimensions": {
                "before": dimensions,
                "after": matrix.shape[1],
                "left_out": width - matrix.shape[1],
            },
            "unit_length": isinstance(whitened[-1], Normalize),
            "held_out": {"texts": len(held_out), "used": _size(tasks)},
            **_compared(list(judgements), tasks, name),
        }
        return self._save(whitened, record)

    def _texts(self, fewest: int) -> tuple[list[str], list[str]]:
        """Texts to fit on, and others to compare on, if there are more than the fit needs."""
        options = self.job.identity
        sample = Sample(self.source.texts(), None, options["seed"])
        limit = self.encoder.max_seq_length or 512
        lines = coverage(
            self.encoder,
            used_prompt(self.encoder),
            sample,
            limit,
            longest=limit,
            split=not self.source.split,
        )
        max_texts = options["max_texts"]
        texts = sample.texts(max_texts + HELD_OUT)
        for line in (*lines, unknown_warning(self.encoder, texts)):
            if line:
                self.console.print(line)
        first_held_out = len(texts)
        if options["compare"]:
            first_held_out -= max(0, min(HELD_OUT, len(texts) // 5, len(texts) - fewest))
        return texts[:first_held_out][:max_texts], texts[first_held_out:]

    def _encode(self, fitting: Sequence[str], tasks: Sequence[DocumentTask]) -> Embeddings:
        """The vectors of the texts that are fitted on, and of those that judge."""
        texts = list(fitting)
        for judge in (*tasks, *self.judging.values()):
            texts += judge.texts
        distinct = list(dict.fromkeys(texts))
        self.console.print(threads_line())
        with watch("encoding", self.console):
            vectors = vectors_of(self.encoder, distinct, batch_size=32)
        return Embeddings(distinct, vectors, similarity=similarity_of(self.encoder))

    def _save(self, whitened: SentenceTransformer, record: Record) -> Record:
        """Write the model, its card and its report."""
        self.source.check()
        card = _card(self.model, self.source.paths, record, whitened)
        save_model(whitened, self.job.folder / MODEL, card)
        write_text(self.job.folder / REPORT, whitening_page(record).html())
        return self.job.finish(record)


def _judges(labels: Any, columns: Any, data: str | Path | None) -> dict[str, Labels]:
    """What judges, by name."""
    names = labels if isinstance(labels, list | tuple) else [labels]
    if not all(isinstance(name, str) for name in names):  # a table
        table = read_labels(labels, columns)
        return {table.name: table}
    names = dev_names(names)
    judges: dict[str, Labels] = {**dev_pairs((name for name in names if name in DEV_SETS), data)}
    for name in names:
        if name not in DEV_SETS:
            own_labels = read_labels(name, columns)
            judges[own_labels.name] = own_labels
    return judges


def whitening_page(record: Mapping[str, Any]) -> Page:
    """The page of a whitened model."""
    evidence = _evidence(record)
    return Page(
        title=f"Whitened: {record['model']}",
        lead=[fitted_line(record)],
        verdict=Verdict.from_record(record["verdict"]),
        tables=[evidence] if evidence.rows else [],
    )


def fitted_line(record: Mapping[str, Any]) -> str:
    """What was fitted, in a sentence."""
    dimensions = record["dimensions"]
    line = (
        f"whitened with exponent {record['exponent']:g}, fitted on "
        f"{record['corpus']['used']:,} texts: {dimensions['before']} → {dimensions['after']} "
        "dimensions"
    )
    if dimensions["left_out"]:
        line += f", {dimensions['left_out']} left out since the text does not vary there"
    if record["unit_length"]:
        line += "; vectors keep unit length"
    return line


@dataclass(frozen=True)
class _Judgement:
    """One comparison of the two models."""

    kind: str  # of `HOW`
    comparison: Comparison
    judge: str  # what judged, in words
    measure: str  # what it measures


def _judgements(
    before: Embeddings,
    after: Embeddings,
    tasks: Sequence[DocumentTask],
    judging: Mapping[str, Labels],
) -> Iterator[_Judgement]:
    """What each kind of judge says; labels come before tasks that nobody labelled."""
    pairs = {name: labels for name, labels in judging.items() if isinstance(labels, GradedPairs)}
    if pairs:
        comparison = compare_cases(_graded(pairs, before), _graded(pairs, after))
        size = sum(graded.size for graded in pairs.values())
        judge = f"{size:,} graded pairs of {', '.join(pairs)}"
        yield _Judgement("pairs", comparison, judge, "Spearman × 100")

    searches = [labels for labels in judging.values() if isinstance(labels, RetrievalSet)]
    if searches:
        comparison = compare_cases(
            {labels.name: labels.score(before) for labels in searches},
            {labels.name: labels.score(after) for labels in searches},
        )
        judge = ", ".join(map(in_words, searches))
        yield _Judgement("queries", comparison, judge, "nDCG@10 × 100")

    if tasks:
        comparison = compare_on_documents(before, after, tasks)
        judge = f"{_size(tasks):,} of your own documents"
        yield _Judgement("self_made", comparison, judge, measure_in_words(tasks))


def _graded(
    pairs: Mapping[str, GradedPairs], embeddings: Embeddings
) -> dict[str, tuple[Vector, Vector]]:
    """The scores that people gave, and a model's similarities."""
    return {name: (graded.gold, graded.similarities(embeddings)) for name, graded in pairs.items()}


def _size(tasks: Sequence[DocumentTask]) -> int:
    """How many texts judge."""
    return max((task.size for task in tasks), default=0)


def _compared(
    judgements: Sequence[_Judgement], tasks: Sequence[DocumentTask], model: str
) -> Record:
    """The comparisons, and the verdict of the first one."""
    table: dict[str, dict[str, float]] = {}
    compared: Record = dict.fromkeys(HOW)
    for judgement in judgements:
        compared[judgement.kind] = asdict(judgement.comparison)
        for task, scores in judgement.comparison.per_task.items():
            table[task] = {"before": scores.before, "after": scores.after}
    return {
        **compared,
        "measure": measure_in_words(tasks) if tasks else "",
        "verdict": _verdict(judgements, model).record(),
        "table": table,
    }


def _verdict(judgements: Sequence[_Judgement], model: str) -> Verdict:
    """The verdict of the first judge."""
    if not judgements:
        advice = f"Keep {model} until you have compared the two, best by labels (--labels)."
        return Verdict.not_tested(before=model, after=NEW, advice=advice)
    first = judgements[0]
    verdict = Verdict.of(
        first.comparison, before=model, after=NEW, judge=first.judge, measure=first.measure
    )
    if first.kind != "self_made":
        return verdict
    return replace(verdict, advice=f"{verdict.advice} Labels (--labels) would judge better.")


def _evidence(record: Mapping[str, Any]) -> Table:
    """The scores before and after, task by task."""
    notes: list[str] = []
    rows: list[Sequence[str]] = []
    for kind, measured in HOW.items():
        if record[kind]:
            used = record["held_out"]["used"]
            notes.append(measured.format(measure=record["measure"], used=used))
            rows += before_after("", with_average(record[kind])).rows
    return Table("Before and after", ["", *COMPARED], rows, notes=[*notes, HOW_TESTED])


def _card(
    model: str, paths: Sequence[str], record: Mapping[str, Any], whitened: SentenceTransformer
) -> Card:
    """The card of a whitened model: that of the model before, and the whitening."""
    corpus = record["corpus"]
    evidence = _evidence(record)
    step = Step(
        action="Whitened with",
        method="BERT-whitening",
        data=Data.of(paths, corpus["rows"], corpus["used"], corpus["key"]),
        settings=[
            (
                key,
                json.dumps(record[key]),
                "isotrope's default" if record[key] == value else "set for this run",
            )
            for key, value in USUAL.items()
        ],
        cites=cited_keys([Whitening]),
        limits=["The whitening fits the text above. It may fit other text less well."],
    )
    card = Card.of(model).then(step, whitened)
    if not evidence.rows:
        return card
    before = card.base.name if len(card.steps) == 1 else f"the model before step {len(card.steps)}"
    return card.judged(replace(Verdict.from_record(record["verdict"]), before=before), evidence)
