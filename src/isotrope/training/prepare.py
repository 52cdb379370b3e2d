"""The first step of a run: every check, and everything that training needs, built once."""

from collections.abc import Iterator
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
from isotrope.encoder.locate import is_bare, locate, public_name
from isotrope.encoder.pooling import LAYERS
from isotrope.encoder.prompts import Prompts, refuse_routes, used_prompt
from isotrope.encoder.student import student_of
from isotrope.errors import UserError
from isotrope.objective.objective import Objective
from isotrope.preset.outside import LABELS, OutsideLoss, build_outside
from isotrope.preset.preset import EncoderSettings, Preset, build_objective, open_teachers, unopened_teachers
from isotrope.store.job import Job
from isotrope.text.corpus import Texts
from isotrope.text.coverage import coverage, unknown_warning
from isotrope.text.sample import PermutedBatches, Sample
from isotrope.training.folder import RunFolder
from isotrope.training.inputs import WATCHED, WATCHED_SEED, RunInputs
from isotrope.training.processes import process_count, process_number, refuse_several
from isotrope.training.sharded import check_parts

SHOWN = 500  # of these, kept for the report


@dataclass(frozen=True)
class TrainingPlan(RunInputs):
    """A run that has passed every check: its inputs, and what training needs."""

    folder: RunFolder  # its identity is written
    model: SentenceTransformer  # the student, as it is before training
    objective: Objective | OutsideLoss  # teachers included
    sample: Sample  # the rows of the corpus to train on
    watched: list[str]  # sentences for the label-free signals, the same for every seed
    console: Console


def prepare(inputs: RunInputs, job: Job, console: Console) -> TrainingPlan:
    """Load, clean, build and check. Nothing is written to the folder before the last check."""
    preset, corpus, train, folder = inputs.preset, inputs.corpus, inputs.preset.train, RunFolder(job.folder)
    for name in inputs.log_to:
        if name not in (here := get_available_reporting_integrations()):
            known = f"install its package, or leave out --log-to (there are: {', '.join(here) or 'none'})"
            raise UserError(f"tracker {name!r} is unknown or not installed", known)
    model = untrained(preset.encoder)  # it keeps its own maximum length; train.max_length holds in training only
    longest, frame = _longest(model, preset), getattr(model.tokenizer, "num_special_tokens_to_add", int)(False)
    if not frame < train.max_length <= longest:
        problem = f"{preset.encoder.backbone} cannot read texts with train.max_length = {train.max_length}"
        raise UserError(problem, f"choose more than {frame} (which stand around every text) and at most {longest}")
    if not preset.encoder.lora:  # in half precision, weights lose most of training's small steps
        model.float()
    PermutedBatches(  # refuses too few rows
        corpus, train.batch_size, inputs.seed, limit=inputs.sentences, world_size=process_count(), rounds=corpus.rounds
    )
    sample = Sample(corpus, inputs.sentences, inputs.seed)
    torch.manual_seed(inputs.seed)  # of the first weights of the adapter and the head
    _add_adapter(preset, model)
    context = BuildContext.of(model, corpus=corpus, rows=sample.rows, folder=job.folder, max_length=train.max_length)
    objective = _objective(preset, model, inputs.seed, context)
    _rehearse(objective, corpus, preset)
    if train.compile:
        compile_layers(model)
    watched = Sample(corpus, min(WATCHED, len(corpus)), WATCHED_SEED).texts()
    if process_number() == 0:
        job.begin()
        folder.begin(preset, watched[:SHOWN])
        then = folder.environment.get("threads")
        for line in (
            *_told(inputs, model, sample),
            unknown_warning(model, watched),
            Prompts(preset.encoder.prompt, preset.encoder.prompt_name).note(model, preset.encoder.backbone),
            f"the run began with {then} threads: with another number its last digits may differ"
            if then not in (None, torch.get_num_threads()) else None,
        ):  # fmt: skip
            if line:
                console.print(line)
    if isinstance(objective, Objective):
        objective.teachers = open_teachers(preset, context)
    elif objective.teacher is not None:
        objective.teacher = open_teachers(preset, context)[LABELS]
    return TrainingPlan(
        **vars(inputs), folder=folder, model=model, objective=objective, sample=sample, watched=watched, console=console
    )


def untrained(settings: EncoderSettings) -> SentenceTransformer:
    """The student before training."""
    model = load(
        settings.backbone, settings.pooling, dropout=settings.dropout, normalize=settings.normalize,
        prompt=settings.prompt, prompt_name=settings.prompt_name, bidirectional=settings.bidirectional,
    )  # fmt: skip
    refuse_routes(model, settings.backbone)
    return student_of(model, settings.student)


def _add_adapter(preset: Preset, model: SentenceTransformer) -> None:
    """With ``[encoder.lora]``, train an adapter alone."""
    if (lora := preset.encoder.lora) is None:
        return
    add_adapter(model, lora.rank, lora.alpha, lora.dropout, lora.targets)
    if lora.save == "adapter":
        lost = [key for key in ("student", "bidirectional") if getattr(preset.encoder, key)]
        lost += ["pooling" for module in model if isinstance(module, WeightedLayerPooling)]
        if lost:
            problem = f"encoder.lora.save = 'adapter': its files cannot hold encoder.{lost[0]}"
            raise UserError(problem, "set encoder.lora.save = 'merged'")
        name_base(model, locate(preset.encoder.backbone))


def _longest(model: SentenceTransformer, preset: Preset) -> int:
    """The most tokens that the model can read."""
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    return int(getattr(config, "max_position_embeddings", preset.train.max_length))


def _objective(preset: Preset, model: SentenceTransformer, seed: int, context: BuildContext) -> Objective | OutsideLoss:
    if not preset.loss:
        objective = build_objective(preset, model, seed, context=context)
        if preset.train.fsdp:
            check_parts(objective)
        return objective
    outside = build_outside(preset, model, seed, context, unopened_teachers(preset, context).get(LABELS))
    if outside.has_weights:  # several processes would train them apart
        refuse_several(f"loss = {preset.loss!r}")
    return outside


def _rehearse(objective: Objective | OutsideLoss, corpus: Texts, preset: Preset) -> None:
    """Make the checks of the objective's first step now, before long work. The objective's state does not change."""
    model, rows = objective.model, corpus.dataset[: preset.train.batch_size]
    first, others, length = used_prompt(model), preset.encoder.positive_prompt, preset.train.max_length
    prompts = [first, *[first if others is None else others] * (len(corpus.columns) - 1)]
    features = [
        batch_to_device(model.preprocess(rows[name], prompt=prompt or None, max_length=length), model.device)
        for name, prompt in zip(corpus.columns, prompts, strict=True)
    ]
    objective.to(model.device)
    if isinstance(objective, OutsideLoss):
        objective.rehearse([dict(column) for column in features], torch.tensor(rows["label"]))
    else:
        before = {name: value.clone() for name, value in objective.components.state_dict().items()}
        with torch.no_grad():
            objective.train().view(features, None)  # refuses equal views
        objective.components.load_state_dict(before)
    model.eval()
    _refuse_first_token_alone(model, features[0], preset)


def _refuse_first_token_alone(model: SentenceTransformer, column: dict[str, Any], preset: Preset) -> None:
    """A model that reads from left to right knows nothing of a text at its first token, which [CLS] pooling takes."""
    few = {key: value[:8] if isinstance(value, Tensor) else value for key, value in column.items()}
    if "offsets" in column or (ids := few["input_ids"]).dim() != 2:  # word vectors
        return
    first = few["attention_mask"].argmax(dim=1, keepdim=True)  # (N, 1)
    changed = ids.roll(1, dims=1).scatter(1, first, ids.gather(1, first))  # (N, L) all tokens but the first are others
    with torch.no_grad():
        told, other = (model(few | {"input_ids": each})["sentence_embedding"] for each in (ids, changed))
    if bool((told - other).abs().max() <= 1e-6 * told.abs().max()):
        problem = f"the vectors of {preset.encoder.backbone} with encoder.pooling = {preset.encoder.pooling!r}"
        raise UserError(f"{problem} tell a text's first token alone", "choose --set encoder.pooling=lasttoken, or mean")


def _told(inputs: RunInputs, model: SentenceTransformer, sample: Sample) -> Iterator[str | None]:
    """What is trained, how, and on how much of the text."""
    text, preset, encoder, train = inputs.text, inputs.preset, inputs.preset.encoder, inputs.preset.train
    columns, name = inputs.corpus.columns, public_name(encoder.backbone)
    yield str(inputs.corpus.report)
    if text.keep_duplicates:
        yield "duplicates are kept: two equal texts in a batch are each other's negatives"
    rows = "sentences" if preset.pairs is None else "pairs" if len(columns) > 1 else "passages"
    epochs = f"{train.epochs:g} epoch" + ("" if train.epochs == 1 else "s")
    student = f"{encoder.student} of {name}" if encoder.student else name
    yield f"{preset.method} from {student}: {len(sample):,} {rows}, {epochs}, batches of {train.batch_size}"
    if inputs.chosen:
        kind = "a sentence-embedding model" if preset.name == "adapt" else "a raw language model"
        yield f"no preset was named, and {name} is {kind}: --preset {preset.name}"
    if encoder.pooling is not None and not is_bare(encoder.backbone):
        had, now = (
            [str(getattr(module, "pooling_mode", type(module).__name__)) for module in list(each)[1:]]
            for each in (load(encoder.backbone, device="cpu", frozen=True), model)
        )
        if had != now:
            keep = f"; --set encoder.pooling={had[0]} keeps it" if had[0] in LAYERS else ""
            change = f"replaces the pooling of {name} ({', '.join(had)}) by {', '.join(now)}"
            yield f"note: the preset {change}{keep}. The new model is compared with yours as it is."
    yield threads_line()
    if not inputs.selecting:
        yield "no dev pairs: label-free signals are shown, and the last checkpoint is kept"
    split, longest = not (text.split or preset.pairs or len(columns) > 1), _longest(model, preset)
    yield from coverage(model, used_prompt(model), sample, train.max_length, longest=longest, split=split)
