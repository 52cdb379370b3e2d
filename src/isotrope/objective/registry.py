"""Components by name: ``terms/infonce.py`` is ``component("terms", "infonce")``, and nothing else has to know of it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Collection, Mapping
from typing import Any, get_type_hints

from pydantic import ConfigDict, ValidationError, create_model

from isotrope.errors import UserError

STAGES = ("tokens", "views", "scores", "terms", "teachers")


def kinds(stage: str) -> list[str]:
    """The names of a stage's components: its file names."""
    if stage not in STAGES:
        raise UserError(f"stage {stage!r} is unknown", f"choose one of {', '.join(STAGES)}")
    package = importlib.import_module(f"isotrope.{stage}")
    return sorted(module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_"))


def component_class(stage: str, kind: str) -> type:
    """The one public class of ``isotrope/<stage>/<kind>.py``; ``module:Class`` names a third party's."""
    if ":" in kind:
        path, name = kind.split(":", 1)
        try:
            cls = getattr(importlib.import_module(path), name)
        except (ImportError, AttributeError, ValueError, TypeError) as error:  # the last two: an odd module name
            raise UserError(f"kind = {kind!r}: {error}", "install the package, or correct module:Class") from error
        if not inspect.isclass(cls):
            raise UserError(f"kind = {kind!r} is not a class", "name a module:Class")
        return cls
    if kind not in kinds(stage):
        raise UserError(
            f"{stage} has no kind {kind!r}", f"choose one of {', '.join(kinds(stage))}, or name a module:Class"
        )
    module = importlib.import_module(f"isotrope.{stage}.{kind}")
    classes = [
        member
        for name, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and not name.startswith("_")
    ]
    if len(classes) != 1:
        raise TypeError(f"{module.__name__} must have one public class, has {len(classes)}")
    return classes[0]


def needs_dim(stage: str, kind: str) -> bool:
    """Whether the component has weights that depend on the embedding's dimension D."""
    return "dim" in inspect.signature(component_class(stage, kind)).parameters


def component(stage: str, kind: str, **options: Any) -> Any:
    """Build a component; its options are checked against its constructor's types and bounds.

    >>> component("terms", "infonce", temperature=0.1)
    InfoNCE(temperature=0.1, weight=1.0, positive_in_denominator=True)

    Raises:
        UserError: unknown stage, kind or option, or an impossible value; names the key, the value and the remedy.
    """
    return component_class(stage, kind)(**check(stage, kind, options))


def check(stage: str, kind: str, options: Mapping[str, Any], later: Collection[str] = ()) -> dict[str, Any]:
    """The options of a component, converted and with defaults; those named in ``later`` (``dim``) are not there yet.

    Raises:
        UserError: as ``component``.
    """
    cls = component_class(stage, kind)
    hints = get_type_hints(inspect.getattr_static(cls, "__init__"), include_extras=True)
    parameters = [p for p in inspect.signature(cls).parameters.values() if p.name not in later]
    fields: Any = {p.name: (hints.get(p.name, Any), ... if p.default is p.empty else p.default) for p in parameters}
    model = create_model(kind, __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields)
    try:
        checked = model(**options)
    except ValidationError as error:
        raise explain(error, f"{stage}.{kind}", list(fields)) from error
    return {name: getattr(checked, name) for name in fields}


def explain(error: ValidationError, where: str, known: list[str]) -> UserError:
    """The first of pydantic's findings as one line: key, value, remedy."""
    first = error.errors()[0]
    key = ".".join([where, *(str(part) for part in first["loc"])]).strip(".")
    if first["type"] == "extra_forbidden":
        return UserError(f"{key} is an unknown key", f"{where or 'here'} takes {', '.join(known) or 'no keys'}")
    if first["type"] == "missing":
        return UserError(f"{key} is missing", "give it a value")
    message = re.sub(r"^(Input|Value) ", "it ", first["msg"])
    return UserError(f"{key} = {first['input']!r} is not possible", message)
