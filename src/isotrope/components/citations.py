"""The papers that a model rests on, and an objective in sentence-transformers' own model card.

A component's docstring names its BibTeX key; ``methods.bib`` holds the entries. The card is for
users who write their own training script.
"""

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData
from torch import nn

from isotrope.encoder.locate import Base

MODEL_TAGS = [
    "sentence-transformers",
    "sentence-similarity",
    "feature-extraction",
    "isotrope",
    "unsupervised",
]
# What sentence-transformers' card holds of the texts of a data set.
TEXTS = ("examples", "examples_table", "_example_columns")
MATRYOSHKA = "kusupati2022matryoshka"


def cited_keys(classes: Iterable[type]) -> list[str]:
    """The BibTeX keys that the docstrings of some components name, each once, in order."""
    keys: list[str] = []
    for cls in classes:
        docstring = cls.__doc__ or ""
        keys += re.findall(r"BibTeX:\s+(\w+)", docstring)
    return list(dict.fromkeys(keys))


def bibtex(keys: Iterable[str]) -> str:
    """The entries of these keys, and isotrope's own after them. A key without an entry, of a third
    party, is left out.

    >>> bibtex([]).splitlines()[0]
    '@software{isotrope,'
    """
    by_key = entries()
    cited = []
    for key in dict.fromkeys([*keys, "isotrope"]):
        if key in by_key:
            cited.append(by_key[key])
    return "\n\n".join(cited)


@cache
def entries() -> dict[str, str]:
    """BibTeX key -> its whole entry."""
    path = files("isotrope.components").joinpath("methods.bib")
    text = path.read_text(encoding="utf-8")
    by_key = {}
    for entry in re.split(r"\n(?=@)", text.strip()):
        beginning = entry.partition(",")[0]
        key = beginning.partition("{")[2]
        by_key[key] = entry.strip()
    return by_key


@dataclass
class ObjectiveCardData(SentenceTransformerModelCardData):
    """sentence-transformers' card, with the base model's name and licence, and without any text of
    the data.
    """

    def set_widget_examples(self, dataset: Any) -> None:
        """Set none: they would be texts of the data."""

    def set_losses(self, losses: list[Any]) -> None:
        """Cite them. sentence-transformers takes `Objective.loss`, a method, for a second loss."""
        modules = [loss for loss in losses if isinstance(loss, nn.Module)]
        super().set_losses(modules)

    def compute_dataset_metrics(self, dataset: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Size, columns and lengths of a data set."""
        metrics: dict[str, Any] = super().compute_dataset_metrics(dataset, *args, **kwargs)
        for key in TEXTS:
            metrics.pop(key, None)
        return metrics


def introduce(model: SentenceTransformer) -> SentenceTransformer:
    """The model with such a card, since an objective will train it. What its user has written there
    stays.
    """
    data = getattr(model, "model_card_data", None)
    # Not if it is ours already, or a class of the user's.
    if type(data) is SentenceTransformerModelCardData:
        model.model_card_data = _card_data(data, Base.of(model))
    return model


def _card_data(data: SentenceTransformerModelCardData, base: Base) -> ObjectiveCardData:
    card = ObjectiveCardData()
    for name, value in vars(data).items():  # its own constructor takes only some of them
        setattr(card, name, value)
    card.base_model = card.base_model or base.hub
    card.model_name = card.model_name or f"{base.name}, trained with isotrope"
    card.license = card.license or base.about.get("license")
    card.language = card.language or base.about.get("language", [])
    card.add_tags(MODEL_TAGS)
    return card


class Described:
    """What sentence-transformers' card asks of a loss."""

    def get_config_dict(self: Any) -> dict[str, Any]:
        """The settings: stage -> components with their options."""
        settings = {
            "passes": self.passes,
            "seed": self.seed,
            "tokens": _options_and_passes(self.tokens),
            "peers": _options_and_passes(self.peers),
            "views": [_options(step) for step in self.views],
            "scores": [_options(step) for step in self.scores],
            "terms": {name: _options(term) for name, term in self.terms.items()},
            "teachers": sorted(self.teachers),
            "dims": list(self.narrow),
        }
        used = {}
        for name, value in settings.items():
            if value not in ([], {}):
                used[name] = value
        return used

    @property
    def citation(self: Any) -> str:
        """The BibTeX entries of the methods, and isotrope's own."""
        components = [*self.parts, *self.teachers.values()]
        keys = cited_keys(type(_with_options(component)) for component in components)
        if self.narrow:
            keys.append(MATRYOSHKA)
        return bibtex(keys)


def _with_options(component: Any) -> Any:
    """A component; for what was built of another object, that one, which has the options."""
    return getattr(component, "term", component)


def _options_and_passes(pairs: Any) -> list[dict[str, Any]]:
    """Of components that are on for some passes: pairs (component, numbers of its passes)."""
    described = []
    for component, on in pairs:
        options = _options(component)
        options["on"] = list(on)
        described.append(options)
    return described


def _options(component: Any) -> dict[str, Any]:
    """Kind and plain options of a component."""
    component = _with_options(component)
    cls = type(component)
    options: dict[str, Any] = {"kind": cls.__name__}
    for name in inspect.signature(cls).parameters:
        value = getattr(component, name, None)
        if isinstance(value, bool | int | float | str):
            options[name] = value
    return options
