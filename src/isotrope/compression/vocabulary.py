"""A model with the tokens that some documents need: made without training, alone or to begin a
training with.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from sentence_transformers import SentenceTransformer

from isotrope.compression.cost import weight_bytes
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

if TYPE_CHECKING:
    import pandas as pd

KIND = "vocabulary"
SAME = "A text that needs none of the lost tokens keeps its vector to the last bit."


class Cut(Outcome):
    """A model that knows fewer tokens."""

    @property
    def kept(self) -> float:
        """The share of the tokens in the documents that are read as before."""
        return 1 - float(self.record["lost"])

    @property
    def table(self) -> "pd.DataFrame":
        """Tokens and bytes, before and after."""
        rows = {}
        for name in ("tokens", "bytes"):
            before, after = self.record[name]
            rows[name] = {"before": before, "after": after}
        return framed(rows)

    def tables(self) -> list[Table]:
        """Tokens and size, to be shown."""
        return [cut_table(self.record)]


@dataclass(frozen=True, slots=True)
class _SmallerModel:
    """A model with fewer tokens, what it lost, and its card."""

    model: SentenceTransformer
    record: Record
    card: Card


def cut_alone(
    teacher: str,
    count: int,
    source: TextSource,
    output: str | Path | None,
    restart: bool,
    console: Console,
) -> Cut:
    """The model with ``count`` tokens, in a folder, as the result of the command. Nothing is
    trained.
    """
    identity = {
        "model": files_checksum(teacher),
        "documents": source.documents().key,
        "vocabulary": count,
    }
    job = Job(output, KIND, identity, [source], restart=restart)
    with job.held():
        record = job.result()
        if record is None:
            smaller = _cut(teacher, count, source, console)
            job.begin()
            save_model(smaller.model, job.folder / MODEL, smaller.card)
            write_text(job.folder / REPORT, cut_page(smaller.record).html())
            record = job.finish(smaller.record)
    return Cut(job, record, cut_page)


def cut_first(teacher: str, count: int, source: TextSource, console: Console) -> str:
    """The same in the cache, to begin a training with: its folder."""
    smaller = _cut(teacher, count, source, console)
    cache_path = cache_folder("models", model_checksum(smaller.model))
    folder = cached(
        cache_path, lambda draft: save_model(smaller.model, draft / MODEL, smaller.card)
    )
    return str(folder / MODEL)


def _cut(teacher: str, count: int, source: TextSource, console: Console) -> _SmallerModel:
    """Leave out the tokens that the documents need least. A line on the console tells what is lost,
    before anything is written.
    """
    model = load(teacher, device="cpu")
    refuse_routes(model, teacher)
    documents = source.documents()
    bytes_before = weight_bytes(model)
    tokens_before = len(model.tokenizer)

    with watch("counting tokens", console):
        counts = token_counts(model, (document.text for document in documents.each()))
    model, kept_ids = keep_tokens(model, count, counts)

    occurring = int(counts.sum())
    lost = int(occurring - counts[kept_ids].sum()) / max(1, occurring)
    lost_line = (
        f"of {occurring:,} tokens in your documents {100 * lost:.2g} % are read in smaller pieces"
    )
    console.print(lost_line)

    bytes_after = weight_bytes(model)
    sizes = f"Its weights have {bytes_after / 1e6:.1f} MB, and had {bytes_before / 1e6:.1f} MB."
    verdict = Verdict.not_tested(
        before=public_name(teacher),
        after="the smaller model",
        advice=f"{lost_line.capitalize()}. {SAME} {sizes}",
    )
    record = {
        "occurring": occurring,
        "lost": lost,
        "tokens": [tokens_before, count],
        "bytes": [bytes_before, bytes_after],
        "switch": Switch.of(model).model_dump(),
        "verdict": verdict.record(),
    }
    step = Step(
        action="Cut to",
        method=f"{count:,} tokens",
        data=Data.of([source.name], len(documents), len(documents), documents.key),
        limits=[f"{lost_line.capitalize()}."],
    )
    return _SmallerModel(model, record, Card.of(teacher).then(step, model))


def cut_table(record: Mapping[str, Any]) -> Table:
    """Tokens and weights, before and after."""
    rows = [
        ["tokens", *(f"{count:,}" for count in record["tokens"])],
        ["weights, MB", *(f"{size / 1e6:.1f}" for size in record["bytes"])],
    ]
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
