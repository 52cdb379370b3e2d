"""The words that a model wants before a text ("query: "), and which of them are used.

sentence-transformers keeps them in ``model.prompts``, name -> words, and puts those of ``model.default_prompt_name``
before every text that ``encode`` reads. To choose a prompt is to set that name. So training, encoding, evaluation, all
caches and the saved model follow the choice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router

from isotrope.errors import UserError

Role = Literal["query", "document"]  # of a text in a search
ROLES: Mapping[str, tuple[str, ...]] = {"query": ("query",), "document": ("document", "passage", "corpus")}
ADDED = "prompt"  # the name of a prompt that the user gives in words


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that a user asks for; UserError if both text and name are given. None: as the model has it."""

    text: str | None = None  # the words before every text; "" for none
    name: str | None = None  # the same, by the name of one of the model's own prompts
    query: str | None = None  # the words before a query, in a search
    document: str | None = None

    def __post_init__(self) -> None:
        if self.text is not None and self.name is not None:
            raise UserError(f"prompt = {self.text!r} and prompt_name = {self.name!r}", "give one of them")

    def check(self, where: str, model: str) -> None:
        """Refuse a name that the model's files lack, before it is loaded. ``where`` is its folder or hub name."""
        file = Path(where) / "config_sentence_transformers.json"
        if self.name is not None and Path(where).is_dir():
            settings = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            self._find(settings.get("prompts", {}), model)

    def apply(self, encoder: SentenceTransformer, model: str) -> None:
        """Make these the prompts of a loaded model."""
        if self.name is not None:
            self._find(encoder.prompts, model)
            encoder.default_prompt_name = self.name
        elif self.text == "":
            encoder.default_prompt_name = None
        elif self.text is not None:
            named = next((name for name, words in encoder.prompts.items() if words == self.text), ADDED)
            encoder.prompts[named], encoder.default_prompt_name = self.text, named

    def apply_roles(self, encoder: SentenceTransformer) -> None:
        """Make the words before queries and documents those of a loaded model."""
        for role, words in (("query", self.query), ("document", self.document)):
            if words is not None:
                encoder.prompts |= {name: "" for name in ROLES[role] if name in encoder.prompts} | {role: words}

    def note(self, encoder: Any, model: str, where: str = "") -> str:
        """A line for a model that has prompts of which none is used, though nobody asked for that; else "".

        ``where`` says where none is used: " outside searches".
        """
        if self != NO_PROMPTS or not isinstance(encoder, SentenceTransformer) or encoder.default_prompt_name:
            return ""
        names = [name for name, words in encoder.prompts.items() if words]
        return f"{model} has prompts ({', '.join(names)}); none is used{where}: see --prompt-name" if names else ""

    def _find(self, own: Mapping[str, Any], model: str) -> None:
        if self.name not in own:
            names = ", ".join(own)
            remedy = f"choose from {names}" if names else "it has none: give the words themselves as the prompt"
            raise UserError(f"{model} has no prompt called {self.name!r}", remedy)


NO_PROMPTS = Prompts()  # each model's own


def used_prompt(encoder: SentenceTransformer) -> str:
    """The words that ``encode`` puts before every text; "" for none."""
    return encoder.prompts.get(encoder.default_prompt_name) or ""


def role_prompt(encoder: SentenceTransformer, role: Role) -> str:
    """The words before a query or a document; "" for none.

    Documents take the first of "document", "passage" and "corpus" that has words: sentence-transformers adds an empty
    "document" to a model that has only a "passage", and its ``encode_document`` then takes the empty one.
    """
    return next((words for name in ROLES[role] if (words := encoder.prompts.get(name))), "")


def has_roles(encoder: Any) -> bool:
    """Whether an encoder reads queries and documents in two ways.

    A sentence-transformers model does so if it has a prompt for either, or a route for queries. Another encoder does so
    if it has the methods ``encode_query`` and ``encode_document``; it may say otherwise in an attribute ``has_roles``.
    """
    if isinstance(encoder, SentenceTransformer):
        return routed(encoder) or bool(role_prompt(encoder, "query") or role_prompt(encoder, "document"))
    return bool(getattr(encoder, "has_roles", all(hasattr(encoder, f"encode_{role}") for role in ROLES)))


def routed(encoder: SentenceTransformer) -> bool:
    """Whether a model has routes, such as one for queries."""
    return any(isinstance(module, Router) for module in encoder)


class ByRole:
    """The two ways of an encoder whose ``encode`` takes a role."""

    def encode_query(self, sentences: list[str]) -> Any:
        """Queries (n,) -> (n, D)."""
        return self.encode(sentences, "query")  # type: ignore[attr-defined]

    def encode_document(self, sentences: list[str]) -> Any:
        """Documents (n,) -> (n, D)."""
        return self.encode(sentences, "document")  # type: ignore[attr-defined]
