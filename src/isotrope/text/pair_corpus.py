"""Pairs drawn from documents, as a corpus with a positive column: written once and found again."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import xxhash
from datasets import Dataset, concatenate_datasets
from numpy.random import Generator, default_rng

from isotrope.console.progress import tell
from isotrope.errors import UserError
from isotrope.store.cache import cached
from isotrope.store.files import new_file
from isotrope.text.corpus import Document, Documents, Texts
from isotrope.text.permutation import RowIds
from isotrope.types import Count

_LAYOUT = 1  # version of the drawing and the layout below; part of the key
_DOCUMENTS_AT_ONCE = 1024  # whose pairs are in memory
_ROUND = "round-{}.arrow"

TextPair = tuple[str, str]  # an anchor and its positive
Drawn = TypeVar("Drawn", bound=tuple[str, ...])
Item = TypeVar("Item")


class PairMaker(Protocol):
    """A component of the stage ``pairs``: a frozen dataclass, whose fields are its options.

    With ``single = True`` it draws single texts, as tuples of one; with ``positives = 2``, an
    anchor and two positives.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def needs(self) -> str:
        """What a document must have for a pair, in words: "two neighbouring sentences"."""

    def __call__(
        self, document: Document, count: int, generator: Generator
    ) -> Sequence[tuple[str, ...]]:
        """At most ``count`` pairs of a document, each different."""


@dataclass(frozen=True)
class Lengths:
    """A component's fewest and most words.

    Raises:
        UserError: the longest text is to be shorter than the shortest.
    """

    shortest: Count
    longest: Count

    def __post_init__(self) -> None:
        if self.longest < self.shortest:
            component = type(self).__module__.rpartition(".")[2]
            raise UserError(
                f"pairs.{component}.longest = {self.longest} is less than "
                f"shortest = {self.shortest}",
                "raise longest",
                "longest-below-shortest",
            )


def distinct(draw: Callable[[], Drawn | None], count: int, tries: int = 8) -> list[Drawn]:
    """At most ``count`` different things that are drawn, in their order.

    Many draws are equal, so there are ``tries`` for each.
    """
    items: dict[Drawn, None] = {}  # a set with an order
    for _ in range(tries * count):
        if len(items) == count:
            break
        item = draw()
        if item:
            items[item] = None
    return list(items)


def random_span(begin: int, end: int, length: int, generator: Generator) -> slice:
    """A span of ``length`` places, from ``begin`` on and before ``end``, drawn uniformly."""
    last_start = end - length
    start = int(generator.integers(begin, last_start + 1))
    return slice(start, start + length)


def shuffled(items: Sequence[Item], count: int, generator: Generator) -> list[Item]:
    """At most ``count`` items in random order."""
    order = generator.permutation(len(items))[:count]
    return [items[number] for number in order.tolist()]


def open_pairs(
    documents: Documents,
    maker: PairMaker,
    *,
    cache: Path,
    rounds: int = 1,
    seed: int = 0,
    held_out: int = 0,
) -> Texts:
    """Draw ``rounds`` pairs of each document, as a corpus.

    Its columns are ``text``, ``positive``, ``positive_1``, … Single texts, of a maker that draws
    such, have the column ``text``. Round r holds the r-th pair of each document that has so many.
    What is drawn of a document depends only on the seed and on its row. ``held_out`` documents give
    no pair: see `Documents.split`. UserError if fewer than two documents give one.
    """
    rows, _ = documents.split(held_out, seed)
    columns = _columns_of(maker)
    unit = "texts" if len(columns) == 1 else "pairs"
    key = _key(documents, maker, rounds, seed, held_out)
    draw = partial(_draw_all, documents, maker, rows, rounds, seed)
    folder = cached(cache / key, draw)
    datasets = []
    for number in range(rounds):
        file = folder / _ROUND.format(number)
        datasets.append(Dataset.from_file(str(file)))
    sizes = tuple(filter(None, map(len, datasets)))
    dataset = concatenate_datasets(datasets)
    dataset = dataset.add_column("label", np.arange(len(dataset)))

    note = f"{len(dataset):,} {unit} drawn from {sizes[0]:,} of {len(rows):,} documents"
    without_pair = len(rows) - sizes[0]
    if without_pair:
        note += f" ({without_pair:,} do not have {maker.needs})"
    if held_out:
        note += f"; {held_out:,} documents are held out"
    report = documents.report
    report = replace(report, notes=(*report.notes, note))
    return Texts(dataset, columns, key, report, sizes)


def _columns_of(maker: PairMaker) -> tuple[str, ...]:
    if getattr(maker, "single", False):
        return ("text",)
    positives = getattr(maker, "positives", 1)
    further = [f"positive_{number}" for number in range(1, positives)]
    return ("text", "positive", *further)


def _key(documents: Documents, maker: PairMaker, rounds: int, seed: int, held_out: int) -> str:
    """Checksum of all that decides what is drawn."""
    kind = f"{type(maker).__module__}:{type(maker).__qualname__}"
    settings = ["pairs", _LAYOUT, documents.key, kind, asdict(maker), rounds, seed, held_out]
    described = json.dumps(settings, sort_keys=True)
    return xxhash.xxh3_128_hexdigest(described.encode())


def _draw_all(
    documents: Documents, maker: PairMaker, rows: RowIds, rounds: int, seed: int, draft: Path
) -> None:
    """Write the pairs of all rounds, a file each, in one pass over the documents."""
    columns = _columns_of(maker)
    unit = "texts" if len(columns) == 1 else "pairs"
    schema = pa.schema(dict.fromkeys(columns, pa.string()))
    documents_with_pair = 0
    with ExitStack() as stack:
        writers = []
        for number in range(rounds):
            file = stack.enter_context(new_file(draft / _ROUND.format(number)))
            writer = stack.enter_context(pa.ipc.new_stream(file, schema))
            writers.append(writer)
        for begin in range(0, len(rows), _DOCUMENTS_AT_ONCE):
            tell(f"drew {unit} from", begin, len(rows))
            batch = rows[begin : begin + _DOCUMENTS_AT_ONCE]
            pairs_of_documents = []
            batch_documents = documents.each(batch)
            for row, document in zip(batch.tolist(), batch_documents, strict=True):
                generator = default_rng([seed, row])
                pairs_of_documents.append(maker(document, rounds, generator))
            documents_with_pair += sum(map(bool, pairs_of_documents))
            # A document may have no pair for the later rounds.
            for writer, pairs in zip(writers, zip_longest(*pairs_of_documents), strict=False):
                texts_of_columns = list(zip(*filter(None, pairs), strict=True))
                writer.write_batch(pa.record_batch(texts_of_columns, schema=schema))
    if documents_with_pair < 2:
        has = "has" if documents_with_pair == 1 else "have"
        raise UserError(
            f"{documents_with_pair} of {len(rows):,} documents {has} {maker.needs}",
            f"give documents with {maker.needs}, or choose another kind of pairs",
            "too-few-pairs",
        )
