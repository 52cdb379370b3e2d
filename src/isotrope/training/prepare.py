"""The first step of a run: every check, and everything that training needs, built once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import WeightedLayerPooling
from sentence_transformers.util import batch_to_device
from torch import Tensor
from transformers.integrations import get_available_reporting_integrations

from isotrope.console.threads import threads_line
from isotrope.contract.context import BuildContext
from isotrope.encoder import load
from isotrope.encoder.adapters import add_adapter, name_base
from isotrope.encoder.fast.packed import compile_layers
from isotrope.encoder.length import position_limit
from isotrope.encoder.locate import is_bare, locate, public_name
from isotrope.encoder.prompts import Prompts, refuse_routes, used_prompt
from isotrope.encoder.student import student_of
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.preset import (
    EncoderSettings,
    Preset,
    build_objective,
    open_teachers,
)
from isotrope.store.job import Job
from isotrope.text.corpus import Texts
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import PermutedBatches, Sample
from isotrope.training.folder import RunFolder
from isotrope.training.inputs import WATCHED, WATCHED_SEED, RunInputs
from isotrope.training.processes import process_count, process_number

SHOWN = 500  # of these, kept for the report


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
    preset, corpus, train, folder = (
        inputs.preset,
        inputs.corpus,
        inputs.preset.train,
        RunFolder(job.folder),
    )
    if missing := {*inputs.log_to} - {*get_available_reporting_integrations()}:
        problem = f"tracker {min(missing)!r} is unknown or not installed"
        raise UserError(problem, "install its package, or leave out --log-to")
    # it keeps its own maximum length; train.max_length holds in training only
    model = untrained(preset.encoder)
    longest, frame = (
        _longest(model, preset),
        getattr(model.tokenizer, "num_special_tokens_to_add", int)(False),
    )
    if not frame < train.max_length <= longest:
        problem = f"{preset.encoder.backbone} cannot read texts with train.max_length = {train.max_length}"
        raise UserError(
            problem,
            f"choose more than {frame} (which stand around every text) and at most {longest}",
        )
    if not preset.encoder.lora:  # in half precision, weights lose most of training's small steps
        model.float()
    PermutedBatches(  # refuses too few rows
        corpus,
        train.batch_size,
        inputs.seed,
        limit=inputs.max_texts,
        world_size=process_count(),
        rounds=corpus.rounds,
    )
    sample = Sample(corpus, inputs.max_texts, inputs.seed)
    torch.manual_seed(inputs.seed)  # of the first weights of the adapter and the head
    _add_adapter(preset, model)
    context = BuildContext.of(
        model, corpus=corpus, rows=sample.rows, folder=job.folder, max_length=train.max_length
    )
    objective = build_objective(preset, model, inputs.seed, context=context)
    _rehearse(objective, corpus, preset)
    if train.compile:
        compile_layers(model)
    watched = Sample(corpus, min(WATCHED, len(corpus)), WATCHED_SEED).texts()
    if process_number() == 0:
        job.begin()
        folder.begin(preset, watched[:SHOWN])
        for line in filter(None, _told(inputs, model, sample, watched)):
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


def _add_adapter(preset: Preset, model: SentenceTransformer) -> None:
    """With ``[encoder.lora]``, train an adapter alone."""
    if (lora := preset.encoder.lora) is None:
        return
    add_adapter(model, lora.rank, lora.alpha, lora.dropout, lora.targets)
    if lora.save == "adapter":
        changed = {"student": preset.encoder.student, "bidirectional": preset.encoder.bidirectional}
        changed["pooling"] = any(isinstance(module, WeightedLayerPooling) for module in model)
        for key in filter(changed.get, changed):
            problem = f"encoder.lora.save = 'adapter': its files cannot hold encoder.{key}"
            raise UserError(problem, "set encoder.lora.save = 'merged'")
        name_base(model, locate(preset.encoder.backbone))


def _longest(model: SentenceTransformer, preset: Preset) -> int:
    """The most tokens that the model can read."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return position_limit(config, preset.encoder.backbone) or preset.train.max_length


def _rehearse(objective: Objective, corpus: Texts, preset: Preset) -> None:
    """Make the checks of the objective's first step now, before long work. The objective's state
    does not change.
    """
    model, rows = objective.model, corpus.dataset[: preset.train.batch_size]
    first, others, length = (
        used_prompt(model),
        preset.encoder.positive_prompt,
        preset.train.max_length,
    )
    features = []
    for place, name in enumerate(corpus.columns):
        prompt = first if place == 0 or others is None else others
        read = model.preprocess(rows[name], prompt=prompt or None, max_length=length)
        features.append(batch_to_device(read, model.device))
    objective.to(model.device)
    before = {name: value.clone() for name, value in objective.components.state_dict().items()}
    with torch.no_grad():
        objective.train().view(features, None)  # refuses equal views
    objective.components.load_state_dict(before)
    model.eval()
    _refuse_first_token_alone(model, features[0], preset)


def _refuse_first_token_alone(
    model: SentenceTransformer, column: dict[str, Any], preset: Preset
) -> None:
    """A model that reads from left to right knows nothing of a text at its first token, which [CLS]
    pooling takes.
    """
    few = {key: value[:8] if isinstance(value, Tensor) else value for key, value in column.items()}
    if "offsets" in column or (ids := few["input_ids"]).dim() != 2:  # word vectors
        return
    first = few["attention_mask"].argmax(dim=1, keepdim=True)  # (N, 1)
    # (N, L) all tokens but the first are others
    changed = ids.roll(1, dims=1).scatter(1, first, ids.gather(1, first))
    with torch.no_grad():
        told, other = (
            model(few | {"input_ids": each})["sentence_embedding"] for each in (ids, changed)
        )
    if bool((told - other).abs().max() <= 1e-6 * told.abs().max()):
        problem = f"the vectors of {preset.encoder.backbone} with encoder.pooling = {preset.encoder.pooling!r}"
        raise UserError(
            f"{problem} tell a text's first token alone",
            "choose --set encoder.pooling=lasttoken, or mean",
        )


def _told(
    inputs: RunInputs, model: SentenceTransformer, sample: Sample, watched: Sequence[str]
) -> Iterator[str]:
    """What is trained, how, and on how much of the text."""
    text, preset, encoder, train = (
        inputs.text,
        inputs.preset,
        inputs.preset.encoder,
        inputs.preset.train,
    )
    columns, name = inputs.corpus.columns, public_name(encoder.backbone)
    yield str(inputs.corpus.report)
    rows = "sentences" if preset.pairs is None else "pairs" if len(columns) > 1 else "passages"
    epochs = f"{train.epochs:g} epoch" + ("" if train.epochs == 1 else "s")
    student = f"{encoder.student} of {name}" if encoder.student else name
    yield f"{preset.name} from {student}: {len(sample):,} {rows}, {epochs}, batches of {train.batch_size}"
    if inputs.chosen:
        kind = "a sentence-embedding model" if preset.name == "adapt" else "a raw language model"
        yield f"no preset was named, and {name} is {kind}: --preset {preset.name}"
    if encoder.pooling is not None and not is_bare(encoder.backbone):
        yield f"note: the new model has the pooling {encoder.pooling}, and is compared with {name} as it is"
    yield threads_line()
    if not inputs.selecting:
        yield "no dev pairs: label-free signals are shown, and the last checkpoint is kept"
    split, longest = not (text.split or preset.pairs or len(columns) > 1), _longest(model, preset)
    yield from coverage(
        model, used_prompt(model), sample, train.max_length, longest=longest, split=split
    )
    yield unknown_warning(model, watched)
    yield Prompts(encoder.prompt, encoder.prompt_name).note(model, encoder.backbone)
