"""The card of a model: one record, shown by one template. The record stands in the card's own
metadata.

So a later step (whitening a trained model, say) reads the card of the model that it begins with,
and adds itself. A card names data and counts it; it never holds text of the data.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, ValidationError
from sentence_transformers import SentenceTransformer

from isotrope.components.citations import MODEL_TAGS, bibtex
from isotrope.console.plain import escaped
from isotrope.encoder.locate import Base, metadata_of, short_name
from isotrope.encoder.prompts import Role
from isotrope.evaluation.verdict import Verdict
from isotrope.report.switching import Switch, quoted
from isotrope.report.tables import Table
from isotrope.report.templates import templates
from isotrope.store.files import write_text

KEY = "isotrope"  # of the record, in the metadata
NAME = "README.md"
GRAPH = "model.onnx"  # the file of an exported model
_VERSIONED = ("isotrope", "sentence-transformers", "transformers", "torch")
NAMED = 3  # files of the data, at most


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Record):
    """The text of a step: its name, its size after cleaning, how much was used, its checksum."""

    name: str
    rows: int
    used: int
    checksum: str

    @classmethod
    def of(cls, paths: Sequence[str | Path], rows: int, used: int, checksum: str) -> "Data":
        """Of files and folders, whose paths are not told, only their last part."""
        name = ", ".join(short_name(path) for path in paths[:NAMED])
        if len(paths) > NAMED:
            name += f" and {len(paths) - NAMED} more"
        return cls(name=name, rows=rows, used=used, checksum=checksum)


class Step(_Record):
    """One thing that was done to the model."""

    action: str  # "Trained with"
    method: str  # "simcse"
    data: Data
    settings: Sequence[tuple[str, str, str]] = ()  # key, value, source
    cites: Sequence[str] = ()  # BibTeX keys
    limits: Sequence[str] = ()  # sentences on what this step did not see or do


class Card(_Record):
    """What is known of a model."""

    base: Base  # what it was made from
    steps: Sequence[Step] = ()  # what was done, in order
    width: int = 0  # D of its vectors
    max_length: int | None = None  # tokens that it reads; None: all
    role: Role | None = None  # a plain model that reads only queries, or only documents
    switch: Switch | None = None  # how it takes the place of another model
    verdict: Verdict | None = None  # None if nobody has judged it
    # its evidence as a table: header, then rows; the first column holds names
    scores: Sequence[Sequence[str]] = ()
    how: str = ""  # how these were measured
    versions: dict[str, str] = {}  # of packages, at the last step

    @classmethod
    def of(cls, model: str | Path) -> "Card":
        """The card of a model that isotrope made, else a new one. A further step (`then`) leaves
        its verdict behind.
        """
        try:
            return cls(**metadata_of(str(model))[KEY])
        except (KeyError, TypeError, ValidationError):  # there is no record, or it is damaged
            return cls(base=Base.of(model))

    def then(self, step: Step, model: SentenceTransformer) -> "Card":
        """The card after one more step, which has made ``model``."""
        now = {
            "steps": [*self.steps, step],
            "verdict": None,
            "versions": {package: version(package) for package in _VERSIONED},
        }
        return self.model_copy(update=now).describing(model)

    def describing(self, model: SentenceTransformer, documents_stay: bool = False) -> "Card":
        """The card with what the model itself shows; see `Switch` for ``documents_stay``."""
        longest = model.max_seq_length
        seen = {
            "width": model.get_embedding_dimension(),
            "max_length": longest if isinstance(longest, int) else None,
            "switch": Switch.of(model, documents_stay),
        }
        return self.model_copy(update=seen)

    def of_role(self, role: Role, model: SentenceTransformer) -> "Card":
        """The card of the plain ``model`` that reads what the whole one reads in this role."""
        return self.describing(model).model_copy(update={"role": role, "switch": None})

    def judged(self, verdict: Verdict, table: Table) -> "Card":
        """The card with a verdict on its last step. The table holds the evidence; its notes say how
        it was measured.
        """
        scores = [list(table.header), *map(list, table.rows)]
        return self.model_copy(
            update={"verdict": verdict, "scores": scores, "how": " ".join(table.notes)}
        )

    def markdown(self, folder: Path) -> str:
        """The whole text of the card, for a model in ``folder``."""
        name = escaped(short_name(folder))
        frameworks = {}
        if self.switch and self.switch.roles_differ:
            code = self.switch.code(name)
            frameworks = {framework: Markup(lines) for framework, lines in code.items()}
        return self.filled(
            "card.md.jinja",
            {
                "library_name": "sentence-transformers",
                "pipeline_tag": "sentence-similarity",
                "tags": MODEL_TAGS,
            },
            title=Markup(as_code(short_name(folder)) + f" from {as_code(self.base.name)}"),
            folder=Markup(quoted(name)),
            frameworks=frameworks,
        )

    def filled(self, template: str, about: Mapping[str, Any], **more: Any) -> str:
        """A template of this room with the card and ``more``; ``about`` is what the metadata say of
        the folder.
        """
        base = {"base_model": self.base.hub} if self.base.hub else {}
        metadata = {
            **self.base.about,
            **base,
            **about,
            KEY: self.model_dump(mode="json", exclude_none=True),
        }
        keys = [*(key for step in self.steps for key in step.cites), "reimers2019sbert"]
        environment = templates(finalize=_text, keep_trailing_newline=True)
        environment.filters |= {"code": as_code, "text": _text, "repr": repr}
        return environment.get_template(template).render(
            card=self,
            # in ASCII, all else escaped
            metadata=Markup(yaml.safe_dump(metadata, sort_keys=False).strip()),
            limits=_limits(self),
            versions=", ".join(f"{package} {number}" for package, number in self.versions.items()),
            citations=Markup(bibtex(keys)),
            **more,
        )


def graph_card(facts: Mapping[str, Any], source: Card) -> str:
    """README.md of a folder with an exported graph, from what ``export.json`` holds and the card of
    its model.
    """
    prompt = facts["prompt"]
    about = {
        "library_name": "onnx",
        "pipeline_tag": "feature-extraction",
        "tags": ["isotrope", "onnx", "sentence-embeddings"],
    }
    texts = Markup(f"[{prompt!r} + text for text in texts]" if prompt else "texts")
    shaped = source.model_copy(
        update={"width": facts["dimensions"], "max_length": facts["max_length"]}
    )
    return shaped.filled("onnx.md.jinja", about, facts=facts, graph=GRAPH, texts=texts)


def save_card(folder: Path, card: Card) -> None:
    """Write a model's card, or replace it."""
    write_text(folder / NAME, card.markdown(folder))


def _limits(card: Card) -> Iterable[str]:
    if card.max_length:
        yield f"It reads the first {card.max_length:,} tokens of a text. The rest is cut off."
    yield from dict.fromkeys(limit for step in card.steps for limit in step.limits)
    if card.verdict:
        yield (
            "It was judged on the pairs above only. On other tasks and texts it may be better or "
            "worse."
        )
    languages = card.base.about.get("language")
    if languages is None:
        languages = "not known"
    elif not isinstance(languages, str):
        languages = ", ".join(languages)
    yield f"Languages of the base model: {languages}."
    if not card.steps:
        yield "It carries the biases of the base model."
        return
    yield "The language of the text was not checked."
    yield "It carries the biases of the base model and of the text."
    yield "Whether the licence of the text allows your use of the model was not checked."


def _one_line(text: object) -> str:
    return " ".join(escaped(str(text)).split())


def _text(value: object) -> Markup:
    """Text as it is: no character of it is markup."""
    if isinstance(value, Markup):
        return value
    return Markup(re.sub(r"([\\`*_{}\[\]<>|#~&])", r"\\\1", _one_line(value)))


def as_code(value: object) -> Markup:
    """A name or a value as code. Its fence is longer than any that it holds."""
    text = _one_line(value).replace("|", r"\|") or "none"
    if "`" not in text:
        return Markup(f"`{text}`")
    longest = max(len(run) for run in re.findall("`+", text))
    fence = "`" * (longest + 1)
    return Markup(f"{fence} {text} {fence}")
