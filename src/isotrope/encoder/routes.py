"""Models that read queries in another way than documents, so that documents keep the vectors that they have."""

from collections.abc import Sequence
from copy import copy

from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from torch import nn

from isotrope.encoder.prompts import Role, role_prompt, routed, used_prompt
from isotrope.errors import UserError


def with_query_route(
    encoder: SentenceTransformer, queries: Sequence[nn.Module], documents: Sequence[nn.Module],
    shared: Sequence[nn.Module] = (),
) -> SentenceTransformer:  # fmt: skip
    """The model with a route that ``encode_query`` takes, in plain sentence-transformers format.

    Documents, and texts that ``encode`` takes without a word, go the other way. The given model stays as it is.

    Args:
        encoder: the model, whose tokenizer and prompts stay.
        queries: the modules of queries.
        documents: those of documents.
        shared: modules before both routes.
    """
    new = copy(encoder)
    router = Router.for_query_document(list(queries), list(documents), default_route="document").to(encoder.device)
    # sentence-transformers reads queries with the prompt "query", which may be empty, and not with the default one.
    words = {"query": role_prompt(encoder, "query"), "document": role_prompt(encoder, "document")}
    new.prompts = encoder.prompts | {role: own or used_prompt(encoder) for role, own in words.items()}
    new._modules = {str(place): module for place, module in enumerate([*shared, router])}
    return new


def one_route(encoder: SentenceTransformer, role: Role) -> SentenceTransformer:
    """The plain model that reads queries, or documents, as a model does that has two ways; they share their modules."""
    modules = [
        copy(module)  # one that occurs twice in a route would be run once
        for each in encoder
        for module in (each.sub_modules[role] if isinstance(each, Router) else [each])
    ]
    new = copy(encoder)
    new._modules = {str(place): module for place, module in enumerate(modules)}
    new.prompts = {**encoder.prompts, role: role_prompt(encoder, role) or used_prompt(encoder)}
    new.default_prompt_name = role
    return new


def refuse_routes(encoder: SentenceTransformer, name: str) -> None:
    """Refuse to train a model with two ways, since a loss cannot say which a text goes, or to take one of them away."""
    if routed(encoder):
        remedy = "name the model that it was made from, to train it or to change its pooling"
        raise UserError(f"{name} reads queries in another way than documents", remedy)
