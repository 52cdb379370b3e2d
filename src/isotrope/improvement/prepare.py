"""What a race needs before it begins: the parts of the documents, the tasks, and the plan."""

from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from isotrope.console.progress import tell
from isotrope.encoder import load
from isotrope.encoder.fast.dtype import AUTO
from isotrope.encoder.locate import is_bare
from isotrope.errors import UserError
from isotrope.evaluation.document_tasks import are_short
from isotrope.evaluation.sets.graded_pairs import GradedPairs
from isotrope.evaluation.sets.labels import Labels
from isotrope.improvement.candidates import (
    Candidate,
    CandidateTrainer,
    Collection,
    raw_poolings,
    recipes_for,
)
from isotrope.improvement.clock import Clock
from isotrope.improvement.models import Models
from isotrope.improvement.plan import (
    MOST_ROUNDS,
    TEACHER_SHARE,
    Plan,
    Teaching,
    Workload,
)
from isotrope.improvement.scores import KEEP
from isotrope.improvement.speed import reading_speed, training_speed
from isotrope.improvement.split import (
    FEWEST_DOCUMENTS,
    MOST_CHOOSING,
    MOST_JUDGING,
    Split,
    choosing_count,
    most_held_out,
    split_documents,
)
from isotrope.improvement.steps import MAPS, FittingSet
from isotrope.improvement.tasks import (
    FEWEST_SPLIT_LABELS,
    TaskSet,
    count_words,
    label_tasks,
    split_labels,
    tasks_from_documents,
    texts_to_encode,
)
from isotrope.text import TextSource
from isotrope.text.corpus import Document, Documents
from isotrope.text.permutation import RowIds, evenly

SAMPLE = 150  # documents that are looked at before the plan
MOST_TITLED = 0.5  # share of documents with titles from which trainings on titles are tried


@dataclass(frozen=True)
class Material:
    """The documents and the labels of a race."""

    source: TextSource
    documents: Documents
    labels: Labels | None
    seed: int

    @classmethod
    def of(cls, source: TextSource, labels: Labels | None, seed: int) -> "Material":
        """UserError if the documents are too few to judge by."""
        documents = source.documents()
        if labels is None and len(documents) < FEWEST_DOCUMENTS:
            raise UserError(
                f"{len(documents)} documents are too few: about {FEWEST_DOCUMENTS} are needed, "
                "because half of them choose and judge",
                "give more documents, or labels of your own (--labels)",
                "too-few-documents",
            )
        return cls(source, documents, labels, seed)

    @property
    def _labels_choose(self) -> bool:
        """Whether there are so many labels that some choose and the others judge."""
        return self.labels is not None and self.labels.size >= FEWEST_SPLIT_LABELS

    def sample(self) -> list[Document]:
        """Some documents, evenly spread."""
        return list(self.documents.each(np.array(evenly(len(self.documents), SAMPLE))))

    def collection(self) -> Collection:
        """What decides which trainings are possible."""
        sample = self.sample()
        titled = sum(bool(document.title) for document in sample)
        return Collection(
            has_titles=titled >= MOST_TITLED * len(sample),
            is_short=are_short(sample),
            is_searched=not isinstance(self.labels, GradedPairs),
        )

    def fitting_set(self, rows: RowIds | None = None) -> FittingSet:
        """What post steps are fitted on: some of these rows, or of all."""
        if rows is None:
            rows = self.documents.split(0, self.seed)[0]
        return FittingSet.of(self.documents, rows, self.seed)

    def most_cases(self) -> tuple[int, int]:
        """How many documents, or labels, may choose and judge at most."""
        if self.labels is None or self._labels_choose:
            held_out = self.labels.size if self.labels else most_held_out(len(self.documents))
            choosing = choosing_count(held_out)
            return choosing, min(MOST_JUDGING, held_out - choosing)
        return min(MOST_CHOOSING, len(self.documents) // 2), self.labels.size

    def words_a_case(self) -> tuple[float, float]:
        """Words of a document, or of a label, that chooses, and of one that judges."""
        words_of_label = 0.0
        if self.labels is not None:
            words_of_label = count_words(self.labels.texts) / self.labels.size
        if self._labels_choose:
            return words_of_label, words_of_label
        sample = self.sample()
        words = tasks_from_documents(sample, self.seed).words / len(sample)
        return words, words if self.labels is None else words_of_label

    def split(self, plan: Plan) -> Split:
        """The documents that nothing is fitted on, and the others."""
        choosing = 0 if self._labels_choose else plan.choosing
        judging = plan.judging if self.labels is None else 0
        return split_documents(self.documents, choosing, judging, self.seed)

    def task_sets(self, plan: Plan, split: Split) -> tuple[TaskSet, TaskSet]:
        """The tasks that choose, and those that judge."""
        if self.labels is not None and self._labels_choose:
            return split_labels(self.labels, plan.choosing, plan.judging)
        choosing = self._tasks(split.choosing)
        if self.labels is not None:
            return choosing, label_tasks(self.labels, "judge")
        return choosing, self._tasks(split.judging)

    def _tasks(self, rows: RowIds) -> TaskSet:
        return tasks_from_documents(list(self.documents.each(rows)), self.seed)


def trainers_of(
    models: Models, material: Material, held_out: int, folder: Path
) -> dict[str, CandidateTrainer]:
    """What makes candidates, by the model that they begin with."""
    collection = material.collection()
    trainers = {}
    for name, model in models.starts.items():
        trainers[name] = CandidateTrainer(
            model,
            material.source,
            held_out,
            len(material.documents) - held_out,
            material.seed,
            folder,
            {recipe.name: recipe for recipe in recipes_for(is_bare(model), collection)},
        )
    return trainers


def untrained_candidates(models: Models) -> list[Candidate]:
    """The model as it is, which comes first, other poolings of a raw one, and other models."""
    poolings: list[str | None] = [models.pooling]
    if is_bare(models.given) and models.pooling is None:
        poolings = list(raw_poolings(load(models.given)))
    first, *others = poolings
    candidates = [Candidate(name=KEEP, pooling=first)]
    candidates += [Candidate(name=f"pooling {name}", pooling=name) for name in others]
    candidates += [Candidate(name=name, start=name) for name in models.others]
    return candidates


def measure_workload(
    models: Models, material: Material, clock: Clock, general_words: int
) -> Workload:
    """Measure how fast the models read and are trained, and count what there is to do."""
    choosing, judging = material.most_cases()
    fitting_set = material.fitting_set()
    queries, documents = fitting_set.texts(MAPS)

    reading: dict[str, float] = {}
    training = inf
    for number, (name, where) in enumerate(models.starts.items()):
        model = load(where, models.pooling if not name else None)
        tell("measured the speed of", number, len(models.starts), "models")
        reading[name] = reading_speed(model, documents)
        tell("measured the speed of", number, len(models.starts), "models")
        training = min(training, training_speed(model, documents, reading[name]))

    words_choosing, words_judging = material.words_a_case()
    trained_on = len(material.documents) - choosing - judging
    return Workload(
        seconds=clock.left,
        most_choosing=choosing,
        most_judging=judging,
        words_choosing=words_choosing,
        words_judging=words_judging,
        fitting_documents=len(documents),
        fitting_words=count_words([*queries, *documents]),
        whitening_words=count_words(fitting_set.whitening_queries),
        general_words=general_words,
        reading=reading,
        training=training,
        untrained=untrained_candidates(models),
        judged_by_documents=material.labels is None,
        recipes=len(recipes_for(is_bare(models.given), material.collection())),
        most_pairs=MOST_ROUNDS * max(0, trained_on),
    )


def plan_teaching(models: Models, material: Material, seconds: float) -> Teaching:
    """Plan within ``seconds`` which teachers beside the model itself there is time for.

    Each is timed on a sample. One that takes too long is left out, with the reason.
    """
    teaching = Teaching()
    if not models.teachers:
        return teaching

    tasks = tasks_from_documents(material.sample(), material.seed).tasks
    queries, documents = texts_to_encode(tasks, material.fitting_set(), MAPS)
    words = count_words([*queries, *documents])
    for name, where in models.teachers.items():
        needed = words / reading_speed(load(where, dtype=AUTO), documents)
        if needed > TEACHER_SHARE * seconds:
            minutes = needed / 60
            teaching.left_out[name] = f"it would take {minutes:.0f} minutes to read the texts"
            continue
        teaching.teachers[name] = needed
        seconds -= needed
    return teaching
