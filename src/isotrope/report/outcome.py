"""What a command gives back in Python: the model, the verdict, the numbers, and a page."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.encoder import load, save
from isotrope.evaluation.verdict import Verdict
from isotrope.report.page import Page
from isotrope.report.tables import Marks, Table
from isotrope.store.files import write_text
from isotrope.store.job import Job

MODEL, REPORT = "model", "report.html"  # in the folder of the job


class Outcome:
    """A finished job that made a model. ``record`` is all that ``result.json`` in its ``folder``
    holds.

    If no output was named, the folder is temporary and lives as long as this object.
    """

    def __init__(
        self, job: Job, record: Mapping[str, Any], page: Callable[[Mapping[str, Any]], Page]
    ) -> None:
        self.job, self._page = job, page  # a temporary folder goes with its job
        self.folder, self.record = job.folder, record

    def __repr__(self) -> str:
        """As a notebook shows it: the verdict, and where the work lies."""
        return f"{type(self).__name__} in {self.folder}\n{self.verdict}"

    @cached_property
    def model(self) -> SentenceTransformer:
        """The model, loaded."""
        return load(self.folder / MODEL)

    @property
    def verdict(self) -> Verdict:
        """Whether the model is better than the one that was given, and what judged."""
        return Verdict.from_record(self.record["verdict"])

    @property
    def table(self) -> Any:
        """The scores as fractions, a row each: a pandas DataFrame if pandas is installed, else row
        → column → score.
        """
        return framed(self.record["table"])

    def save(self, folder: str | Path) -> Path:
        """Write the model with its card, in plain sentence-transformers format."""
        card = (self.folder / MODEL / "README.md").read_text(encoding="utf-8")
        save(self.model, Path(folder), card=card)
        return Path(folder)

    def report(self, file: str | Path) -> Path:
        """Write the report: one HTML file without scripts or anything from outside."""
        write_text(Path(file), self._page(self.record).html())
        return Path(file)


def framed(table: Mapping[str, Mapping[str, float]]) -> Any:
    """Row → column → number as a pandas DataFrame, or as it is without pandas."""
    try:
        import pandas
    except ImportError:
        return table
    return pandas.DataFrame.from_dict(table, orient="index")


def how_to_switch(for_queries: bool = False) -> Table:
    """The code that loads the new model, and what the switch costs: nothing if only queries are
    read anew.
    """
    code = [
        "from sentence_transformers import SentenceTransformer",
        f'model = SentenceTransformer("{MODEL}")  # the folder beside the report of the run',
        "vectors = model.encode_query(queries)"
        if for_queries
        else "vectors = model.encode_document(documents)",
    ]
    again = "Encode all documents again, once: the vectors of two models cannot be compared."
    cost = f"{'Documents keep their vectors.' if for_queries else again} Queries need encode_query."
    marks: Marks = {(row, 0): "code" for row in range(len(code))}
    return Table("How to switch", [""], [[line] for line in code], marks, notes=[cost])
