"""What a student is made of: layers of its teacher, a vector for each token, or another model."""

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from isotrope.encoder import load
from isotrope.encoder.prompts import role_prompt, used_prompt
from isotrope.encoder.student import IN_PLACE, STATIC, check_student

TINY = "isotrope/tiny"
RATE = 1e-4  # of a student that knows something: a good model is spoilt by the rate of a raw one
# Of one vector a token, which few steps move. The order of all cosines of held-out texts agrees
# with the teacher's by 0.25 with the preset's 1e-3, 0.43 with this, and 0.45 with 3e-2, with which
# a reader of queries is worse.
STATIC_RATE = 1e-2
_MADE_OF_TEACHER = ("layers", STATIC)  # the first words of such students
# Over the preset's keys, if it reads queries only: its own vector is its teacher's, of texts that
# look like queries.
_QUERY_KEYS = (
    "terms=false",
    "terms={vectors={kind='vector_match', teacher='teacher', projected=false}}",
    "pairs=false",
    "pairs={kind='queries', rounds=8}",
)


@dataclass(frozen=True, slots=True)
class Student:
    """A student before training."""

    name: str  # as the user gave it
    backbone: str  # the model that it is made of
    recipe: str = ""  # how it is made of the backbone, such as layers:3; "": the backbone itself
    learning_rate: float | None = None  # None: the preset's

    @property
    def overrides(self) -> list[str]:
        """The preset's keys that say what it is and how fast it learns."""
        keys = []
        if self.recipe:
            keys.append(f"encoder.student={self.recipe!r}")
        if self.learning_rate is not None:
            keys.append(f"train.learning_rate={self.learning_rate}")
        return keys


def plan_student(student: str, teacher: str, queries_only: bool = False) -> Student:
    """What a student of this teacher is made of.

    Raises:
        UserError: there is no such student.
    """
    recipe = query_student(student) if queries_only else student
    if recipe in ("tiny", TINY):
        return Student(student, TINY)
    if not _is_recipe(recipe):
        return Student(student, recipe, learning_rate=RATE)
    check_student(recipe)
    rate = STATIC_RATE if recipe.startswith(STATIC) else RATE
    return Student(student, teacher, recipe, rate)


def query_student(student: str) -> str:
    """The student whose vectors begin among its teacher's: made of the teacher, or a model that
    follows it already.
    """
    if "/" not in student:
        check_student(student)
    return IN_PLACE if student == STATIC else student


def query_overrides(teacher: str) -> list[str]:
    """Settings (key=value) of a student that learns a teacher's vectors of queries. Both are given
    the teacher's prompt for queries, if it does not use that one for all texts.
    """
    encoder = load(teacher, device="cpu", frozen=True)
    words = role_prompt(encoder, "query")
    if not words or words == used_prompt(encoder):
        return list(_QUERY_KEYS)
    student_prompt = tomli_w.dumps({"prompt": words})
    teacher_prompt = tomli_w.dumps({"prompt": [words]})
    return [
        *_QUERY_KEYS,
        f"encoder.{student_prompt}",
        f"teachers.teacher.{teacher_prompt}",
    ]


def _is_recipe(student: str) -> bool:
    """Whether it is made of the teacher, and not a model's name or folder."""
    if student.split(":")[0] in _MADE_OF_TEACHER:
        return True
    is_folder = bool(student) and Path(student).expanduser().exists()
    return "/" not in student and not is_folder
