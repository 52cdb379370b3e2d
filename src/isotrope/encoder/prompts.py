"""Prompts, the words that a model wants before a text ("query: "), and models with a query route.

sentence-transformers keeps them in ``model.prompts``, name -> words, and puts those of
``model.default_prompt_name`` before every text that ``encode`` reads. To choose a prompt is to set
that name. So training, encoding, evaluation, all caches and the saved model follow the choice.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from torch import nn

from isotrope.errors import UserError, printable

Role = Literal["query", "document"]  # of a text in a search
ROLE_NAMES: tuple[Role, Role] = ("query", "document")
ROLES: Mapping[str, tuple[str, ...]] = {
    "query": ("query",),
    "document": ("document", "passage", "corpus"),
}
ADDED = "prompt"  # the name of a prompt that the user gives in words


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that a user asks for. None: as the model has it.

    Raises:
        UserError: both text and name are given, or words that are not UTF-8.
    """

    text: str | None = None  # the words before every text; "" for none
    name: str | None = None  # the same, by the name of one of the model's own prompts
    query: str | None = None  # the words before a query, in a search
    document: str | None = None

    def __post_init__(self) -> None:
        if self.text is not None and self.name is not None:
            raise UserError(
                f"prompt = {self.text!r} and prompt_name = {self.name!r}",
                "give one of them",
                "prompt-given-twice",
            )
        for words in (self.text, self.name, self.query, self.document):
            if words and printable(words) != words:  # bytes from the command line
                raise UserError(
                    f"the prompt {words!r} is not UTF-8",
                    "write it in a terminal that uses UTF-8",
                    "not-utf-8",
                )

    def check(self, where: str, model: str) -> None:
        """Refuse a name that the model's files lack, before it is loaded.

        ``where`` is its folder or hub name.
        """
        if self.name is None or not Path(where).is_dir():
            return
        prompts: Mapping[str, Any] = {}
        with suppress(OSError, ValueError, LookupError, TypeError):
            file = Path(where) / "config_sentence_transformers.json"
            prompts = dict(json.loads(file.read_text(encoding="utf-8"))["prompts"])
        self._refuse_unknown_name(prompts, model)

    def apply(self, encoder: SentenceTransformer, model: str) -> None:
        """Make these the prompts of a loaded model."""
        if self.name is not None:
            self._refuse_unknown_name(encoder.prompts, model)
            encoder.default_prompt_name = self.name
        elif self.text == "":
            encoder.default_prompt_name = None
        elif self.text is not None:
            names = [name for name, words in encoder.prompts.items() if words == self.text]
            name = names[0] if names else ADDED
            encoder.prompts[name] = self.text
            encoder.default_prompt_name = name

    def apply_roles(self, encoder: SentenceTransformer) -> None:
        """Make the words before queries and documents those of a loaded model."""
        for role, words in (("query", self.query), ("document", self.document)):
            if words is None:
                continue
            for name in ROLES[role]:
                if name in encoder.prompts:
                    encoder.prompts[name] = ""
            encoder.prompts[role] = words

    def note(self, encoder: Any, model: str, where: str = "") -> str:
        """A warning if the model has prompts and none of them is used ``where``; else "".

        There is none if the user has asked for a prompt, or for no prompt.
        """
        if self != NO_PROMPTS or not isinstance(encoder, SentenceTransformer):
            return ""
        names = [name for name, words in encoder.prompts.items() if words]
        if encoder.default_prompt_name or not names:
            return ""
        return f"{model} has prompts ({', '.join(names)}); none is used{where}: see --prompt-name"

    def _refuse_unknown_name(self, prompts: Mapping[str, Any], model: str) -> None:
        if self.name in prompts:
            return
        remedy = "it has none: give the words themselves as the prompt"
        if prompts:
            remedy = f"choose from {', '.join(prompts)}"
        problem = f"{model} has no prompt called {self.name!r}"
        raise UserError(problem, remedy, "unknown-prompt")


NO_PROMPTS = Prompts()  # each model's own


def used_prompt(encoder: SentenceTransformer) -> str:
    """The words that ``encode`` puts before every text; "" for none."""
    return encoder.prompts.get(encoder.default_prompt_name) or ""


def role_prompt(encoder: SentenceTransformer, role: Role) -> str:
    """The words before a query or a document; "" for none.

    Documents take the first of "document", "passage" and "corpus" that has words:
    sentence-transformers adds an empty "document" to a model that has only a "passage", and its
    ``encode_document`` then takes the empty one.
    """
    for name in ROLES[role]:
        words: str | None = encoder.prompts.get(name)
        if words:
            return words
    return ""


def has_roles(encoder: Any) -> bool:
    """Whether an encoder reads queries and documents in two ways: by prompts, routes, or methods.

    One that is no sentence-transformers model, and has the methods, may say otherwise in an
    attribute ``has_roles``.
    """
    if isinstance(encoder, SentenceTransformer):
        has_prompts = role_prompt(encoder, "query") or role_prompt(encoder, "document")
        return routed(encoder) or bool(has_prompts)
    has_methods = all(hasattr(encoder, f"encode_{role}") for role in ROLES)
    return bool(getattr(encoder, "has_roles", has_methods))


def words_of_role(encoder: SentenceTransformer, role: Role) -> str:
    """The words before a text in a search.

    They are those of its role, or of all texts if the model reads queries as documents.
    """
    if has_roles(encoder):
        return role_prompt(encoder, role)
    return used_prompt(encoder)


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


def with_query_route(
    encoder: SentenceTransformer,
    queries: Sequence[nn.Module],
    documents: Sequence[nn.Module],
    shared: Sequence[nn.Module] = (),
) -> SentenceTransformer:
    """A copy of the model with a route that ``encode_query`` takes.

    It is saved in plain sentence-transformers format. Documents, and texts that ``encode`` takes,
    go the other way. ``shared`` are modules before both routes.
    """
    routes = Router.for_query_document(list(queries), list(documents), default_route="document")
    new = with_modules(encoder, [*shared, routes.to(encoder.device)])
    # sentence-transformers reads queries with the prompt "query", which may be empty, and not with
    # the default one.
    default = used_prompt(encoder)
    new.prompts = dict(encoder.prompts)
    for role in ROLE_NAMES:
        new.prompts[role] = role_prompt(encoder, role) or default
    return new


def one_route(encoder: SentenceTransformer, role: Role) -> SentenceTransformer:
    """The plain model that reads queries, or documents, as a model with two routes does.

    The two models share their modules.
    """
    modules: list[nn.Module] = []
    for module in encoder:
        route = module.sub_modules[role] if isinstance(module, Router) else [module]
        modules.extend(map(copy, route))  # a module that occurs twice would be run once
    new = with_modules(encoder, modules)
    new.prompts = {**encoder.prompts, role: words_of_role(encoder, role)}
    new.default_prompt_name = role
    return new


def with_modules(encoder: SentenceTransformer, modules: Iterable[nn.Module]) -> SentenceTransformer:
    """A copy of the model with other modules."""
    new = copy(encoder)
    new._modules = {str(place): module for place, module in enumerate(modules)}
    return new


def refuse_routes(encoder: SentenceTransformer, name: str) -> None:
    """Refuse a model with two routes, to train it or to change its pooling.

    A loss cannot say which way a text goes, and one pooling would take a route away.
    """
    if routed(encoder):
        raise UserError(
            f"{name} reads queries in another way than documents",
            "name the model that it was made from, to train it or to change its pooling",
            "two-routes",
        )
