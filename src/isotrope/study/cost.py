"""What a study will cost before it runs: cells, hours, memory and disk, about.

Times follow from two numbers of a machine: the seconds that any step needs, and those of a token in
a layer's weight. Of a known GPU both were fitted to steps of one model. On this machine one step is
timed, which gives the second, so it may be wrong for batches of other sizes. An estimate may be
wrong by a half, and it never decides anything.
"""

import time
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from sentence_transformers.util import batch_to_device
from transformers import AutoConfig

from isotrope.console.progress import duration
from isotrope.encoder import load
from isotrope.encoder.fast.products import fast_products
from isotrope.encoder.locate import locate
from isotrope.errors import UserError, check_known
from isotrope.preset.preset import TrainSettings
from isotrope.report.tables import Table
from isotrope.store.files import Record
from isotrope.study.cell import Cell
from isotrope.study.plan import StudyPlan
from isotrope.study.spec import missing_file
from isotrope.text import TextSource
from isotrope.text.permutation import evenly
from isotrope.training.inputs import STUDENT
from isotrope.training.pairs import TRANSFER_DEV, dev_names

TOKENS_A_WORD = 1.35  # of BERT's tokenizer, on English Wikipedia
SAMPLED = 1000  # texts whose words are counted
PASSES = 2  # of a training step of SimCSE
TIMED_TEXTS = 16  # in a step that is timed without a GPU
FORWARD = 1 / 3  # of a training step: the rest is the backward pass
# What terms with an encoder or a decoder of their own add, in steps of SimCSE
# (docs/results/performance/zoo-tiny.json).
EXTRA_STEPS = {
    "diffcse": 2.7,
    "infocse": 1.4,
    "tsdae": 1.9,
    "paser": 0.8,
}

# Sentences that are encoded, about, and seconds on top.
DEV_SENTENCES = 3000  # of a dev set: STS-B's has 1,500 pairs
JUDGED_SENTENCES = {
    "sts": 26_000,
    "stsb": 2800,
    "stsb-dev": 3000,
    "dev-half": 1500,
    "none": 0,
}
SUITE_SENTENCES = {
    "transfer": 100_000,
    "ranking": 26_000,
    "geometry": 3000,
    "retrieval": 150_000,
}
CLASSIFIER_SECONDS = 300  # SentEval's classifiers of the transfer tasks
TRANSFER_DEV_SECONDS = 120  # the same in the setting for prototypes

WEIGHT_BYTES = 4  # float32
STATE_BYTES = 16  # of a trained weight: itself, its gradient, and the two moments of AdamW
# Of a token, a channel and a layer, kept for the backward pass: Korthikanti et al. 2022
# (https://arxiv.org/abs/2205.05198) in 16 bits, with attention over short texts.
ACTIVATION_BYTES = {"bf16": 37, "fp32": 90}  # fp32: docs/results/performance/memory-step.json
GIGA = 1e9


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The size of a transformer."""

    layers: int
    width: int
    inner: int  # width of the feed-forward layers
    vocabulary: int

    @property
    def layer_weights(self) -> int:
        """The weights that every token meets."""
        attention = 4 * self.width**2
        feed_forward = 2 * self.width * self.inner
        return self.layers * (attention + feed_forward)

    @property
    def weights(self) -> int:
        """All weights, with the vectors of the vocabulary."""
        return self.layer_weights + (self.vocabulary + 512) * self.width


BERT_BASE = ModelShape(12, 768, 3072, 30_522)
# for a plan without the hub
KNOWN_SHAPES = {
    "bert-base-uncased": BERT_BASE,
    "bert-large-uncased": ModelShape(24, 1024, 4096, 30_522),
    "roberta-base": ModelShape(12, 768, 3072, 50_265),
    "roberta-large": ModelShape(24, 1024, 4096, 50_265),
}


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast a machine trains, as measured on one model."""

    device: str
    precision: str  # bf16 or fp32
    seconds_a_layer: float  # that even the smallest step of two passes needs
    seconds_a_token: float  # of a training step, for each weight of the layers

    def training(self, shape: ModelShape, tokens: float, steps: float) -> float:
        """Seconds of ``steps`` steps that read ``tokens`` tokens together."""
        waiting = steps * shape.layers * self.seconds_a_layer
        return waiting + tokens * shape.layer_weights * self.seconds_a_token

    def encoding(self, shape: ModelShape, tokens: float) -> float:
        """Seconds to encode so many tokens."""
        return FORWARD * tokens * shape.layer_weights * self.seconds_a_token


# Fitted to steps of SimCSE on BERT-base with batches of 64 (2,808 tokens, 39.6 ms) and 512 (22,484
# tokens, 79.9 ms): docs/results/performance/gpu.json.
GPUS = {
    "h200": Speed(
        device="NVIDIA H200",
        precision="bf16",
        seconds_a_layer=0.0338 / BERT_BASE.layers,
        seconds_a_token=2.05e-6 / BERT_BASE.layer_weights,
    )
}


def speed_of(gpu: str, plan: StudyPlan) -> Speed:
    """The speed of a GPU by name; "": this machine's, measured by steps of the study's first model.

    UserError for a GPU that nobody has measured.
    """
    if gpu:
        check_known("the GPU", gpu, GPUS, ", or leave it out, and this machine is measured")
        return GPUS[gpu]
    models = (cell for cell in plan.cells.values() if not cell.row.vectors)
    return measured_speed(next(models))


def measured_speed(cell: Cell) -> Speed:
    """Time a training step of a cell's model on this machine: with the study's batches on a GPU,
    with `TIMED_TEXTS` texts without one.
    """
    name = cell.base
    model = load(name)
    device = "this machine"
    precision = "fp32"
    count = TIMED_TEXTS
    if model.device.type == "cuda":
        device = torch.cuda.get_device_name()
        count = cell.settings["train"]["batch_size"]
        if torch.cuda.is_bf16_supported():
            precision = "bf16"
    texts = _some_texts(cell.corpus, count)
    features = batch_to_device(model.preprocess(texts), model.device)
    optimizer = torch.optim.AdamW(model.parameters())
    _step(model, optimizer, features, precision)  # the first step is slower
    began = time.monotonic()
    _step(model, optimizer, features, precision)
    seconds = time.monotonic() - began

    tokens = PASSES * int(features["attention_mask"].sum())
    weights = shape_of(name).layer_weights
    seconds_a_product = seconds / (tokens * weights)
    return Speed(device, precision, 0.0, seconds_a_product)


def _step(model: Any, optimizer: torch.optim.Optimizer, features: Record, precision: str) -> None:
    """A training step, after which the device waits for nothing."""
    with fast_products():
        with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"):
            views = [model(dict(features))["sentence_embedding"] for _ in range(PASSES)]
            loss = -torch.cosine_similarity(*views).mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    float(loss.detach())


def _some_texts(corpus: TextSource, count: int) -> list[str]:
    """Texts of the whole corpus, evenly apart."""
    texts = corpus.texts()
    places = evenly(len(texts), min(count, len(texts)))
    return texts.texts(np.asarray(places))


@cache
def shape_of(name: str) -> ModelShape:
    """The size of a model, from its configuration; nothing is loaded.

    UserError if neither a folder nor the hub has it.
    """
    try:
        config = AutoConfig.from_pretrained(locate(name))
    except (OSError, ValueError) as error:
        if name in KNOWN_SHAPES:
            return KNOWN_SHAPES[name]
        raise UserError(
            f"the size of the model {name} is not known ({type(error).__name__})",
            "check the name and the network, or name a folder",
            code="unknown-model",
        ) from error
    width = config.hidden_size
    inner = getattr(config, "intermediate_size", None)
    if not inner:
        inner = getattr(config, "hidden_dim", 4 * width)
    return ModelShape(config.num_hidden_layers, width, inner, config.vocab_size)


@dataclass(frozen=True, slots=True)
class Cost:
    """About what cells need."""

    cells: int
    unfinished: int
    seconds: float  # of the unfinished ones
    memory: float  # bytes, at the largest step of any
    disk: float  # bytes that stay

    def table_row(self, label: str) -> list[str]:
        """As a row of the table."""
        return [
            label,
            str(self.cells),
            str(self.unfinished),
            f"{self.seconds / 3600:.1f}",
            _gigabytes(self.memory),
        ]


def total(costs: Collection[Cost]) -> Cost:
    """What cells need together, one after the other."""
    return Cost(
        cells=sum(cost.cells for cost in costs),
        unfinished=sum(cost.unfinished for cost in costs),
        seconds=sum(cost.seconds for cost in costs),
        memory=max(cost.memory for cost in costs),
        disk=sum(cost.disk for cost in costs),
    )


def study_cost(plan: StudyPlan, gpu: str = "") -> Table:
    """What the unfinished cells of a plan need, on a named GPU or on this machine: cells,
    unfinished ones, hours, and memory of every row.

    UserError for an unknown GPU, or a model whose size is not known.
    """
    speed = speed_of(gpu, plan)
    estimate = Estimate(plan, speed)
    costs = {key: estimate.cell(cell) for key, cell in plan.cells.items()}
    rows = []
    for name, key in plan.models.items():
        rows.append(costs[key].table_row(f"teacher {name}"))
    for label, keys in plan.rows.items():
        row_cost = total([costs[key] for key in keys.values()])
        rows.append(row_cost.table_row(label))

    study = total(costs.values())
    notes = [
        f"All: about {duration(study.seconds)} with one worker, {_gigabytes(study.memory)} GB of "
        f"memory for the largest cell, and {_gigabytes(study.disk)} GB of disk, beside the "
        "checkpoints of the runs. Rows that share cells count them once each.",
        f"By the speed of {speed.device} in {speed.precision}. An estimate may be wrong by a half.",
        *_missing_files(plan),
    ]
    header = ["row", "cells", "unfinished", "hours", "memory (GB)"]
    return Table(f"Plan: {plan.spec.title}", header, rows, notes=notes)


def _gigabytes(size: float) -> str:
    return f"{size / GIGA:.1f}"


def _missing_files(plan: StudyPlan) -> list[str]:
    """A line for each file that rows need and nobody has named."""
    spec = plan.spec
    lines = defaultdict(list)
    for label, reference in spec.reference.items():
        missing = missing_file(reference, spec.run)
        if missing:
            lines[f"{missing.content}: add {missing.option}"].append(label)
    for label, row in spec.rows.items():
        if row.differs:
            lines[f"published numbers {row.differs}"].append(label)
    return [f"{line} ({', '.join(labels)})." for line, labels in lines.items()]


class Estimate:
    """Estimates cells. What a teacher encodes is shared, and counts for the first cell that needs
    it.
    """

    def __init__(self, plan: StudyPlan, speed: Speed) -> None:
        self.plan = plan
        self.speed = speed
        self._encoded: set[tuple[Any, ...]] = set()
        self._words = cache(_words_a_text)

    def cell(self, cell: Cell) -> Cost:
        """What one cell needs; a finished one needs no time."""
        unfinished = int(cell.result() is None)
        if cell.row.vectors:
            return Cost(1, unfinished, seconds=0.0, memory=0.0, disk=0.0)
        shape = self._shape(cell.base)
        seconds = self._judging(cell, shape)
        memory = float(WEIGHT_BYTES * shape.weights)
        disk = memory if cell.keep_model else 0.0
        if cell.row.train:
            train = TrainSettings(**cell.settings["train"])
            seconds += self._training(cell, shape, train)
            memory = self._training_memory(cell, shape, train)
            count = self._count(cell)
            tokens = count * self._tokens(cell, train.max_length)
            for teacher in self._encoding_teachers(cell):
                seconds += self.speed.encoding(teacher, tokens)
                disk += WEIGHT_BYTES * count * teacher.width
        return Cost(1, unfinished, unfinished * seconds, memory, disk)

    def _training(self, cell: Cell, shape: ModelShape, train: TrainSettings) -> float:
        """Seconds of the steps and of the evaluations on the dev pairs."""
        texts = train.epochs * self._count(cell)
        steps = texts / train.batch_size
        tokens = self._tokens(cell, train.max_length)
        passes = trained_passes(cell.settings)
        tokens_of_passes = passes * (texts * tokens)
        seconds = self.speed.training(shape, tokens_of_passes, steps * passes / 2)
        if not (cell.data or cell.run.dev):
            return seconds

        evaluation = 0.0
        dev = train.select if cell.run.dev is None else cell.run.dev
        for name in dev_names(dev):
            sentences = DEV_SENTENCES
            if name == TRANSFER_DEV:
                sentences = SUITE_SENTENCES["transfer"]
                evaluation += TRANSFER_DEV_SECONDS
            evaluation += self.speed.encoding(shape, sentences * tokens)
        return seconds + steps / train.eval_steps * evaluation

    def _judging(self, cell: Cell, shape: ModelShape) -> float:
        """Seconds of the test pairs and of the further suites."""
        sentences = JUDGED_SENTENCES[cell.run.test]
        for suite in cell.run.suites:
            sentences += SUITE_SENTENCES[suite]
        tokens = sentences * self._tokens(cell, 512)
        seconds = self.speed.encoding(shape, tokens)
        if "transfer" in cell.run.suites:
            seconds += CLASSIFIER_SECONDS
        return seconds

    def _training_memory(self, cell: Cell, shape: ModelShape, train: TrainSettings) -> float:
        """Bytes of weights, optimizer and activations at a step with the longest texts."""
        peers = cell.settings.get("peers", {})
        kinds = [peer.get("kind", label) for label, peer in peers.items()]
        states = STATE_BYTES * shape.weights * (1 + kinds.count("trained"))
        texts = train.batch_size * cell.settings["views"].get("passes", 2)
        if train.mini_batch_size:
            texts = min(texts, train.mini_batch_size)
        tokens = texts * train.max_length
        channels = tokens * shape.layers * shape.width
        activations = channels * ACTIVATION_BYTES[self.speed.precision]
        return float(states + activations)

    def _encoding_teachers(self, cell: Cell) -> list[ModelShape]:
        """The teachers that have not encoded this cell's sample of the text for another one."""
        shapes = []
        # Without a sample, all seeds read the same.
        seed = cell.seed if cell.row.sentences else None
        sample = (id(cell.corpus), cell.row.sentences, seed)
        for table in cell.settings["teachers"].values():
            for model in table.get("models", ()):
                encoded = (model, sample)
                if model != STUDENT and encoded not in self._encoded:
                    self._encoded.add(encoded)
                    shapes.append(self._shape(model))
        return shapes

    def _shape(self, reference: str) -> ModelShape:
        """The size of a model: a name, or the key of the cell that trains it."""
        if reference in self.plan.cells:
            reference = self.plan.cells[reference].base
        return shape_of(reference)

    def _count(self, cell: Cell) -> int:
        return cell.row.sentences or len(cell.corpus.texts())

    def _tokens(self, cell: Cell, length: int) -> float:
        """Tokens that a model reads of a text, on the average."""
        words = np.array(self._words(cell.corpus))
        tokens = np.minimum(2 + TOKENS_A_WORD * words, length)
        return float(tokens.mean())


def _words_a_text(corpus: TextSource) -> list[int]:
    return [len(text.split()) for text in _some_texts(corpus, SAMPLED)]


def trained_passes(settings: Record) -> float:
    """How many passes of forward and backward a step of a preset costs."""
    passes = float(settings["views"].get("passes", 2))
    for label, peer in settings.get("peers", {}).items():
        kind = peer.get("kind", label)
        on = len(peer.get("on", ())) or 1
        if kind == "layers":  # one pass without gradient gives all of them
            passes += FORWARD - on
        elif kind == "moving_average":  # no gradient
            passes -= on * (1 - FORWARD)
    for label, term in settings.get("terms", {}).items():
        passes += 2 * EXTRA_STEPS.get(term.get("kind", label), 0.0)
    return passes
