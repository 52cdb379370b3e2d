"""A raw and a good model become better for some documents without a label. Then questions that
nobody has seen judge.

Everything is counted in steps and pairs (``plan.json``), not in seconds, so that every machine does
the same work.
"""

import json
import lzma
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from scipy.sparse import csr_array
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.embed import Vectors, search_vectors, vectors_of
from isotrope.encoder.length import limit_length
from isotrope.evaluation.search import CUTOFF, by_cosine, rank_search, reciprocal_rank
from isotrope.evaluation.sets.retrieval_set import RetrievalSet
from isotrope.evaluation.significance import compare_means
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.improve import improve
from isotrope.improvement.page import candidates_table, choice_figures
from isotrope.improvement.result import RaceResult
from isotrope.improvement.steps import WHITENINGS, linear_step
from isotrope.report.card import Card
from isotrope.report.examples import Answers, SearchChanges, examples_table
from isotrope.report.outcome import REPORT, Outcome
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.training.processes import environment
from isotrope.training.train import train
from isotrope.types import Vector

KIND, START, GOOD, POOLING = "quickstart", "isotrope/tiny", "isotrope/small", "first_last"
IMPROVED, BETTER = "improve", f"improve {GOOD}"  # rows of the table
THREADS = 2  # on every machine: sums in another order would give other figures
READ = 64  # tokens of a page that the judged models read
# As in the study that compares the methods on this model (studies/first.toml): equal for both.
SETTINGS = (
    f"encoder.pooling={POOLING}", "terms.infonce.temperature=0.2", "train.batch_size=64", "train.epochs=1",
    "train.eval_steps=1000000", "train.learning_rate=1e-3", "train.warmup=0",
)  # fmt: skip
COLUMNS = MRR, WHITENED, FIRST = "MRR@10", "then whitening", "right page first"
SHIPPED = files("isotrope.quickstart")
PLAN: Mapping[str, Any] = json.loads((SHIPPED / "plan.json").read_bytes())


def shipped_pages() -> list[dict[str, str]]:
    """The collection that ships: 3,600 pages about commands, with ``name``, ``title``, ``text``,
    ``asked``.
    """
    packed = (SHIPPED / "tldr.jsonl.xz").read_bytes()
    return [json.loads(line) for line in lzma.decompress(packed).decode().splitlines()]


def quickstart(
    output: str | Path | None = "isotrope-quickstart",
    *,
    seed: int = 0,
    model: str = START,
    plan: Mapping[str, Any] = PLAN,
    collection: Sequence[Mapping[str, str]] | None = None,
    restart: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Make a raw model better for the pages that ship in several ways, and let their questions
    judge all of them.

    Called again after a stop or a kill, it goes on. After its end, it gives the same result again.

    Args:
        output: a folder for the documents, the model and the report; None: a temporary one.
        seed: of all random numbers.
        model: to begin with.
        plan: the steps of a training, and the work of `improve`.
        collection: pages; None: `shipped_pages`.
        restart: forget what an earlier call left in the output.
        console: where to report; None reports to the terminal.

    Raises:
        UserError: as `isotrope.store.job.Job`.
        Stopped: Ctrl-C.
    """
    console = console or plain_console()
    job = Job(
        output, KIND, {"seed": seed, "model": files_checksum(model), "plan": plan}, restart=restart
    )
    with job.held():
        record = job.result()
        if record is None:
            job.begin()
            threads = torch.get_num_threads()
            torch.set_num_threads(THREADS)
            try:
                record = _made(job, model, collection or shipped_pages(), plan, seed, console)
            finally:
                torch.set_num_threads(threads)
    return Outcome(job, record, quickstart_page)


def advice(record: Mapping[str, Any]) -> str:
    """The sentence for a reader who reads only one."""
    if record["verdict"]["word"] != "better":
        return "Keep the old model: the new one was not found to be better."
    asked = record["questions"]
    new, old = (round(asked * record["table"][name][FIRST]) for name in (BETTER, GOOD))
    return f"Use the new model: it finds the right page first for {new} of {asked} questions, the old one for {old}."


def quickstart_page(record: Mapping[str, Any]) -> Page:
    """The page: what to do, all models, questions, and the candidates of `improve` for the good
    model.
    """
    raw, verdict = (Verdict.from_record(record[name]) for name in ("raw", "verdict"))
    return Page(
        title=f"Quickstart: {GOOD} for {record['documents']:,} pages about commands",
        lead=[
            advice(record),
            f"{record['questions']:,} questions, each written for a page by its authors, searched all pages. No model "
            "was trained on them or chosen by them.",
            f"The raw model: {raw.word}: {raw.evidence}. {raw.advice}",
        ],
        verdict=verdict,
        tables=[
            *quickstart_tables(record),
            candidates_table(RaceResult.of(record["improved"])),
        ],
        figures=choice_figures(RaceResult.of(record["improved"])),
        switch=Switch.from_record(record["improved"]) if verdict.word == "better" else None,
    )


def quickstart_tables(record: Mapping[str, Any]) -> list[Table]:
    """How well each model finds the right page, and what some questions found before and after."""
    rows, choices = [], record["choices"]
    for name, row in record["table"].items():
        scores = (f"{100 * row[column]:.2f}" if column in row else "included" for column in COLUMNS)
        rows.append([f"{name}: {choices[name]}" if name in choices else name, *scores])
    title = f"{record['questions']:,} questions search {record['documents']:,} pages, × 100"
    shown = [examples_table(record["shown"], between=" · ")] if record["shown"]["told"] else []
    return [Table(title, ["", *COLUMNS], rows), *shown]


def _made(
    job: Job,
    model: str,
    rows: Sequence[Mapping[str, str]],
    plan: Mapping[str, Any],
    seed: int,
    console: Console,
) -> Record:
    began, documents = time.monotonic(), job.folder / "documents.jsonl"
    lines = (
        json.dumps({"title": row["title"], "text": row["text"]}, ensure_ascii=False) for row in rows
    )
    write_text(documents, "\n".join(lines) + "\n")
    console.print(
        f"{len(rows):,} pages about commands (tldr-pages, CC BY 4.0); no label is used until the end"
    )
    sentences = [
        f"{each.rstrip('.')}." for row in rows for each in (row["title"], *row["text"].split(". "))
    ]
    quiet, size = plain_console(quiet=True), 64 * plan["steps"]

    def trained(preset: str, told: str, **teachers: SentenceTransformer) -> SentenceTransformer:
        console.print(told)
        with watch("training", console):
            return train(
                sentences,
                preset=preset,
                model=model,
                max_texts=size,
                overrides=SETTINGS,
                dev="none",
                labels="none",
                output=job.folder / preset,
                seed=seed,
                teachers=teachers,
                console=quiet,
            ).model

    models = {model: load(model), f"{model}, pooling {POOLING}": load(model, POOLING)}
    models["SimCSE"] = trained(
        "simcse", f"SimCSE: {plan['steps']} steps on {size:,} sentences of the pages"
    )
    told = "RankCSE: as many steps on the same sentences; its teacher is the result of SimCSE"
    models["RankCSE"] = trained("rankcse-listnet", told, simcse=models["SimCSE"])
    console.print(
        "improve: poolings, whitening and a training, compared on tasks made from pages that it holds out"
    )
    given: dict[str, Any] = {"documents": documents, "seed": seed, "console": quiet}
    with watch("improving", console):
        found = improve(model, plan=plan["improve"], output=job.folder / "improved", **given)
    console.print(
        f"improve {GOOD}: a good model, where whitening and a map learned from rankings take seconds"
    )
    with watch("improving", console):
        better = improve(GOOD, plan=plan["good"], output=job.folder / "better", **given)
    models |= {IMPROVED: found.model, GOOD: load(GOOD), BETTER: better.model}
    texts, asked = (
        [f"{row['title']} {row['text']}" for row in rows],
        [row["asked"] for row in rows if row["asked"]],
    )
    right = [place for place, row in enumerate(rows) if row["asked"]]
    grades = csr_array(
        (np.ones(len(right)), (np.arange(len(right)), right)), shape=(len(right), len(rows))
    )
    domain = RetrievalSet("questions", asked, [row["name"] for row in rows], grades)
    console.print(f"judging all models by {len(asked):,} questions that none has seen")
    table, ranks, answers = dict[str, dict[str, float]](), {}, {}
    for name, encoder in models.items():
        with watch("judging", console, name), limit_length(encoder, READ):
            if name == BETTER and RaceResult.of(better.record).keeps_documents:
                # its pages have the vectors of GOOD, the last model
                queries = vectors_of(encoder, asked, role="query")
            else:
                queries, pages = search_vectors(encoder, asked, texts)
        ranks[name] = _ranks(queries, pages, domain)
        answers[name] = Answers.of(domain, queries, pages)
        table[name] = {MRR: float(np.mean(ranks[name])), FIRST: float(np.mean(ranks[name] == 1))}
        if name not in (IMPROVED, BETTER):
            mean, matrix = linear_step(WHITENINGS["full whitening"]).linear(
                np.asarray(pages, dtype=np.float64)
            )
            table[name][WHITENED] = float(
                np.mean(_ranks((queries - mean) @ matrix, (pages - mean) @ matrix, domain))
            )
    judge = f"{len(asked):,} questions that no candidate has seen"

    def verdict(before: str, after: str, choice: str) -> Record:
        compared = compare_means(ranks[before], ranks[after])
        return asdict(
            Verdict.of(compared, before=before, after=choice, judge=judge, measure="MRR@10 × 100")
        )

    record = {
        "model": model,
        "choices": {IMPROVED: found.choice, BETTER: better.choice},
        "verdict": verdict(GOOD, BETTER, better.choice),
        "raw": verdict(model, IMPROVED, found.choice),
        "documents": len(rows),
        "questions": len(asked),
        "seed": seed,
        "steps": plan["steps"],
        "table": table,
        "shown": asdict(SearchChanges.of(domain, answers[GOOD], answers[BETTER])),
        "improved": better.record,
        "seconds": time.monotonic() - began,
        "environment": environment(),
    }
    save_model(better.model, job.folder / MODEL, Card.of(better.folder / MODEL))
    write_text(job.folder / REPORT, quickstart_page(record).html())
    return job.finish(record)


def _ranks(queries: Vectors, pages: Vectors, domain: RetrievalSet) -> Vector:
    """1 / place of each question's page, 0 beyond the tenth: (Q,)."""
    return reciprocal_rank(rank_search(by_cosine(queries, pages), domain.grades, CUTOFF), CUTOFF)
