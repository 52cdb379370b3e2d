"""Components by name: ``InfoNCE`` in ``terms/`` is ``component("terms", "infonce")``.

A component is a class that declares its stage: ``stage = "terms"`` in its body. The ``__init__.py``
of its room lists it. A preset names it by ``kind``, one of

    infonce                 InfoNCE, in the file terms/infonce.py
    margin_band             MarginBand, in a file with others of its kind
    released.softmax_bce    SoftmaxBCE, in a file of released/: where released code departs
    package.module:Class    a third party's class, imported only when a run starts
"""

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from isotrope.errors import UserError, check_known, nearest, one_of

STAGES = ("tokens", "peers", "views", "scores", "terms", "teachers")  # of an objective
READING = "pairs"  # the stage before: from a document to pairs of texts
ROOMS = {READING: "text.pairs"}  # the other stages are rooms of their own name
RELEASED = "released"
THIRD_PARTY = ":"  # in a component's name


def kinds(stage: str) -> list[str]:
    """The names of a stage's components, then those of ``released/`` that belong to it."""
    return list(_class_paths(stage))


def component_class(stage: str, kind: str) -> type:
    """The class with a component's name; a third party's module is imported."""
    if THIRD_PARTY not in kind:
        paths = _class_paths(stage)
        if kind not in paths:
            remedy = one_of(kind, paths, ", or name a module:Class")
            raise UserError(f"{stage} has no kind {kind!r}", remedy, code="unknown-kind")
        return imported_class(paths[kind])
    cls = imported_class(kind)
    if getattr(cls, "stage", None) != stage:
        problem = f"kind = {kind!r} is not a component of {stage}"
        raise UserError(problem, f'its class must declare stage = "{stage}"', code="wrong-stage")
    return cls


def imported_class(path: str) -> type:
    """The class that ``kind`` names as ``module:Class``; its module is imported."""
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
        cls = getattr(module, name)
        if not inspect.isclass(cls):
            raise TypeError("it is not a class")
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        problem = f"kind = {path!r}: {error}"
        remedy = "install the package, or correct module:Class"
        raise UserError(problem, remedy, code="unknown-class") from error
    return cls


def component(stage: str, kind: str, **options: Any) -> Any:
    """Make a component; its options are checked against its constructor's types and bounds.

    >>> component("terms", "infonce", temperature=0.1)
    InfoNCE(temperature=0.1, weight=1.0, positive_in_denominator=True)

    Raises:
        UserError: unknown stage, kind or option, or an impossible value; names the key, the value
            and the remedy.
    """
    return make_component(stage, kind, options, where=f"{stage}.{kind}")


def make_component(
    stage: str,
    kind: str,
    options: Mapping[str, Any],
    where: str,
) -> Any:
    """As `component`; ``where`` is what messages call it."""
    cls = component_class(stage, kind)
    record = _options_record(cls)
    try:
        checked = record(**options)
    except ValidationError as error:
        raise explain(error, record, where) from error
    arguments = {name: getattr(checked, name) for name in record.model_fields}
    return cls(**arguments)


@cache
def _options_record(cls: type) -> type[BaseModel]:
    """A record that checks the arguments of a component's constructor."""
    constructor = inspect.getattr_static(cls, "__init__")
    hints = get_type_hints(constructor, include_extras=True)
    fields: dict[str, Any] = {}
    parameters = inspect.signature(cls).parameters
    for name, parameter in parameters.items():
        hint = hints.get(name, Any)
        default = parameter.default
        if default is parameter.empty:
            default = ...  # required
        fields[name] = (hint, default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    return create_model("options", __config__=config, **fields)


def _class_paths(stage: str) -> dict[str, str]:
    """Kind -> ``module:Class`` of a stage's components."""
    check_known("stage", stage, (*STAGES, READING))
    paths = _paths_in(ROOMS.get(stage, stage))
    for kind, path in _paths_in(RELEASED).items():
        cls = imported_class(path)
        if getattr(cls, "stage", None) == stage:
            paths[f"{RELEASED}.{kind}"] = path
    return paths


def _paths_in(room: str) -> dict[str, str]:
    """Kind -> ``module:Class`` of the components that a room lists, sorted. None is imported.

    A class is called as its file, or by its own words: ``NoMask`` is no_mask.
    """
    paths = {}
    package = importlib.import_module(f"isotrope.{room}")
    for name, file in package.COMPONENTS.items():
        kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        if name.lower() == file.replace("_", ""):
            kind = file
        paths[kind] = f"{package.__name__}.{file}:{name}"
    return dict(sorted(paths.items()))


# What pydantic adds to the place of a mistake, as in ('max_length', 'constrained-int')
_PYDANTIC_KIND = re.compile(r"constrained-\w+$|(literal|tuple|list)\[|function-\w+\[")


def explain(
    error: ValidationError,
    record: Any,
    where: str = "",
    keys: Iterable[str] = (),
) -> UserError:
    """The first of pydantic's findings about a ``record`` as one line: key, value, remedy.

    ``keys`` are those that may be meant, with their tables, beside the keys of the table in which
    the mistake is.
    """
    first, *others = error.errors()
    key = _dotted_key(where, first)
    if first["type"] == "missing":
        return UserError(f"{key} is missing", "give it a value", code="missing-key")
    if first["type"] == "extra_forbidden":
        table_record = _inner_record(record, first["loc"])
        names = list(table_record.model_fields)
        return _unknown_key(key, first["input"], names, keys)

    # A key that takes several kinds of values has a finding for each.
    messages = [first["msg"]]
    for finding in others:
        if _dotted_key(where, finding) == key:
            messages.append(finding["msg"])
    remedy = " or ".join(messages).replace("Input should", "it should")
    problem = f"{key} = {first['input']!r} is not possible"
    return UserError(problem, remedy, code="impossible-value")


def _unknown_key(
    key: str,
    value: object,
    names: list[str],
    keys: Iterable[str],
) -> UserError:
    """``names`` are the keys of the table; ``keys`` are those of others."""
    table, _, _ = key.rpartition(".")
    candidates = list(keys)
    for name in names:
        key_here = f"{table}.{name}"
        candidates.append(key_here.strip("."))
    question = _meant_key(key, value, candidates)  # did you mean …?
    takes = f"{table} takes" if table else "the keys here are"
    keys_of_table = ", ".join(names) or "none"
    remedy = f"{question}{takes} {keys_of_table}"
    return UserError(f"{key} is an unknown key", remedy, code="unknown-key")


def _inner_record(record: Any, location: tuple[int | str, ...]) -> Any:
    """The record of the table in which pydantic found a mistake."""
    for name in location[:-1]:
        if name not in record.model_fields:
            continue
        hint = record.model_fields[name].annotation
        for candidate in (hint, *get_args(hint)):
            if hasattr(candidate, "model_fields"):
                record = candidate
                break
    return record


def _dotted_key(where: str, finding: Mapping[str, Any]) -> str:
    """The key of a finding, without pydantic's name for one of several kinds of values."""
    keys = [where]
    for name in map(str, finding["loc"]):
        if not _PYDANTIC_KIND.match(name):
            keys.append(name)
    return ".".join(keys).strip(".")


def _meant_key(
    key: str,
    value: object,
    keys: list[str],
) -> str:
    """As `nearest`, for a key that may lack its table (batch_size), or have a mistyped one."""
    while isinstance(value, Mapping) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    for candidate in keys:
        if candidate.endswith("." + key):
            return f"did you mean {candidate!r}? "
    return nearest(key, keys)
