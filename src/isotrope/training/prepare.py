"""The first step of a run: every check, and everything that training needs, built once."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
from sentence_transformers.util import batch_to_device
from transformers.integrations import get_available_reporting_integrations

from isotrope.console.threads import threads_line
from isotrope.contract.context import BuildContext
from isotrope.contract.features import language_model
from isotrope.encoder import load
from isotrope.encoder.adapters import add_adapter, name_base
from isotrope.encoder.fast.packed import compile_layers
from isotrope.encoder.length import position_limit
from isotrope.encoder.load import sees_ahead
from isotrope.encoder.locate import is_bare, locate, public_name
from isotrope.encoder.prompts import Prompts, refuse_routes, used_prompt
from isotrope.encoder.student import student_of
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.preset import EncoderSettings, Preset, build_objective, open_teachers
from isotrope.store.job import Job
from isotrope.text.corpus import Texts
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import PermutedBatches, Sample
from isotrope.training.folder import RunFolder
from isotrope.training.inputs import RunInputs
from isotrope.training.processes import process_count, process_number

# Sentences for the label-free signals, the same for every seed of a run.
WATCHED = 1000
WATCHED_SEED = 0
KEPT_TEXTS = 500  # of the watched sentences, in the run's folder


@dataclass(frozen=True)
class TrainingPlan(RunInputs):
    """A run that has passed every check: its inputs, and what training needs."""

    folder: RunFolder  # its identity is written
    model: SentenceTransformer  # the student, as it is before training
    objective: Objective  # teachers included
    sample: Sample  # the rows of the corpus to train on
    watched: list[str]  # sentences for the label-free signals, the same for every seed
    console: Console


def prepare(inputs: RunInputs, job: Job, console: Console) -> TrainingPlan:
    """Load, clean, build and check. Nothing is written to the folder before the last check."""
    _check_trackers(inputs)
    preset = inputs.preset
    corpus = inputs.corpus
    # It keeps its own maximum length; train.max_length is only that of training.
    model = untrained(preset.encoder)
    _check_length(model, preset)
    if not preset.encoder.lora:  # in half precision, weights lose most of training's small steps
        model.float()
    _check_row_count(inputs)
    sample = Sample(corpus, inputs.max_texts, inputs.seed)

    torch.manual_seed(inputs.seed)  # of the first weights of the adapter and the head
    _add_adapter(preset, model)
    step_size = preset.train.batch_size * preset.train.accumulation * process_count()
    context = BuildContext.of(
        model,
        corpus=corpus,
        rows=sample.rows,
        rows_read=sample.rows_within(preset.train.epochs, step_size),
        folder=job.folder,
        max_length=preset.train.max_length,
    )
    objective = build_objective(preset, model, inputs.seed, context=context)
    _rehearse(objective, corpus, preset)
    if preset.train.compile:
        compile_layers(model)

    watched = Sample(corpus, min(WATCHED, len(corpus)), WATCHED_SEED).texts()
    folder = RunFolder(job.folder)
    if process_number() == 0:
        job.begin()
        folder.begin(preset, watched[:KEPT_TEXTS])
        introduction = _introduction(inputs, sample)
        notes = _notes(inputs, model, sample, watched)
        for line in filter(None, chain(introduction, notes)):
            console.print(line)
    objective.teachers = open_teachers(preset, context)
    return TrainingPlan(
        **vars(inputs),
        folder=folder,
        model=model,
        objective=objective,
        sample=sample,
        watched=watched,
        console=console,
    )


def untrained(settings: EncoderSettings) -> SentenceTransformer:
    """The student before training."""
    model = load(
        settings.backbone,
        settings.pooling,
        dropout=settings.dropout,
        normalize=settings.normalize,
        prompt=settings.prompt,
        prompt_name=settings.prompt_name,
        bidirectional=settings.bidirectional,
    )
    refuse_routes(model, settings.backbone)
    return student_of(model, settings.student)


def _check_trackers(inputs: RunInputs) -> None:
    missing = set(inputs.log_to) - set(get_available_reporting_integrations())
    if missing:
        problem = f"tracker {min(missing)!r} is unknown or not installed"
        raise UserError(
            problem, "install its package, or leave out --log-to", code="unknown-tracker"
        )


def _check_length(model: SentenceTransformer, preset: Preset) -> None:
    """Check that the model can read texts of ``train.max_length`` tokens."""
    length = preset.train.max_length
    longest = _longest(model, preset)
    frame = getattr(model.tokenizer, "num_special_tokens_to_add", int)(False)
    if not frame < length <= longest:
        problem = f"{preset.encoder.backbone} cannot read texts with train.max_length = {length}"
        remedy = f"choose more than {frame} (which stand around every text) and at most {longest}"
        raise UserError(problem, remedy, code="impossible-length")


def _longest(model: SentenceTransformer, preset: Preset) -> int:
    """The most tokens that the model can read."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return position_limit(config, preset.encoder.backbone) or preset.train.max_length


def _check_row_count(inputs: RunInputs) -> None:
    """Refuse a corpus with too few rows for a batch."""
    PermutedBatches(
        inputs.corpus,
        inputs.preset.train.batch_size,
        inputs.seed,
        limit=inputs.max_texts,
        world_size=process_count(),
        rounds=inputs.corpus.rounds,
    )


def _add_adapter(preset: Preset, model: SentenceTransformer) -> None:
    """With ``[encoder.lora]``, train only an adapter."""
    lora = preset.encoder.lora
    if lora is None:
        return
    add_adapter(model, lora.rank, lora.alpha, lora.dropout, lora.targets)
    if lora.save != "adapter":
        return
    in_no_file = {
        "student": preset.encoder.student,
        "bidirectional": preset.encoder.bidirectional,
        "pooling": any(isinstance(module, WeightedLayerPooling) for module in model),
    }
    for key, value in in_no_file.items():
        if value:
            problem = f"encoder.lora.save = 'adapter': its files cannot hold encoder.{key}"
            remedy = "set encoder.lora.save = 'merged'"
            raise UserError(problem, remedy, code="adapter-cannot-hold")
    name_base(model, locate(preset.encoder.backbone))


def _rehearse(objective: Objective, corpus: Texts, preset: Preset) -> None:
    """Make the checks of the objective's first step now, before long work. The objective's state
    does not change.
    """
    model = objective.model
    columns = _first_batch(model, corpus, preset)
    objective.to(model.device)
    state = {name: value.clone() for name, value in objective.components.state_dict().items()}
    with torch.no_grad():
        objective.train().view(columns, None)  # refuses equal views
    objective.components.load_state_dict(state)
    model.eval()
    _refuse_blind_pooling(model, preset)


def _first_batch(model: SentenceTransformer, corpus: Texts, preset: Preset) -> list[dict[str, Any]]:
    """The features of each text column of the corpus, of its first rows."""
    rows = corpus.dataset[: preset.train.batch_size]
    prompt = used_prompt(model)
    columns = []
    for number, name in enumerate(corpus.columns):
        if number == 1 and preset.encoder.positive_prompt is not None:
            prompt = preset.encoder.positive_prompt
        features = model.preprocess(
            rows[name], prompt=prompt or None, max_length=preset.train.max_length
        )
        columns.append(batch_to_device(features, model.device))
    return columns


def _refuse_blind_pooling(model: SentenceTransformer, preset: Preset) -> None:
    """Refuse [CLS] pooling of a model that reads from left to right: at its first token, it knows
    nothing of a text.
    """
    encoder = preset.encoder
    network = language_model(model)
    if encoder.pooling != "cls" or network is None or sees_ahead(network):
        return
    problem = (
        f"the vectors of {encoder.backbone} with encoder.pooling = {encoder.pooling!r}"
        " depend only on the first token of a text"
    )
    remedy = "choose --set encoder.pooling=lasttoken, or mean"
    raise UserError(problem, remedy, code="blind-pooling")


def _introduction(inputs: RunInputs, sample: Sample) -> Iterator[str]:
    """What is trained, and how."""
    preset = inputs.preset
    encoder = preset.encoder
    name = public_name(encoder.backbone)
    yield str(inputs.corpus.report)

    rows = "sentences"
    if preset.pairs is not None:
        rows = "pairs" if len(inputs.corpus.columns) > 1 else "passages"
    epochs = "1 epoch" if preset.train.epochs == 1 else f"{preset.train.epochs:g} epochs"
    student = f"{encoder.student} of {name}" if encoder.student else name
    amount = f"{len(sample):,} {rows}, {epochs}, batches of {preset.train.batch_size}"
    yield f"{preset.name} from {student}: {amount}"

    if inputs.is_chosen:
        kind = "a sentence-embedding model" if preset.name == "adapt" else "a raw language model"
        yield f"no preset was named, and {name} is {kind}: --preset {preset.name}"
    if encoder.pooling is not None and not is_bare(encoder.backbone):
        yield (
            f"note: the new model has the pooling {encoder.pooling},"
            f" and is compared with {name} as it is"
        )
    yield threads_line()
    if not inputs.selecting:
        yield "no dev pairs: label-free signals are shown, and the last checkpoint is kept"


def _notes(
    inputs: RunInputs, model: SentenceTransformer, sample: Sample, watched: list[str]
) -> Iterator[str]:
    """How much of the text is read, with warnings; "" for a warning that is not needed."""
    text = inputs.text
    encoder = inputs.preset.encoder
    can_be_split = not (text.split or inputs.preset.pairs or len(inputs.corpus.columns) > 1)
    yield from coverage(
        model,
        used_prompt(model),
        sample,
        inputs.preset.train.max_length,
        longest=_longest(model, inputs.preset),
        split=can_be_split,
    )
    yield unknown_warning(model, watched)
    yield Prompts(encoder.prompt, encoder.prompt_name).note(model, encoder.backbone)
