"""A model with the tokens that some documents need: made without training, alone or to begin a
training with.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.console.progress import watch
from isotrope.encoder import load
from isotrope.encoder.checksum import files_checksum, model_checksum
from isotrope.encoder.locate import public_name
from isotrope.encoder.prompts import refuse_routes
from isotrope.encoder.vocabulary import keep_tokens, token_counts
from isotrope.evaluation.verdict import Verdict
from isotrope.report.card import Card, Data, Step
from isotrope.report.outcome import REPORT, Outcome, framed
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import save_model
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.store.cache import cache_folder, cached
from isotrope.store.files import Record, write_text
from isotrope.store.job import Job
from isotrope.text import TextSource

KIND = "vocabulary"
SAME = "A text that needs none of the lost tokens keeps its vector to the last bit."


class Cut(Outcome):
    """A model that knows fewer tokens."""

    @property
    def kept(self) -> float:
        """The share of the tokens in the documents that are read as before."""
        return 1 - float(self.record["lost"])

    @property
    def table(self) -> Any:
        """Tokens and bytes, before and after; a DataFrame if pandas is installed."""
        named = {what: self.record[what] for what in ("tokens", "bytes")}
        return framed(
            {what: dict(zip(("before", "after"), of, strict=True)) for what, of in named.items()}
        )


def cut_alone(
    teacher: str,
    count: int,
    opened: TextSource,
    output: str | Path | None,
    restart: bool,
    console: Console,
) -> Cut:
    """The model with ``count`` tokens, in a folder, as the result of the command. Nothing is
    trained.
    """
    identity = {
        "model": files_checksum(teacher),
        "documents": opened.documents().key,
        "vocabulary": count,
    }
    job = Job(output, KIND, identity, [opened], restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            model, record, card = _cut(teacher, count, opened, console)
            job.begin()
            save_model(model, job.folder / MODEL, card)
            write_text(job.folder / REPORT, cut_page(record).html())
            record = job.finish(record)
    return Cut(job, record, cut_page)


def cut_first(teacher: str, count: int, opened: TextSource, console: Console) -> str:
    """The same in the cache, to begin a training with: its folder."""
    model, _, card = _cut(teacher, count, opened, console)
    place = cache_folder("models", model_checksum(model))
    folder = cached(place, lambda draft: save_model(model, draft / MODEL, card))
    return str(folder / MODEL)


def _cut(
    teacher: str, count: int, opened: TextSource, console: Console
) -> tuple[SentenceTransformer, Record, Card]:
    """The model, what was lost, and its card. A line on the console tells what is lost, before
    anything is written.
    """
    model, found = load(teacher, device="cpu"), opened.documents()
    refuse_routes(model, teacher)
    big, total = _bytes(model), len(model.tokenizer)
    with watch("counting tokens", console):
        counts = token_counts(model, (document.text for document in found.each()))
    model, kept = keep_tokens(model, count, counts)
    occurring, little = int(counts.sum()), _bytes(model)
    lost = int(occurring - counts[kept].sum()) / max(1, occurring)
    line = (
        f"of {occurring:,} tokens in your documents {100 * lost:.2g} % are read in smaller pieces"
    )
    console.print(line)
    advice = (
        f"Of{line[2:]}. {SAME} Its weights have {little / 1e6:.1f} MB, and had {big / 1e6:.1f} MB."
    )
    verdict = Verdict.not_tested(
        before=public_name(teacher), after="the smaller model", advice=advice
    )
    record = {
        "occurring": occurring,
        "lost": lost,
        "tokens": [total, count],
        "bytes": [big, little],
        "switch": Switch.of(model).model_dump(),
    }
    data = Data.of([opened.name], len(found), len(found), found.key)
    step = Step(
        action="Cut to", method=f"{count:,} tokens", data=data, limits=[f"{line.capitalize()}."]
    )
    return model, {**record, "verdict": verdict.record()}, Card.of(teacher).then(step, model)


def cut_table(record: Mapping[str, Any]) -> Table:
    """Tokens and weights, before and after."""
    rows = [["tokens", *(f"{count:,}" for count in record["tokens"])]]
    rows.append(["weights, MB", *(f"{size / 1e6:.1f}" for size in record["bytes"])])
    return Table("Tokens and size", ["", "before", "after"], rows, notes=[SAME])


def cut_page(record: Mapping[str, Any]) -> Page:
    """The page of a model with fewer tokens."""
    verdict = Verdict.from_record(record["verdict"])
    return Page(
        f"Compress: {verdict.before}",
        verdict=verdict,
        tables=[cut_table(record)],
        switch=Switch.from_record(record),
    )


def _bytes(model: SentenceTransformer) -> int:
    return sum(weight.numel() * weight.element_size() for weight in model.state_dict().values())
