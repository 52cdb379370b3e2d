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

from isotrope.encoder.prompts import ROLE_NAMES, Role, routed, words_of_role

STAYS = (
    "Your documents keep their vectors, so nothing is encoded again. Only queries are read anew."
)
AGAIN = "Encode all documents again, once: the vectors of two models cannot be compared."


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
        return {
            "sentence-transformers": self._sentence_transformers(model),
            "LangChain": self._langchain(model),
            "LlamaIndex": self._llama_index(model),
            "Chroma": self._chroma(model),
            "Haystack": self._haystack(model),
            "Qdrant": self._qdrant(model),
            "Elasticsearch": self._elasticsearch(model),
        }

    def _load(self, model: str) -> str:
        return (
            "from sentence_transformers import SentenceTransformer\n\n"
            f"model = SentenceTransformer({quoted(model)})\n"
        )

    def _encode_documents(self) -> str:
        # encode_document itself does not find words that a model calls "passage"
        prompt = f", prompt={quoted(self.document_prompt)}" if self.document_prompt else ""
        return f"model.encode_document(documents{prompt})"

    def _sentence_transformers(self, model: str) -> str:
        return (
            f"{self._load(model)}"
            "query_vector = model.encode_query(query)\n"
            f"document_vectors = {self._encode_documents()}\n"
        )

    def _langchain(self, model: str) -> str:
        options = [f"model_name={quoted(model)}"]
        if self.roles_differ or self.document_prompt:
            options.append(f"encode_kwargs={quoted(self._encode_options('document'))}")
            options.append(f"query_encode_kwargs={quoted(self._encode_options('query'))}")
        return (
            "from langchain_huggingface import HuggingFaceEmbeddings\n\n"
            f"embeddings = {_call('HuggingFaceEmbeddings', options)}\n"
        )

    def _encode_options(self, role: Role) -> dict[str, str]:
        """What ``encode`` needs to read a text in this role."""
        options: dict[str, str] = {"task": role} if self.routes else {}
        if self.query_prompt or self.document_prompt:
            options["prompt"] = self._prompt(role)
        return options

    def _prompt(self, role: Role) -> str:
        return self.query_prompt if role == "query" else self.document_prompt

    def _llama_index(self, model: str) -> str:
        lines = ["from llama_index.embeddings.huggingface import HuggingFaceEmbedding", ""]
        # LlamaIndex replaces the prompts of a model by its own, which are empty for a new folder.
        instructions = {
            "query": _option("query_instruction", self.query_prompt),
            "document": _option("text_instruction", self.document_prompt),
        }
        if self.routes:
            for role, instruction in instructions.items():
                call = _call("HuggingFaceEmbedding", [quoted(f"{model}/{role}"), *instruction])
                lines.append(f"{role}_model = {call}")
            lines.append("retriever = index.as_retriever(embed_model=query_model)")
        else:
            options = [quoted(model), *instructions["query"], *instructions["document"]]
            lines.append(f"embed_model = {_call('HuggingFaceEmbedding', options)}")
        return "\n".join([*lines, ""])

    def _chroma(self, model: str) -> str:
        query = "collection.query(query_embeddings=model.encode_query([query]), n_results=3)"
        add = f"collection.add(ids, {self._encode_documents()}, documents=documents)\n"
        return f"{self._load(model)}{'' if self.documents_stay else add}hits = {query}\n"

    def _haystack(self, model: str) -> str:
        lines = [
            "from haystack_integrations.components.embedders.sentence_transformers import (",
            "    SentenceTransformersDocumentEmbedder,",
            "    SentenceTransformersTextEmbedder,",
            ")",
            "",
        ]
        for role in ROLE_NAMES:
            if self.routes:
                options = [f"model={quoted(f'{model}/{role}')}"]  # it has its prompt
            else:
                options = [f"model={quoted(model)}"]
                options += _option("encode_kwargs", self._encode_options(role))
            kind = "text" if role == "query" else "document"
            call = _call(f"SentenceTransformers{kind.title()}Embedder", options)
            lines.append(f"{kind}_embedder = {call}")
        return "\n".join([*lines, ""])

    def _qdrant(self, model: str) -> str:
        vector = "query_vector = model.encode_query(query).tolist()"
        search = 'hits = client.query_points("notes", query=query_vector, limit=3).points'
        return f"{self._load(model)}{vector}\n{search}\n"

    def _elasticsearch(self, model: str) -> str:
        vector = "query_vector = model.encode_query(query).tolist()"
        knn = 'knn = {"field": "vector", "query_vector": query_vector, "k": 3}'
        search = 'hits = client.search(index="notes", knn=knn)["hits"]["hits"]'
        return f"{self._load(model)}{vector}\n{knn}\n{search}\n"


def _option(name: str, value: Any) -> list[str]:
    """``name=value`` for a call; nothing for an empty value."""
    return [f"{name}={quoted(value)}"] if value else []


def quoted(value: Any) -> str:
    """A string, or a dictionary of strings, in Python's words with double quotes."""
    return json.dumps(value, ensure_ascii=False)


def _call(name: str, options: list[str]) -> str:
    """A call in one line, or a line for each option where it is long."""
    line = f"{name}({', '.join(options)})"
    if len(line) <= 76:
        return line
    return "\n".join([f"{name}(", *(f"    {option}," for option in options), ")"])
