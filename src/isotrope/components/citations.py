"""The papers that a model rests on, and an objective in sentence-transformers' own model card.

A component's docstring names its BibTeX key; ``methods.bib`` holds the entries. The card is for
users who write their own training script.
"""

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
from torch import nn

from isotrope.encoder.locate import Base

# of a model
TAGS = [
    "sentence-transformers",
    "sentence-similarity",
    "feature-extraction",
    "isotrope",
    "unsupervised",
]
# of a data set, in sentence-transformers' card
TEXTS = ("examples", "examples_table", "_example_columns")


def cited_keys(classes: Iterable[type]) -> list[str]:
    """The BibTeX keys that the docstrings of some components name, each once, in order."""
    return list(
        dict.fromkeys(
            key for cls in classes for key in re.findall(r"BibTeX:\s+(\w+)", cls.__doc__ or "")
        )
    )


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, and isotrope's own after them. A key without an entry, of a third
    party, is left out.

    >>> bibtex([]).splitlines()[0]
    '@software{isotrope,'
    """
    return "\n\n".join(
        entries()[key] for key in dict.fromkeys([*keys, "isotrope"]) if key in entries()
    )


@cache
def entries() -> dict[str, str]:
    """BibTeX key -> its whole entry."""
    text = files("isotrope.components").joinpath("methods.bib").read_text(encoding="utf-8")
    found = re.split(r"\n(?=@)", text.strip())
    return {entry[entry.index("{") + 1 : entry.index(",")]: entry.strip() for entry in found}


@dataclass
class ObjectiveCardData(SentenceTransformerModelCardData):
    """sentence-transformers' card, with the base model's name and licence, and without any text of
    the data.
    """

    # name and address of a licence that the hub does not list
    named: dict[str, Any] = field(default_factory=dict)

    def to_yaml(self, line_break: str | None = None) -> str:
        """The card's metadata. sentence-transformers knows no name of a licence."""
        own = yaml.safe_dump(self.named, allow_unicode=True) if self.named else ""
        return f"{super().to_yaml(line_break).strip()}\n{own}".strip()

    def set_widget_examples(self, dataset: Any) -> None:
        """None: they would be texts of the data."""

    def set_losses(self, losses: list[Any]) -> None:
        """Cite them. sentence-transformers takes `Objective.loss`, a method, for a second loss."""
        super().set_losses([loss for loss in losses if isinstance(loss, nn.Module)])

    def compute_dataset_metrics(self, dataset: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Size, columns and lengths of a data set."""
        found = super().compute_dataset_metrics(dataset, *args, **kwargs)
        return {key: value for key, value in found.items() if key not in TEXTS}


def introduce(model: SentenceTransformer) -> SentenceTransformer:
    """The model, with such a card, since an objective will train it. What its user has written
    there stays.
    """
    data = getattr(model, "model_card_data", None)
    # neither ours already, nor a class of the user's
    if type(data) is SentenceTransformerModelCardData:
        own, base = ObjectiveCardData(), Base.of(model)
        own.__dict__.update(data.__dict__)
        own.base_model = own.base_model or base.hub
        own.model_name = own.model_name or f"{base.name}, trained with isotrope"
        if own.license is None:
            own.license = base.about.get("license")
            own.named = {
                key: base.about[key]
                for key in ("license_name", "license_link")
                if key in base.about
            }
        own.language = own.language or base.about.get("language", [])
        own.add_tags(TAGS)
        model.model_card_data = own
    return model


class Described:
    """What sentence-transformers' card asks of a loss."""

    def get_config_dict(self: Any) -> dict[str, Any]:
        """The settings: stage -> components with their options."""
        stages = {
            "tokens": [_told(step) | {"on": list(on)} for step, on in self.tokens],
            "peers": [_told(peer) | {"on": list(on)} for peer, on in self.peers],
            "views": list(map(_told, self.views)),
            "scores": list(map(_told, self.scores)),
            "terms": {name: _told(term) for name, term in self.terms.items()},
            "teachers": sorted(self.teachers),
            "dims": list(self.narrow),
        }
        return {"passes": self.passes, "seed": self.seed} | {
            name: made for name, made in stages.items() if made
        }

    @property
    def citation(self: Any) -> str:
        """The BibTeX entries of the methods, and isotrope's own."""
        keys = cited_keys(type(_named(part)) for part in (*self.parts, *self.teachers.values()))
        return bibtex([*keys, *(["kusupati2022matryoshka"] if self.narrow else [])])


def _named(part: Any) -> Any:
    """A component; for what was built of another object, that one, which has the options."""
    return getattr(part, "term", part)


def _told(part: Any) -> dict[str, Any]:
    part = _named(part)
    options = {name: getattr(part, name, None) for name in inspect.signature(type(part)).parameters}
    plain = {
        name: value
        for name, value in options.items()
        if isinstance(value, bool | int | float | str)
    }
    return {"kind": type(part).__name__, **plain}
