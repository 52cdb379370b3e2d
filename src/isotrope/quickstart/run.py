"""A raw and a good model become better for some documents without a label. Then questions that
nobody has seen judge.

Everything is counted in steps and pairs (``plan.json``), not in seconds, so that every machine does
the same work.
"""

import json
import lzma
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.checksum import files_checksum
from isotrope.improvement.improve import Improvement, improve
from isotrope.quickstart.page import QuickstartResult, quickstart_page
from isotrope.quickstart.questions import JudgedModel, PageQuestions
from isotrope.report.card import Card
from isotrope.report.outcome import REPORT, Outcome
from isotrope.report.page import MODEL
from isotrope.report.saving import save_model
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.training.processes import environment
from isotrope.training.train import train

KIND = "quickstart"
START = "isotrope/tiny"
GOOD = "isotrope/small"
POOLING = "first_last"
IMPROVED = "improve"  # the row of the raw model after `improve`
THREADS = 2  # on every machine: sums in another order would give other figures
BATCH = 64
# As in the study that compares the methods on this model (studies/first.toml): equal for both.
SETTINGS = (
    f"encoder.pooling={POOLING}",
    "terms.infonce.temperature=0.2",
    f"train.batch_size={BATCH}",
    "train.epochs=1",
    "train.eval_steps=1000000",
    "train.learning_rate=1e-3",
    "train.warmup=0",
)
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
    identity = {"seed": seed, "model": files_checksum(model), "plan": plan}
    job = Job(output, KIND, identity, restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            job.begin()
            pages = collection or shipped_pages()
            with _threads(THREADS):
                record = _Quickstart(job, model, pages, plan, seed, console).run()
    return Outcome(job, record, quickstart_page)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let torch use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class _Quickstart:
    """One call of `quickstart`, in a folder that it holds."""

    job: Job
    model: str  # the raw one
    pages: Sequence[Mapping[str, str]]
    plan: Mapping[str, Any]
    seed: int
    console: Console

    def run(self) -> Record:
        """Train, improve, judge, report."""
        began = time.monotonic()
        self._write_documents()
        trained = self._train_raw_model()
        self.console.print(
            "improve: poolings, whitening and a training, compared on tasks made from pages that "
            "it holds out"
        )
        improved = self._improve(self.model, self.plan["improve"], "improved")
        self.console.print(
            f"improve {GOOD}: a good model, where whitening and a map learned from rankings take "
            "seconds"
        )
        better = self._improve(GOOD, self.plan["good"], "better")
        better_row = f"{IMPROVED} {GOOD}"
        models = {
            self.model: load(self.model),
            f"{self.model}, pooling {POOLING}": load(self.model, POOLING),
            **trained,
            IMPROVED: improved.model,
            GOOD: load(GOOD),
            better_row: better.model,
        }
        questions = PageQuestions.of(self.pages)
        judged = self._judge(models, questions)

        result = QuickstartResult(
            model=self.model,
            choices={IMPROVED: improved.choice, better_row: better.choice},
            verdict=questions.verdict(GOOD, better_row, judged, better.choice),
            raw=questions.verdict(self.model, IMPROVED, judged, improved.choice),
            documents=len(self.pages),
            questions=questions.searches.size,
            seed=self.seed,
            steps=self.plan["steps"],
            table={name: scored.scores for name, scored in judged.items()},
            improved=dict(better.record),
            seconds=time.monotonic() - began,
            environment=environment(),
        )
        return self._report(result, better)

    @property
    def _documents(self) -> Path:
        return self.job.folder / "documents.jsonl"

    def _write_documents(self) -> None:
        """Write the pages without their questions."""
        documents = [{"title": page["title"], "text": page["text"]} for page in self.pages]
        lines = [json.dumps(document, ensure_ascii=False) for document in documents]
        write_text(self._documents, "\n".join(lines) + "\n")
        self.console.print(
            f"{len(self.pages):,} pages about commands (tldr-pages, CC BY 4.0); "
            "no label is used until the end"
        )

    def _train_raw_model(self) -> dict[str, SentenceTransformer]:
        """SimCSE, and RankCSE that learns from it, both from the raw model."""
        steps = self.plan["steps"]
        self.console.print(f"SimCSE: {steps} steps on {BATCH * steps:,} sentences of the pages")
        simcse = self._train("simcse")
        self.console.print(
            "RankCSE: as many steps on the same sentences; its teacher is the result of SimCSE"
        )
        return {"SimCSE": simcse, "RankCSE": self._train("rankcse-listnet", simcse=simcse)}

    def _train(self, preset: str, **teachers: SentenceTransformer) -> SentenceTransformer:
        with watch("training", self.console):
            return train(
                _sentences(self.pages),
                preset=preset,
                model=self.model,
                max_texts=BATCH * self.plan["steps"],
                overrides=SETTINGS,
                dev="none",
                labels="none",
                output=self.job.folder / preset,
                seed=self.seed,
                teachers=teachers,
                console=plain_console(quiet=True),
            ).model

    def _improve(self, model: str, plan: Mapping[str, Any], folder: str) -> Improvement:
        with watch("improving", self.console):
            return improve(
                model,
                self._documents,
                output=self.job.folder / folder,
                plan=plan,
                seed=self.seed,
                console=plain_console(quiet=True),
            )

    def _judge(
        self, models: Mapping[str, SentenceTransformer], questions: PageQuestions
    ) -> dict[str, JudgedModel]:
        count = questions.searches.size
        self.console.print(f"judging all models by {count:,} questions that none has seen")
        judged: dict[str, JudgedModel] = {}
        for name, model in models.items():
            with watch("judging", self.console, name):
                judged[name] = questions.judge(model, whitened=not name.startswith(IMPROVED))
        return judged

    def _report(self, result: QuickstartResult, better: Improvement) -> Record:
        """Write the model of the good model's improvement, the page and the record."""
        record = result.model_dump(mode="json")
        save_model(better.model, self.job.folder / MODEL, Card.of(better.folder / MODEL))
        write_text(self.job.folder / REPORT, quickstart_page(record).html())
        return self.job.finish(record)


def _sentences(pages: Sequence[Mapping[str, str]]) -> list[str]:
    """Titles and sentences of the pages, each with a full stop."""
    sentences: list[str] = []
    for page in pages:
        for sentence in (page["title"], *page["text"].split(". ")):
            sentences.append(f"{sentence.rstrip('.')}.")
    return sentences
