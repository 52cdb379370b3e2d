"""The candidates of a race: the model as it is, other poolings, post steps, and trainings on the
documents.

A `Trial` says how an encoder is made, `Maker` makes it, and its pairs are what that costs. The
race, its budget and its plan know no more than this, so a new kind of candidate is a change of this
file only.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer
from xxhash import xxh32_hexdigest

from isotrope.console.plain import plain_console
from isotrope.contract.features import language_model
from isotrope.encoder import load
from isotrope.encoder.average import average
from isotrope.encoder.checksum import GivenModel, located
from isotrope.encoder.load import sees_ahead
from isotrope.encoder.locate import Base, is_bare
from isotrope.encoder.prompts import with_query_route
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import (
    HALVES,
    HALVES_OF_SHORT,
    NEIGHBOURS,
    SCATTERED,
    SPANS,
    TITLE,
)
from isotrope.improvement.budget import BATCH
from isotrope.improvement.decide import AS_IS
from isotrope.improvement.steps import POST_STEPS, QUERY_MAP
from isotrope.improvement.teachers import Rankings
from isotrope.text import TextSource
from isotrope.training.rankings import learn_rankings
from isotrope.training.train import train

# Of a bare language model, whose best one nobody knows. The first is the model as it is.
RAW_POOLINGS = ("mean", "first_last", "cls")
DECODER_POOLINGS = ("lasttoken", "mean", "first_last")  # its first token has seen no other

_RAW = (  # a raw language model knows no order that is worth holding
    "train.learning_rate=1e-3", "terms.infonce.temperature=0.2", "terms.hold=false", "scores.instance_weight=false",
    "teachers.before=false",
)  # fmt: skip
_BM25 = (  # as in the preset bm25
    "terms.rank.kind=listnet", "terms.rank.teacher=bm25", "terms.rank.temperature=0.05",
    "terms.rank.teacher_temperature=0.05", "teachers.bm25.kind=bm25",
)  # fmt: skip
AVERAGED = 0.5  # of the trained weights; the rest is the model before training
# a training on what teachers rank, which has no preset; documents keep their vectors
RANKINGS = "query encoder"
# crops of a document that is a single short sentence
_SHORT = ("pairs.shortest=4", "pairs.longest=10")


def raw_poolings(model: SentenceTransformer) -> tuple[str, ...]:
    """The poolings that are tried with a bare language model."""
    encoder = language_model(model)
    return (
        DECODER_POOLINGS if encoder is not None and not sees_ahead(encoder.eval()) else RAW_POOLINGS
    )


@dataclass(frozen=True, slots=True)
class Training:
    """A way to train: a preset with a few settings."""

    name: str  # as tables show it
    preset: str
    overrides: tuple[str, ...] = ()  # ``key=value`` over the preset's keys
    alike: frozenset[str] = frozenset()  # tasks that resemble its training pairs


def recipes(raw: bool, titled: bool, short: bool = False, searched: bool = True) -> list[Training]:
    """The trainings that are tried, those that help most often first: where the time is short, the
    last are left out.

    ``raw`` says that the start is a bare language model, which learns with high rates, ``titled``
    and ``short`` that most documents have titles or are single sentences, and ``searched`` that
    searches judge. Graded pairs read both sides alike, so they cannot see an encoder for queries.
    """
    crops, titles = frozenset({SPANS, SCATTERED}), frozenset({TITLE})
    neighbours, cut = frozenset({HALVES, HALVES_OF_SHORT, NEIGHBOURS}), _SHORT if short else ()
    found = [
        Training(RANKINGS, ""),
        Training("crops", "crops", cut, crops),
        Training("titles", "title-body", (), titles),
        Training("sentences", "adapt", ("pairs.kind=sentence",)),
        Training("crops at a high rate", "crops", (*cut, "train.learning_rate=8e-5"), crops),
        Training("crops ranked by BM25", "crops", (*cut, *_BM25), crops),
        Training("neighbours", "neighbours", (), neighbours),
    ]
    if raw:
        found = [
            Training("crops", "crops-raw", cut, crops),
            Training("titles", "title-body", _RAW, titles),
            Training("crops at a low rate", "crops-raw", (*cut, "train.learning_rate=3e-4"), crops),
            Training("neighbours", "neighbours", _RAW, neighbours),
        ]
    possible = {"titles": titled, "neighbours": not short, RANKINGS: searched}
    return [one for one in found if possible.get(one.name, True)]


@dataclass(frozen=True, slots=True)
class Trial:
    """One encoder that is measured once; each post step after it is a candidate that costs nothing
    more.
    """

    name: str  # of the encoder, as in tables
    pooling: str | None = None  # as `isotrope.load` takes it
    recipe: str = ""  # the name of its training; "" if it has none
    pairs: int = 0  # that it is trained on, which is what it costs
    share: float = 1.0  # of the trained weights; the rest is the model before training
    steps: Sequence[str] = POST_STEPS  # names of the post steps that are tried after it
    start: str = ""  # the name of the model that it begins with; "" is the one that was given

    def candidates(self) -> Iterator[tuple[str, str]]:
        """Candidate -> the name of its post step; the encoder without one, with "", comes first."""
        yield self.name, ""
        for step in self.steps:
            yield joined(self.name, step), step

    @property
    def averaged(self) -> "Trial":
        """The same training, averaged with the model that it began with."""
        return replace(self, name=joined(self.name, "averaged"), share=AVERAGED)

    @property
    def run(self) -> str:
        """The name of the work that comes before its encoder, which other trials may share; "" if
        there is none.
        """
        return slug(f"{self.start} {self.recipe} {self.pairs}") if self.recipe else ""


@dataclass(frozen=True, slots=True)
class Maker:
    """Makes the encoders of trials from the start model."""

    model: str  # the start, as `isotrope.load` takes it
    documents: TextSource
    held_out: int  # documents that no candidate is trained or fitted on
    trained_on: int  # how many others there are
    seed: int  # of all random numbers
    folder: Path  # of the race
    recipes: Mapping[str, Training] = field(default_factory=dict)  # by name

    def work(self, trial: Trial, rankings: Rankings | None = None) -> None:
        """Do the long work that comes before the encoder: train. After a stop, the same call goes
        on.

        Of `RANKINGS`, a pair is two texts, so a query counts as half of one.
        """
        if rankings is not None:
            learn_rankings(
                load(self.model, trial.pooling),
                rankings.queries,
                rankings.documents,
                rankings.lists,
                texts=2 * trial.pairs,
                batch=BATCH,
                output=self.trained(trial).parent,
                seed=self.seed,
            )
            return
        recipe, pooling = self.recipes[trial.recipe], trial.pooling
        # a preset would take its own, and not the one that was measured
        if pooling is None and is_bare(self.model):
            pooling = load(self.model)[1].pooling_mode
        # a short document may have fewer pairs: then training is shorter
        rounds = -(-trial.pairs // self.trained_on)
        train(
            self.documents,
            output=self.trained(trial).parent,
            preset=recipe.preset,
            model=self.model,
            held_out=self.held_out,
            dev="none",
            labels="none",
            seed=self.seed,
            console=plain_console(quiet=True),
            overrides=(
                *recipe.overrides,
                f"pairs.rounds={rounds}",
                f"train.batch_size={BATCH}",
                "train.eval_steps=1000000",
                f"train.epochs={trial.pairs / (rounds * self.trained_on):.4f}",
                *([f"encoder.pooling={pooling}"] if pooling else []),
            ),
        )

    def trained(self, trial: Trial) -> Path:
        """The model that the work of a trial makes."""
        return self.folder / "runs" / trial.run / "model"

    def encoder(self, trial: Trial) -> SentenceTransformer:
        """The encoder of a trial, once its work is done."""
        start = load(self.model, trial.pooling)
        trained = load(self.trained(trial)) if trial.recipe else start
        trained = trained if trial.share == 1 else average(start, trained, trial.share)
        return (
            with_query_route(start, list(trained), list(start))
            if trial.recipe == RANKINGS
            else trained
        )

    def alike(self, trial: Trial) -> frozenset[str]:
        """The tasks that resemble what a trial was trained on."""
        return self.recipes[trial.recipe].alike if trial.recipe else frozenset()


def for_queries(made: Mapping[str, Any]) -> bool:
    """Whether documents keep the vectors that the given model has: of a candidate as a race's
    result has it.
    """
    given = not (made.get("start") or made.get("pooling"))
    return given and (made["step"] == QUERY_MAP or made.get("recipe") == RANKINGS)


def check_plan(
    plan: Mapping[str, Any],
    makers: Mapping[str, Maker],
    teachers: Collection[str],
    asks: bool = False,
) -> None:
    """Refuse a plan with a teacher, a model, a training or questions (``asks``) that this race does
    not have.
    """
    lost = [
        f"teacher {name} (--teacher)" for name in plan.get("teachers", []) if name not in teachers
    ]
    lost += ["query model (--query-model)"] if plan.get("questions") and not asks else []
    for trial in (Trial(**of) for of in plan["trials"]):
        if trial.start not in makers:
            lost.append(f"model {trial.start} (--or)")
        elif trial.recipe not in ("", *makers[trial.start].recipes):
            lost.append(
                f"training {trial.recipe}, which these documents and this model do not have"
            )
    if lost:
        raise UserError(
            f"the plan has the {lost[0]}",
            "repeat it with all models and documents that it was made with",
        )


def joined(*parts: str) -> str:
    """The name of a candidate that does one thing after the other."""
    told = [part for part in parts if part and part != AS_IS]
    return ", ".join(told) or AS_IS


def slug(name: str) -> str:
    """A candidate's name as the name of a file. Names that differ in signs only have other digits
    at the end.
    """
    return (
        f"{re.sub(r'[^a-z0-9.]+', '-', name.lower()).strip('-')}-{xxh32_hexdigest(name.encode())}"
    )


def told_apart(given: Sequence[GivenModel], taken: set[str]) -> dict[str, str]:
    """Name -> model, of models whose names are not ``taken`` yet. Of one that is, its folder is
    named too.
    """
    models = dict[str, str]()
    for one in map(located, given):
        name = Base.of(one).name
        name = "/".join(Path(one).parts[-2:]) if name in taken else name
        if name in taken:
            raise UserError(f"{name} is given twice", f"name each model once, and none {AS_IS}")
        taken.add(name)
        models[name] = one
    return models
