"""What a command gives back in Python: the model, the verdict, the numbers, and a page."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sentence_transformers import SentenceTransformer

from isotrope.console.plain import plain_console
from isotrope.encoder import load
from isotrope.encoder.prompts import ROLE_NAMES, Role
from isotrope.errors import check_known
from isotrope.evaluation.verdict import Verdict
from isotrope.report.card import Card
from isotrope.report.page import MODEL, Page
from isotrope.report.saving import roles_line, save_model, save_role
from isotrope.store.files import write_text
from isotrope.store.job import Job

if TYPE_CHECKING:
    import pandas as pd

REPORT = "report.html"  # in the folder of the job


class Outcome:
    """A finished job that made a model. ``record`` is all that ``result.json`` in its ``folder``
    holds.

    If no output was named, the folder is temporary and lives as long as this object.
    """

    def __init__(
        self, job: Job, record: Mapping[str, Any], page: Callable[[Mapping[str, Any]], Page]
    ) -> None:
        self.job = job  # a temporary folder goes with its job
        self.folder = job.folder
        self.record = record
        self._page = page

    def __repr__(self) -> str:
        """As a notebook shows it: the verdict, and the folder of the work."""
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
    def table(self) -> "pd.DataFrame":
        """The scores as fractions, a row each."""
        return framed(self.record["table"])

    def save(self, folder: str | Path, role: Role | None = None) -> Path:
        """Write the model with its card, in plain sentence-transformers format.

        Args:
            folder: new, empty, or an earlier model of ours, which is replaced.
            role: "query" or "document" writes a plain model whose ``encode`` reads texts as
                ``encode_query`` or ``encode_document`` of the whole model do. Frameworks that call
                ``encode`` need it. None writes the whole model; if queries have a route of their
                own, the plain models are in ``folder/query`` and ``folder/document``, and a line on
                the terminal says so.

        Raises:
            UserError: another role, or ``folder`` holds something that is not ours.
        """
        target = Path(folder)
        card = Card.of(self.folder / MODEL)
        if role is not None:
            check_known("role =", role, ROLE_NAMES)
            save_role(self.model, target, role, card)
            return target
        save_model(self.model, target, card)
        line = roles_line(target)
        if line:
            plain_console().print(line)
        return target

    def report(self, file: str | Path) -> Path:
        """Write the report: one HTML file without scripts or anything from outside."""
        write_text(Path(file), self._page(self.record).html())
        return Path(file)


def framed(table: Mapping[str, Mapping[str, float]]) -> "pd.DataFrame":
    """Row → column → number as a DataFrame."""
    import pandas as pd  # here, because importing it takes half a second

    return pd.DataFrame.from_dict(table, orient="index")
