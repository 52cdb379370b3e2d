"""Whiten a model for good: a linear layer after it, in plain sentence-transformers format, and
whether that helped.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
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
from isotrope.evaluation.significance import compare as compare_cases
from isotrope.evaluation.similarity import similarity_of
from isotrope.evaluation.sts import main_pairs, similarities
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.improve import Improvement
from isotrope.post.fitted import with_linear
from isotrope.post.whitening import SOFT_WHITENING, Whitening, check_size, fewest_rows, whitening
from isotrope.report.card import Card, Data, Step
from isotrope.report.comparison import COMPARED, before_after, with_average
from isotrope.report.outcome import REPORT
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import save_model
from isotrope.report.tables import Table
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.text import TextLike, read_text
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import Sample
from isotrope.training.pairs import DEV_SETS, dev_names, dev_pairs
from isotrope.types import Encoder

KIND, NEW = "whitening", "the whitened model"
HELD_OUT = 2_000  # texts at most that the comparison keeps from the fit
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
    sentences: int = 20_000,
    seed: int = 0,
    text: str | None = None,
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
        sentences: at most so many are sampled for the fit; more than D are needed, or than k.
            Exponent 0 only needs 2.
        seed: of the sample.
        text: the column of the texts, in tables.
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
    if not 0 <= exponent <= 0.5:
        raise UserError(
            f"exponent = {exponent}", "choose 0 (centring alone) to 0.5 (full whitening)"
        )
    judging = _judges(labels, columns, data)
    where = located(model)
    with watch("loading", console):
        encoder = load(where, pooling, prompt=prompt, prompt_name=prompt_name)
        if note := Prompts(prompt, prompt_name).note(encoder, where):
            console.print(note)
        opened = read_text(documents, text_column=text, split=split)
        corpus = opened.texts()
    asked = {"k": k, "exponent": exponent, "seed": seed, "pooling": pooling, "split": opened.split}
    identity = {
        **asked,
        "model": files_checksum(where),
        "documents": corpus.key,
        "sentences": sentences,
        "compare": compare,
        "prompt": used_prompt(encoder),
        "labels": {name: each.checksum() for name, each in judging.items()},
    }
    job = Job(output, KIND, identity, [opened], restart=restart)
    with job.held():
        if (record := job.result()) is not None:
            return Improvement(job, record, whitening_page)
        console.print(str(corpus.report))
        every, limit = Sample(corpus, None, seed), encoder.max_seq_length or 512
        for line in coverage(
            encoder, used_prompt(encoder), every, limit, longest=limit, split=not opened.split
        ):
            console.print(line)
        dim = int(encoder.get_embedding_dimension())
        drawn = every.texts(sentences + HELD_OUT)
        if warning := unknown_warning(encoder, drawn):
            console.print(warning)
        kept = (
            max(0, min(HELD_OUT, len(drawn) // 5, len(drawn) - fewest_rows(dim, k, exponent)))
            if compare
            else 0
        )
        fitted_on, held = drawn[: len(drawn) - kept][:sentences], drawn[len(drawn) - kept :]
        wanted = check_size(len(fitted_on), dim, k, exponent)
        tasks = tasks_of_texts(held)
        judged = [text for each in judging.values() for text in each.texts]
        texts = list(
            dict.fromkeys([*fitted_on, *(text for task in tasks for text in task.texts), *judged])
        )
        job.begin()
        console.print(threads_line())
        with watch("encoding", console):
            vectors = vectors_of(encoder, texts, batch_size=32)
            old = Embeddings(texts, vectors, similarity=similarity_of(encoder))
        mean, matrix = whitening(np.asarray(old.encode(fitted_on), dtype=np.float64), k, exponent)
        new, encoder = (
            Embeddings(texts, (old.vectors - mean) @ matrix, similarity=old.similarity_fn_name),
            with_linear(encoder, mean, matrix),
        )
        record = {
            **asked,
            "choice": f"whitening with exponent {exponent:g}",
            "model": Base.of(where).name,
            "prompt": encoder.prompts.get(encoder.default_prompt_name or ""),
            "corpus": {"key": corpus.key, "rows": len(corpus), "used": len(fitted_on)},
            "dimensions": {
                "before": dim,
                "after": matrix.shape[1],
                "left_out": wanted - matrix.shape[1],
            },
            "unit_length": isinstance(encoder[-1], Normalize),
            "held_out": {"texts": len(held), "used": max((task.size for task in tasks), default=0)},
            **_compared(old, new, tasks, judging, Base.of(where).name),
        }
        opened.check()
        card = _card(where, opened.paths, record, encoder)
        save_model(encoder, job.folder / MODEL, card)
        write_text(job.folder / REPORT, whitening_page(record).html())
        return Improvement(job, job.finish(record), whitening_page)


def _judges(labels: Any, columns: Any, data: str | Path | None) -> dict[str, Labels]:
    """What judges, by name."""
    each = labels if isinstance(labels, list | tuple) else [labels]
    if not all(isinstance(one, str) for one in each):  # a table
        own = read_labels(labels, columns)
        return {own.name: own}
    names = dev_names(each)
    read = [read_labels(one, columns) for one in names if one not in DEV_SETS]
    return {
        **dev_pairs([one for one in names if one in DEV_SETS], data),
        **{one.name: one for one in read},
    }


def whitening_page(record: Mapping[str, Any]) -> Page:
    """The page of a whitened model."""
    evidence, verdict = _evidence(record), Verdict.from_record(record["verdict"])
    tables = [evidence] if evidence.rows else []
    return Page(
        title=f"Whitened: {record['model']}",
        lead=[fitted_line(record)],
        verdict=verdict,
        tables=tables,
    )


def fitted_line(record: Mapping[str, Any]) -> str:
    """What was fitted, in a sentence."""
    dimensions = record["dimensions"]
    fitted = f"whitened with exponent {record['exponent']:g}, fitted on {record['corpus']['used']:,} texts"
    left_out = f", {dimensions['left_out']} left out since the text does not vary there" * bool(
        dimensions["left_out"]
    )
    unit = "; vectors keep unit length" * record["unit_length"]
    return f"{fitted}: {dimensions['before']} → {dimensions['after']} dimensions{left_out}{unit}"


def _compared(
    old: Encoder,
    new: Encoder,
    tasks: Sequence[DocumentTask],
    judging: Mapping[str, Labels],
    model: str,
) -> Record:
    """The comparisons, and the verdict of the first one: labels come before tasks that nobody
    labelled.
    """
    sets = {
        name: {"test": pairs} for name, pairs in judging.items() if isinstance(pairs, GradedPairs)
    }
    searched = [each for each in judging.values() if isinstance(each, RetrievalSet)]
    found, measure = {}, measure_in_words(tasks) if tasks else ""
    told = dict[str, tuple[str, str]]()  # what judges, and what it measures
    if sets:
        before, after = (main_pairs(sets, similarities(encoder, sets)) for encoder in (old, new))
        found["pairs"] = compare_cases(before, after)
        count = sum(len(each["test"]) for each in sets.values())
        told["pairs"] = f"{count:,} graded pairs of {', '.join(sets)}", "Spearman × 100"
    if searched:
        first, then = ({one.name: one.score(encoder) for one in searched} for encoder in (old, new))
        found["queries"] = compare_cases(first, then)
        told["queries"] = ", ".join(map(in_words, searched)), "nDCG@10 × 100"
    if tasks:
        found["self_made"] = compare_on_documents(old, new, tasks)
        told["self_made"] = f"{max(task.size for task in tasks):,} of your own documents", measure
    advice = f"Keep {model} until you have compared the two, best by labels (--labels)."
    verdict = Verdict.not_tested(before=model, after=NEW, advice=advice)
    if found:
        kind = next(iter(found))
        judge, of = told[kind]
        verdict = Verdict.of(found[kind], before=model, after=NEW, judge=judge, measure=of)
        if kind == "self_made":
            verdict = replace(
                verdict, advice=f"{verdict.advice} Labels (--labels) would judge better."
            )
    table = {
        task: {"before": of.before, "after": of.after}
        for each in found.values()
        for task, of in each.per_task.items()
    }
    compared = {kind: asdict(found[kind]) if kind in found else None for kind in HOW}
    return {**compared, "measure": measure, "verdict": verdict.record(), "table": table}


def _evidence(record: Mapping[str, Any]) -> Table:
    found = [kind for kind in HOW if record[kind]]
    notes = [
        HOW[kind].format(measure=record["measure"], used=record["held_out"]["used"])
        for kind in found
    ]
    rows = [row for kind in found for row in before_after("", with_average(record[kind])).rows]
    return Table("Before and after", ["", *COMPARED], rows, notes=[*notes, HOW_TESTED])


def _card(
    model: str, paths: Sequence[str], record: Mapping[str, Any], whitened: SentenceTransformer
) -> Card:
    """The card of a whitened model: that of the model before, and the whitening."""
    corpus, evidence = record["corpus"], _evidence(record)
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
