"""Pairs drawn from documents, as a corpus with a positive column: written once and found again."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import xxhash
from datasets import Dataset, concatenate_datasets

from isotrope.console.progress import tell
from isotrope.errors import UserError
from isotrope.store.cache import cached
from isotrope.store.files import new_file
from isotrope.text.corpus import Document, Documents, Texts
from isotrope.types import Count

_LAYOUT = 1  # version of the drawing and the layout below; part of the key
_AT_ONCE = 1024  # documents whose pairs are in memory
_ROUND = "round-{}.arrow"

TextPair = tuple[str, str]  # an anchor and its positive
Drawn = TypeVar("Drawn", bound=tuple[str, ...])


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
        self, document: Document, count: int, generator: np.random.Generator
    ) -> Sequence[tuple[str, ...]]:
        """At most ``count`` pairs of a document, each different."""


@dataclass(frozen=True)
class Lengths:
    """A component's fewest and most words; UserError if the longest text is to be shorter than the
    shortest.
    """

    shortest: Count
    longest: Count

    def __post_init__(self) -> None:
        if self.longest < self.shortest:
            key = f"pairs.{type(self).__module__.rpartition('.')[2]}.longest"
            raise UserError(
                f"{key} = {self.longest} is less than shortest = {self.shortest}", "raise longest"
            )


def distinct(draw: Callable[[], Drawn | None], count: int, tries: int = 8) -> list[Drawn]:
    """At most ``count`` different things that are drawn, in their order; so many draws for each, as
    many are equal.
    """
    found = dict[Drawn, None]()  # a set with an order
    for _ in range(tries * count):
        if len(found) < count and (one := draw()):
            found[one] = None
    return list(found)


def open_pairs(
    documents: Documents,
    maker: PairMaker,
    *,
    cache: Path,
    rounds: int = 1,
    seed: int = 0,
    held_out: int = 0,
) -> Texts:
    """Draws ``rounds`` pairs of each document: a corpus with the columns ``text``, ``positive``,
    ``positive_1``, …

    Single texts, of a maker that draws such, have the column ``text``. Round r holds the r-th pair
    of each document that has so many. What is drawn of a document depends only on the seed and on
    its row. ``held_out`` documents give no pair: see `Documents.split`. UserError if fewer than two
    documents give one.
    """
    rows, _ = documents.split(held_out, seed)
    kind = f"{type(maker).__module__}:{type(maker).__qualname__}"
    decides = ["pairs", _LAYOUT, documents.key, kind, asdict(maker), rounds, seed, held_out]
    key = xxhash.xxh3_128_hexdigest(json.dumps(decides, sort_keys=True).encode())
    further = (f"positive_{number}" for number in range(1, getattr(maker, "positives", 1)))
    single = getattr(maker, "single", False)
    names, unit = (("text",), "texts") if single else (("text", "positive", *further), "pairs")
    schema = pa.schema([(name, pa.string()) for name in names])

    def make(draft: Path) -> None:
        sizes = [0] * rounds
        with ExitStack() as stack:
            files = [
                stack.enter_context(new_file(draft / _ROUND.format(number)))
                for number in range(rounds)
            ]
            writers = [stack.enter_context(pa.ipc.new_stream(file, schema)) for file in files]
            for begin in range(0, len(rows), _AT_ONCE):
                tell(f"drew {unit} from", begin, len(rows))
                some = rows[begin : begin + _AT_ONCE]
                each = zip(documents.each(some), some.tolist(), strict=True)
                drawn = [
                    maker(document, rounds, np.random.default_rng([seed, row]))
                    for document, row in each
                ]
                for number, writer in enumerate(writers):
                    if pairs := [found[number] for found in drawn if len(found) > number]:
                        columns = [
                            pa.array(column, pa.string()) for column in zip(*pairs, strict=True)
                        ]
                        writer.write_batch(pa.record_batch(columns, schema=schema))
                        sizes[number] += len(pairs)
        if sizes[0] < 2:
            problem = f"{sizes[0]} of {len(rows):,} documents {'has' if sizes[0] == 1 else 'have'} {maker.needs}"
            raise UserError(
                problem, f"give documents with {maker.needs}, or choose another kind of pairs"
            )

    folder = cached(cache / key, make)
    parts = [Dataset.from_file(str(folder / _ROUND.format(number))) for number in range(rounds)]
    sizes, dataset = tuple(filter(None, map(len, parts))), concatenate_datasets(parts)
    dataset = dataset.add_column("label", np.arange(len(dataset)))
    left = f" ({len(rows) - sizes[0]:,} do not have {maker.needs})" if sizes[0] < len(rows) else ""
    held = f"; {held_out:,} documents are held out" if held_out else ""
    note = f"{len(dataset):,} {unit} drawn from {sizes[0]:,} of {len(rows):,} documents{left}{held}"
    report = replace(documents.report, notes=(*documents.report.notes, note))
    return Texts(dataset, names, key, report, sizes)
