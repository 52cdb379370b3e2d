"""The encoders of the papers' tables, by name: what a new method is compared with.

A name is a source, then a pooling after ``@``, then any steps behind it, each after a ``+``, as
tables write them:

    MODEL@first_last+whitening:k=256         another pooling, then BERT-whitening to 256 dimensions
    glove.6B.300d.txt                        the mean of word vectors
    MODEL+ranks:k=1000,fit=wiki.txt          fitted on a corpus, not on what is evaluated

docs/methods/others.md has all steps. A file whose name holds a ``+`` or a comma cannot be given as
an option.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from isotrope.encoder import load
from isotrope.encoder.locate import locate
from isotrope.encoder.pooling import check_pooling
from isotrope.encoder.prompts import NO_PROMPTS, Prompts
from isotrope.encoder.word_vectors import WordVectors
from isotrope.errors import UserError
from isotrope.post.fitted import TARGET, PostStep
from isotrope.post.flow import Flow
from isotrope.post.ranks import Ranks
from isotrope.post.whitening import Whitening
from isotrope.types import Encoder

STEPS: dict[str, type[PostStep]] = {
    "whitening": Whitening,
    "flow": Flow,
    "ranks": Ranks,
}


@dataclass(frozen=True, slots=True)
class EncoderName:
    """A baseline's name, taken apart."""

    source: str  # a model, or a file of word vectors
    pooling: str | None
    steps: tuple[PostStep, ...]

    @classmethod
    def parse(cls, name: str) -> Self:
        """Take a name apart; what exists as a folder or file of that name is meant as it is."""
        source, steps = name, list[PostStep]()
        while "+" in source and not _exists(source):
            source, _, text = source.rpartition("+")
            steps.insert(0, post_step(text, name))
        pooling = None
        if "@" in source and not _exists(source):
            source, _, pooling = source.rpartition("@")
            check_pooling(pooling)
        for before, after in pairwise(steps):
            if before.fit == TARGET != after.fit:
                problem = f"{name}: fitted on {after.fit} after a step that is fitted on the target"
                raise UserError(problem, "give both steps the same fit=", code="other-fit")
        return cls(source, pooling, tuple(steps))

    @property
    def words(self) -> Path | None:
        """The file of word vectors, if the source is one."""
        path = Path(self.source).expanduser()
        return path if path.is_file() else None


def check_name(name: str, prompts: Prompts = NO_PROMPTS) -> EncoderName:
    """Refuse a name that cannot be opened, as far as that shows before a model is loaded."""
    parsed = EncoderName.parse(name)
    if parsed.words is None:
        prompts.check(locate(parsed.source), parsed.source)
    elif prompts != NO_PROMPTS or parsed.pooling is not None:
        problem = f"{name}: word vectors have no prompts and no pooling"
        raise UserError(problem, "leave both out: they are averaged", code="no-pooling")
    else:
        WordVectors(parsed.words)
    for step in parsed.steps:
        step.check()
    return parsed


def open_encoder(name: str, pooling: str | None = None, prompts: Prompts = NO_PROMPTS) -> Encoder:
    """The encoder of a name: a model as ``isotrope.load`` gives it, or a baseline of this package.

    ``pooling`` is that of a model whose name says none. Word vectors have none, and take no
    prompts.
    """
    parsed = check_name(name, prompts)
    check_pooling(pooling)
    if parsed.words is not None:
        encoder: Encoder = WordVectors(parsed.words)
    else:
        encoder = load(
            parsed.source, parsed.pooling or pooling, prompt=prompts.text, prompt_name=prompts.name
        )
        prompts.apply_roles(encoder)
    for step in parsed.steps:
        encoder = step.behind(encoder)
    return encoder


def post_step(text: str, name: str) -> PostStep:
    """``whitening:k=256,fit=wiki.txt`` -> the step; ``name`` is where it stands, for messages."""
    kind, _, options = text.partition(":")
    if kind not in STEPS:
        remedy = f"write one of +{', +'.join(STEPS)} after the model"
        raise UserError(f"{name}: there is no step {kind!r}", remedy, code="unknown-step")
    settings = {}
    for option in options.split(",") if options else []:
        key, _, value = option.partition("=")
        settings[key] = value
    try:
        return STEPS[kind](**settings)  # pydantic turns the text into numbers
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        problem = f"{name}: {key}={first['input']} is not possible"
        keys = ", ".join(STEPS[kind].model_fields)
        remedy = f"{first['msg']}; write +{kind}:key=value,key=value of {keys}"
        raise UserError(problem, remedy, code="impossible-value") from error


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).expanduser().exists()
    except OSError:  # too long to be a file's name
        return False
