"""The candidates of a race: the model as it is, other poolings, post steps, and trainings on the
documents.

A `Candidate` says how an encoder is made, and `CandidateTrainer` makes it. The race and its plan
know no more than this, so a new kind of candidate is a change of this file only.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict
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
from isotrope.improvement.choose import Traits
from isotrope.improvement.scores import KEEP
from isotrope.improvement.steps import POST_STEPS, QUERY_MAP
from isotrope.improvement.teachers import Rankings
from isotrope.text import TextSource
from isotrope.training.rankings import learn_rankings
from isotrope.training.train import train

# Poolings of a bare language model, whose best one nobody knows. The first is the model as it is.
RAW_POOLINGS = ("mean", "first_last", "cls")
DECODER_POOLINGS = ("lasttoken", "mean", "first_last")  # its first token has seen no other

BATCH = 64  # pairs
AVERAGED = 0.5  # share of the trained weights; the rest is the model before training
RANKINGS = "query encoder"  # a training on what teachers rank; documents keep their vectors

# A raw language model knows no order that is worth holding.
RAW_SETTINGS = (
    "train.learning_rate=1e-3",
    "terms.infonce.temperature=0.2",
    "terms.hold=false",
    "scores.instance_weight=false",
    "teachers.before=false",
)
# As in the preset bm25.
BM25_SETTINGS = (
    "terms.rank.kind=listnet",
    "terms.rank.teacher=bm25",
    "terms.rank.temperature=0.05",
    "terms.rank.teacher_temperature=0.05",
    "teachers.bm25.kind=bm25",
)
# Crops of a document that is a single short sentence.
SHORT_SETTINGS = ("pairs.shortest=4", "pairs.longest=10")


def raw_poolings(model: SentenceTransformer) -> tuple[str, ...]:
    """The poolings that are tried with a bare language model."""
    encoder = language_model(model)
    if encoder is not None and not sees_ahead(encoder.eval()):
        return DECODER_POOLINGS
    return RAW_POOLINGS


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way to train: a preset with a few settings."""

    name: str  # as tables show it
    preset: str
    overrides: tuple[str, ...] = ()  # ``key=value`` over the preset's keys
    resembles: frozenset[str] = frozenset()  # tasks that are like its training pairs


@dataclass(frozen=True, slots=True)
class Collection:
    """What decides which trainings are possible."""

    has_titles: bool  # most documents have one
    is_short: bool  # most documents are single sentences
    is_searched: bool  # searches judge; graded pairs cannot see an encoder for queries


def recipes_for(is_raw: bool, collection: Collection) -> list[Recipe]:
    """The trainings that are tried, those that help most often first: if the time is short, the
    last are left out.

    A bare language model (``is_raw``) learns with high rates.
    """
    crops = frozenset({SPANS, SCATTERED})
    titles = frozenset({TITLE})
    neighbours = frozenset({HALVES, HALVES_OF_SHORT, NEIGHBOURS})
    lengths = SHORT_SETTINGS if collection.is_short else ()
    low_rate = (*lengths, "train.learning_rate=3e-4")
    high_rate = (*lengths, "train.learning_rate=8e-5")
    if is_raw:
        recipes = [
            Recipe("crops", "crops-raw", lengths, crops),
            Recipe("titles", "title-body", RAW_SETTINGS, titles),
            Recipe("crops at a low rate", "crops-raw", low_rate, crops),
            Recipe("neighbours", "neighbours", RAW_SETTINGS, neighbours),
        ]
    else:
        recipes = [
            Recipe(RANKINGS, ""),
            Recipe("crops", "crops", lengths, crops),
            Recipe("titles", "title-body", (), titles),
            Recipe("sentences", "adapt", ("pairs.kind=sentence",)),
            Recipe("crops at a high rate", "crops", high_rate, crops),
            Recipe("crops ranked by BM25", "crops", (*lengths, *BM25_SETTINGS), crops),
            Recipe("neighbours", "neighbours", (), neighbours),
        ]
    is_possible = {
        "titles": collection.has_titles,
        "neighbours": not collection.is_short,
        RANKINGS: collection.is_searched,
    }
    return [recipe for recipe in recipes if is_possible.get(recipe.name, True)]


class Candidate(BaseModel):
    """One encoder, which is measured once; each post step after it is a candidate too, and costs
    nothing more.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str  # of the encoder, as in tables
    pooling: str | None = None  # as `isotrope.load` takes it
    recipe: str = ""  # the name of its training; "" if it has none
    pairs: int = 0  # that it is trained on
    share: float = 1.0  # of the trained weights; the rest is the model before training
    steps: tuple[str, ...] = POST_STEPS  # that are tried after it
    start: str = ""  # the name of the model that it begins with; "" is the one that was given

    def with_steps(self) -> Iterator[tuple[str, str]]:
        """The name of each candidate, and its post step; the encoder alone, with "", is first."""
        yield self.name, ""
        for step in self.steps:
            yield join_names(self.name, step), step

    def averaged(self) -> "Candidate":
        """The same training, averaged with the model that it began with."""
        name = join_names(self.name, "averaged")
        return self.model_copy(update={"name": name, "share": AVERAGED})

    @property
    def run(self) -> str:
        """The name of its training, which others may share; "" if it has none."""
        return file_name(f"{self.start} {self.recipe} {self.pairs}") if self.recipe else ""


class MadeCandidate(BaseModel):
    """How a candidate is made: an encoder, and perhaps a post step after it."""

    encoder: Candidate
    step: str  # its post step; "" if it has none

    @property
    def keeps_documents(self) -> bool:
        """Whether documents keep the vectors of the given model."""
        is_given = not self.encoder.start and not self.encoder.pooling
        return is_given and (self.step == QUERY_MAP or self.encoder.recipe == RANKINGS)


@dataclass(frozen=True, slots=True)
class CandidateTrainer:
    """Makes the encoders of candidates from the model that they begin with."""

    model: str  # as `isotrope.load` takes it
    documents: TextSource
    held_out: int  # documents that no candidate is trained on
    trained_on: int  # how many others there are
    seed: int  # of all random numbers
    folder: Path  # of the race
    recipes: Mapping[str, Recipe] = field(default_factory=dict)  # by name

    def train(self, candidate: Candidate, rankings: Rankings | None = None) -> None:
        """Train on pairs, or on what teachers rank. After a stop, the same call goes on."""
        output = self.trained_model(candidate).parent
        if rankings is None:
            self._train_on_pairs(candidate, output)
            return
        learn_rankings(
            load(self.model, candidate.pooling),
            rankings.queries,
            rankings.document_vectors,
            rankings.lists,
            texts=2 * candidate.pairs,  # a pair is two texts, so a query counts as half of one
            batch=BATCH,
            output=output,
            seed=self.seed,
        )

    def _train_on_pairs(self, candidate: Candidate, output: Path) -> None:
        recipe = self.recipes[candidate.recipe]
        # A short document may have fewer pairs: then training is shorter.
        rounds = -(-candidate.pairs // self.trained_on)
        overrides = [
            *recipe.overrides,
            f"pairs.rounds={rounds}",
            f"train.batch_size={BATCH}",
            "train.eval_steps=1000000",
            f"train.epochs={candidate.pairs / (rounds * self.trained_on):.7f}",
        ]
        # A preset would take its own pooling, and not the one that was measured.
        pooling = candidate.pooling
        if pooling is None and is_bare(self.model):
            pooling = load(self.model)[1].pooling_mode
        if pooling:
            overrides.append(f"encoder.pooling={pooling}")
        train(
            self.documents,
            output=output,
            preset=recipe.preset,
            model=self.model,
            held_out=self.held_out,
            dev="none",
            labels="none",
            seed=self.seed,
            console=plain_console(quiet=True),
            overrides=overrides,
        )

    def trained_model(self, candidate: Candidate) -> Path:
        """The folder of the model that a candidate's training makes."""
        return self.folder / "runs" / candidate.run / "model"

    def encoder(self, candidate: Candidate) -> SentenceTransformer:
        """The encoder of a candidate, once it is trained."""
        start = load(self.model, candidate.pooling)
        if not candidate.recipe:
            return start
        trained = load(self.trained_model(candidate))
        if candidate.share != 1:
            trained = average(start, trained, candidate.share)
        if candidate.recipe == RANKINGS:
            return with_query_route(start, list(trained), list(start))
        return trained

    def traits(self, made: MadeCandidate) -> Traits:
        """What counts for a candidate besides its gain."""
        candidate = made.encoder
        resembles = frozenset[str]()
        if candidate.recipe:
            resembles = self.recipes[candidate.recipe].resembles
        averaged = join_names(candidate.name, "averaged", made.step)
        return Traits(resembles, made.keeps_documents, averaged)


def join_names(*parts: str) -> str:
    """The name of a candidate that does one thing after the other."""
    names = [part for part in parts if part and part != KEEP]
    return ", ".join(names) or KEEP


def file_name(name: str) -> str:
    """A candidate's name as the name of a file. Names that differ only in signs end with other
    digits.
    """
    words = re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")
    return f"{words}-{xxh32_hexdigest(name.encode())}"


def unique_names(models: Sequence[GivenModel], taken: set[str]) -> dict[str, str]:
    """Name -> model, of models whose names are not ``taken`` yet. If one is, its folder is named
    too.
    """
    names = dict[str, str]()
    for model in map(located, models):
        name = Base.of(model).name
        if name in taken:
            name = "/".join(Path(model).parts[-2:])
        if name in taken:
            raise UserError(
                f"{name} is given twice",
                f"name each model once, and none {KEEP}",
                "model-given-twice",
            )
        taken.add(name)
        names[name] = model
    return names
