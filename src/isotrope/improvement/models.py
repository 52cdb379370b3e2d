"""The models of a race: where they are, and what is wrong with them, before any long work."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from isotrope.encoder import load
from isotrope.encoder.checksum import GivenModel, files_checksum, located
from isotrope.encoder.locate import Base, find_model
from isotrope.encoder.pooling import check_pooling
from isotrope.errors import UserError
from isotrope.improvement.candidates import unique_names
from isotrope.improvement.scores import KEEP
from isotrope.improvement.teachers import is_cross_encoder


@dataclass(frozen=True)
class Models:
    """Where the models are, by their names."""

    given: str
    pooling: str | None  # of the given model
    others: Mapping[str, str]  # to begin with
    teachers: Mapping[str, str]

    @classmethod
    def locate(
        cls,
        model: GivenModel,
        pooling: str | None,
        other_models: Sequence[GivenModel],
        teachers: Sequence[GivenModel],
    ) -> "Models":
        """Find all models. UserError if one is not there or is named twice."""
        check_pooling(pooling)
        given = located(model)
        taken = {KEEP, Base.of(given).name}
        others = unique_names(other_models, taken)
        teaching = unique_names(teachers, taken)
        for where in (given, *others.values(), *teaching.values()):
            find_model(where)
        return cls(given, pooling, others, teaching)

    @property
    def name(self) -> str:
        """The name of the given model."""
        return Base.of(self.given).name

    @property
    def starts(self) -> dict[str, str]:
        """Name -> model to begin with; "" is the given one."""
        return {"": self.given, **self.others}

    def check(self) -> None:
        """Check that each can be loaded and gives vectors."""
        for where in (*self.starts.values(), *self.teachers.values()):
            if is_cross_encoder(where):
                raise UserError(
                    f"{where} is a cross-encoder, which gives no vectors",
                    "name an embedding model",
                    "cross-encoder",
                )
            load(where)

    def identity(self) -> dict[str, Any]:
        """Checksums of all models."""
        return {
            "model": files_checksum(self.given),
            "other_models": {name: files_checksum(path) for name, path in self.others.items()},
            "teachers": {name: files_checksum(path) for name, path in self.teachers.items()},
        }
