"""The model that a model was made from: its name, and what its own card says of licence and language."""

import re
from pathlib import Path
from typing import Any

from huggingface_hub import metadata_load, try_to_load_from_cache
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer
from yaml import YAMLError

from isotrope.encoder.locate import SHIPPED, locate
from isotrope.errors import UserError
from isotrope.store.remote import is_url, without_secrets

HUB_NAMES = {"isotrope/minilm": "sentence-transformers/all-MiniLM-L6-v2"}  # shipped under another name
_INHERITED = ("license", "license_name", "license_link", "language")  # from the base's card
UNNAMED = "a model without a name"  # that was built in a script
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


class Base(BaseModel):
    """A base model.

    Attributes:
        name: as a person knows it, without any path of this machine.
        hub: its name on the Hugging Face hub, if it has one.
        about: licence and language, in the words of the hub's metadata.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    hub: str | None = None
    about: dict[str, str | list[str]] = {}

    @property
    def licence(self) -> str:
        """Its licence, with the name and the address of one that the hub does not list."""
        found = [self.about[key] for key in _INHERITED if key.startswith("license") and key in self.about]
        return ", ".join(part for one in found for part in ([one] if isinstance(one, str) else one)) or "not known"

    @classmethod
    def of(cls, model: str | Path | SentenceTransformer) -> "Base":
        """What is known of a model: a name as `isotrope.load` takes it, or a model that is loaded."""
        name = _loaded_from(model) if isinstance(model, SentenceTransformer) else str(model)
        if not name:
            return cls(name=UNNAMED)
        found = _with_norwegian(metadata_of(name))
        about = {key: found[key] for key in _INHERITED if _is_words(found.get(key))}
        if Path(name).expanduser().is_dir() and name not in SHIPPED:
            return cls(name=short_name(name), about=about)
        hub = HUB_NAMES.get(name, name if _HUB_NAME.fullmatch(name) else None)
        return cls(name=hub or short_name(name), hub=hub, about=about)


def metadata_of(model: str) -> dict[str, Any]:
    """The metadata at the head of a model's card; {} if there is no card here, or it is damaged."""
    try:
        where = locate(model)
        found = Path(where) / "README.md" if Path(where).is_dir() else try_to_load_from_cache(where, "README.md")
        return (metadata_load(found) if isinstance(found, str | Path) else None) or {}
    except (UserError, OSError, ValueError, YAMLError, RecursionError):
        return {}


def short_name(path: str | Path) -> str:
    """The last part of a path: what may be told of it to others."""
    if is_url(path):
        return without_secrets(str(path)).rstrip("/").rpartition("/")[2]
    return Path(path).expanduser().name or Path(path).expanduser().resolve().name or "a folder"


def _loaded_from(model: SentenceTransformer) -> str:
    """The name that a loaded model was loaded by. A shipped model, whose folder is in the package, has its own."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    path = str(getattr(config, "_name_or_path", "") or getattr(model[0], "base_model", "") or "")
    for name, (package, folder, *_) in SHIPPED.items():
        if Path(path).as_posix().endswith(f"/{package}/{folder}"):
            return name
    cached = re.search(r"models--(.+)/snapshots/\w+/?$", Path(path).as_posix())
    return cached[1].replace("--", "/", 1) if cached else path


def _with_norwegian(metadata: dict[str, Any]) -> dict[str, Any]:
    """The same, where Norwegian's code is "no". YAML 1.1 reads ``no`` as False; the hub reads YAML 1.2."""
    languages = metadata.get("language")
    if isinstance(languages, list) and False in languages:
        return metadata | {"language": ["no" if language is False else language for language in languages]}
    return metadata | {"language": "no"} if languages is False else metadata


def _is_words(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(word, str) for word in value))
