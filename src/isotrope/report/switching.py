"""How to use a new model in place of the old one: what it costs, and the code for each framework.

Frameworks such as LangChain, LlamaIndex, Chroma and Haystack call ``encode`` for queries and for
documents. In a model with routes ``encode`` takes the way of documents, so the code below names the
way, or takes the plain model of each role that lies below the folder.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer

from isotrope.encoder.prompts import Role, routed, words_of_role
from isotrope.report.templates import templates

STAYS = (
    "Your documents keep their vectors, so nothing is encoded again. Only queries are read anew."
)
AGAIN = "Encode all documents again, once: the vectors of two models cannot be compared."
FRAMEWORKS = {  # name -> its macro in `switching.jinja`
    "sentence-transformers": "sentence_transformers",
    "LangChain": "langchain",
    "LlamaIndex": "llama_index",
    "Chroma": "chroma",
    "Haystack": "haystack",
    "Qdrant": "qdrant",
    "Elasticsearch": "elasticsearch",
}


class Switch(BaseModel):
    """What decides how a model takes the place of another one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    documents_stay: bool = False  # the vectors of documents are those of the old model
    routes: bool = False  # queries and documents are read by two ways; see `saving.save_model`
    query_prompt: str = ""  # the words before a query
    document_prompt: str = ""

    @classmethod
    def of(cls, model: SentenceTransformer, documents_stay: bool = False) -> "Switch":
        """From the new model; only its maker knows whether ``documents_stay``."""
        return cls(
            documents_stay=documents_stay,
            routes=routed(model),
            query_prompt=words_of_role(model, "query"),
            document_prompt=words_of_role(model, "document"),
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Switch | None":
        """What a result holds under "switch"; None for a result of an earlier version."""
        return cls(**record["switch"]) if "switch" in record else None

    @property
    def cost(self) -> str:
        """Whether documents must be encoded again."""
        return STAYS if self.documents_stay else AGAIN

    @property
    def roles_differ(self) -> bool:
        """Whether a query is read in another way than a document."""
        return self.routes or self.query_prompt != self.document_prompt

    def code(self, model: str) -> dict[str, str]:
        """Framework -> about five lines of Python, for a model in the folder ``model``.

        They use what the reader has: ``query``, ``documents``, and ``collection``, ``client`` or
        ``index``.
        """
        names = {"switch": self, "model": model, "call": _call, "quoted": quoted}
        code = templates().get_template("switching.jinja").make_module(names)
        return {name: str(getattr(code, macro)()) for name, macro in FRAMEWORKS.items()}

    def encode_options(self, role: Role) -> dict[str, str]:
        """What ``encode`` needs to read a text in this role."""
        options: dict[str, str] = {"task": role} if self.routes else {}
        if self.query_prompt or self.document_prompt:
            options["prompt"] = self.query_prompt if role == "query" else self.document_prompt
        return options


def quoted(value: Any) -> str:
    """A string, or a dictionary of strings, in Python's words with double quotes."""
    return json.dumps(value, ensure_ascii=False)


def _call(function: str, *values: str, **options: Any) -> str:
    """A call in one line, or a line for each argument where it is long; without empty options."""
    arguments = [quoted(value) for value in values]
    arguments += [f"{name}={quoted(value)}" for name, value in options.items() if value]
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= 76:
        return line
    return "\n".join([f"{function}(", *(f"    {argument}," for argument in arguments), ")"])
