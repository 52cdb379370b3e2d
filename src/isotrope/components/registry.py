"""Components by name: ``InfoNCE`` in ``terms/`` is ``component("terms", "infonce")``; nothing else
has to know of it.

A component is a class that declares its stage: ``stage = "terms"`` in its body. A preset names it
by ``kind``, one of

    infonce                 InfoNCE, in the file terms/infonce.py
    margin_band             MarginBand, in a file with others of its kind
    released.softmax_bce    SoftmaxBCE, in a file of released/: what released code does instead of its paper
    package.module:Class    a third party's class, imported only when a run starts
"""

import importlib
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from isotrope.contract.exports import classes_in
from isotrope.errors import UserError, check_known, nearest, one_of

STAGES = ("tokens", "peers", "views", "scores", "terms", "teachers")  # of an objective
READING = "pairs"  # the stage before: from a document to pairs of texts
ROOMS = {READING: "text.pairs"}  # the other stages are rooms of their own name
THIRD_PARTY = ":"  # in a component's name


def kinds(stage: str) -> list[str]:
    """The names of a stage's components, then those of ``released/`` that belong to it."""
    return list(_classes(stage))


def component_class(stage: str, kind: str) -> type:
    """The class behind a component's name; a third party's module is imported."""
    if THIRD_PARTY not in kind:
        places = _classes(stage)
        if kind not in places:
            raise UserError(
                f"{stage} has no kind {kind!r}", one_of(kind, places, ", or name a module:Class")
            )
        return imported_class(places[kind], "kind")
    cls = imported_class(kind, "kind")
    if getattr(cls, "stage", None) != stage:
        raise UserError(
            f"kind = {kind!r} is not a component of {stage}",
            f'its class must declare stage = "{stage}"',
        )
    return cls


def imported_class(named: str, key: str) -> type:
    """The class that a preset's ``key`` names as ``module:Class``; its module is imported."""
    path, _, name = named.partition(":")
    try:
        cls = getattr(importlib.import_module(path), name)
        if not inspect.isclass(cls):
            raise TypeError("it is not a class")
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UserError(
            f"{key} = {named!r}: {error}", "install the package, or correct module:Class"
        ) from error
    return cls


def component(stage: str, kind: str, **options: Any) -> Any:
    """Make a component; its options are checked against its constructor's types and bounds.

    >>> component("terms", "infonce", temperature=0.1)
    InfoNCE(temperature=0.1, weight=1.0, positive_in_denominator=True)

    Raises:
        UserError: unknown stage, kind or option, or an impossible value; names the key, the value
            and the remedy.
    """
    cls = component_class(stage, kind)
    record = _options(cls)
    try:
        checked = record(**options)
    except ValidationError as error:
        raise explain(error, record, f"{stage}.{kind}") from error
    return cls(**{name: getattr(checked, name) for name in record.model_fields})


@cache
def _options(cls: type) -> type[BaseModel]:
    hints = get_type_hints(inspect.getattr_static(cls, "__init__"), include_extras=True)
    parameters = inspect.signature(cls).parameters.values()
    fields: Any = {
        p.name: (hints.get(p.name, Any), ... if p.default is p.empty else p.default)
        for p in parameters
    }
    return create_model(
        "options", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=True), **fields
    )


# as in ('max_length', 'constrained-int')
_KIND = re.compile(r"constrained-\w+$|(literal|tuple|list)\[|function-\w+\[")


def explain(
    error: ValidationError, record: Any, where: str = "", keys: Iterable[str] = ()
) -> UserError:
    """The first of pydantic's findings about a ``record`` as one line: key, value, remedy.

    ``keys`` are those that may be meant, with their tables, beside the keys of the table in which
    the mistake is.
    """
    first = error.errors()[0]
    for part in first["loc"][:-1]:  # to the record of that table
        hint = record.model_fields[part].annotation if part in record.model_fields else None
        record = next(
            (one for one in (hint, *get_args(hint)) if hasattr(one, "model_fields")), record
        )
    known = list(record.model_fields)
    key = _key(where, first)
    if first["type"] == "extra_forbidden":
        table = key.rpartition(".")[0]
        near = _meant(
            key, first["input"], [*keys, *(f"{table}.{name}".strip(".") for name in known)]
        )
        takes = f"{table} takes" if table else "the keys here are"
        return UserError(f"{key} is an unknown key", f"{near}{takes} {', '.join(known) or 'none'}")
    if first["type"] == "missing":
        return UserError(f"{key} is missing", "give it a value")
    # a key that takes several kinds of values has a finding for each
    wanted = " or ".join(one["msg"] for one in error.errors() if _key(where, one) == key)
    return UserError(
        f"{key} = {first['input']!r} is not possible", wanted.replace("Input should", "it should")
    )


def _key(where: str, finding: Mapping[str, Any]) -> str:
    """The key of a finding, without pydantic's name for one of several kinds of values."""
    parts = [where, *(str(part) for part in finding["loc"])]
    return ".".join(part for part in parts if not _KIND.match(part)).strip(".")


_ELSEWHERE = {  # names of other tools -> of here
    "lr": "learning_rate", "bs": "batch_size", "per_device_train_batch_size": "batch_size", "tau": "temperature",
    "num_train_epochs": "epochs", "warmup_ratio": "warmup", "max_seq_length": "max_length",
}  # fmt: skip


def _meant(key: str, value: object, keys: list[str]) -> str:
    """As `nearest`, for a key that may lack its table (batch_size), or have a mistyped one."""
    while isinstance(value, Mapping) and value:
        inner, value = next(iter(value.items()))
        key = f"{key}.{inner}"
    head, dot, last = key.rpartition(".")
    key = f"{head}{dot}{_ELSEWHERE.get(last, last)}"
    same = [known for known in keys if known.endswith("." + key)]
    return f"did you mean {same[0]!r}? " if same else nearest(key, keys)


def _classes(stage: str) -> dict[str, str]:
    """Kind -> ``module:Class`` of a stage's components."""
    check_known("stage", stage, (*STAGES, READING))
    released = {f"released.{kind}": place for kind, place in _places("released").items()}
    stages = {
        kind: getattr(imported_class(place, "kind"), "stage", None)
        for kind, place in released.items()
    }
    return _places(ROOMS.get(stage, stage)) | {
        kind: released[kind] for kind in released if stages[kind] == stage
    }


def _places(room: str) -> dict[str, str]:
    """Kind -> ``module:Class`` of a room's components, sorted. The files are read, not imported.

    A class is called as its file, or by its own words: ``NoMask`` is no_mask. A leading underscore
    hides either.
    """
    found, folders = {}, importlib.import_module(f"isotrope.{room}").__path__
    for name, file in classes_in(tuple(folders)).items():
        own = name.lower() == file.replace("_", "")
        kind = file if own else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        found[kind] = f"isotrope.{room}.{file}:{name}"
    return dict(sorted(found.items()))
