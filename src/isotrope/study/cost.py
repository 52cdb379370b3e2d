"""What a study will cost before it runs: cells, hours, memory and disk, about.

Times follow from two numbers of a machine, which training steps of one model tell: the seconds that
any step needs, and those of a token in a layer's weight. Other models, batches and passes are
computed from them. So an estimate may be wrong by a half, and it never decides anything.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from sentence_transformers.util import batch_to_device
from transformers import AutoConfig

from isotrope.console.progress import duration
from isotrope.encoder import load
from isotrope.encoder.locate import locate
from isotrope.errors import UserError, check_known
from isotrope.preset.preset import TrainSettings
from isotrope.report.tables import Table
from isotrope.study.cell import RESAMPLES, Cell
from isotrope.study.plan import StudyPlan
from isotrope.study.spec import missing_file
from isotrope.text.permutation import evenly
from isotrope.training.inputs import STUDENT
from isotrope.training.pairs import TRANSFER_DEV, dev_names

TOKENS_A_WORD = 1.35  # of BERT's tokenizer, on English Wikipedia
SAMPLED = 1000  # texts whose words are counted
FORWARD = 1 / 3  # of a training step: the rest is the backward pass
# What terms with an encoder or a decoder of their own add, in steps of SimCSE
# (docs/results/performance/zoo-tiny.json).
EXTRA_STEPS = {"diffcse": 2.7, "infocse": 1.4, "tsdae": 1.9, "paser": 0.8}

# Sentences that are encoded, about, and seconds on top.
DEV_SENTENCES = 3000  # of a dev set: STS-B's has 1,500 pairs
JUDGED_SENTENCES = {"sts": 26_000, "stsb": 2800, "stsb-dev": 3000, "dev-half": 1500, "none": 0}
SUITE_SENTENCES = {"transfer": 100_000, "ranking": 26_000, "geometry": 3000, "retrieval": 150_000}
CLASSIFIER_SECONDS = 300  # SentEval's classifiers of the transfer tasks
TRANSFER_DEV_SECONDS = 120  # the same in the setting for prototypes

WEIGHT_BYTES = 4  # float32
CHECKPOINT_BYTES = 12  # of a weight: itself, and the two moments of AdamW
CHECKPOINTS = 3  # that a run holds at most: the best, the last, and the one being written
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
    layers: int  # of the model that was measured
    seconds_a_step: float  # that even the smallest step of two passes needs
    seconds_a_token: float  # of a training step, for each weight of the layers

    def training(self, shape: ModelShape, tokens: float, steps: float) -> float:
        """Seconds of ``steps`` steps that read ``tokens`` tokens together."""
        waiting = steps * self.seconds_a_step * shape.layers / self.layers
        return waiting + tokens * shape.layer_weights * self.seconds_a_token

    def encoding(self, shape: ModelShape, tokens: float) -> float:
        """Seconds to encode so many tokens."""
        return FORWARD * tokens * shape.layer_weights * self.seconds_a_token


# Fitted to steps of SimCSE on BERT-base with batches of 64 (2,808 tokens, 39.6 ms) and 512 (22,484
# tokens, 79.9 ms): docs/results/performance/gpu.json.
GPUS = {"h200": Speed("NVIDIA H200", "bf16", 12, 0.0338, 2.05e-6 / BERT_BASE.layer_weights)}


def speed_of(gpu: str, plan: StudyPlan) -> Speed:
    """The speed of a GPU by name; "": this machine's, measured by steps of the study's first model.

    UserError for a GPU that nobody has measured.
    """
    if gpu:
        check_known("the GPU", gpu, GPUS, ", or leave it out, and this machine is measured")
        return GPUS[gpu]
    return measured_speed(next(iter(plan.cells.values())))


def measured_speed(cell: Cell) -> Speed:
    """Measure training steps of a cell's model on this machine, with few texts and with many."""
    name = str(cell.settings["base"])
    model = load(name)
    shape = shape_of(name)
    on_gpu = model.device.type == "cuda"
    precision = "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32"
    few, many = (64, 512) if on_gpu else (2, 8)
    corpus = cell.corpus.texts()
    rows = np.asarray(evenly(len(corpus), min(many, len(corpus))))
    texts = corpus.texts(rows)
    texts = (texts * many)[:many]

    optimizer = torch.optim.AdamW(model.parameters())
    measured: list[tuple[int, float]] = []
    for batch in (texts[:few], texts[:few], texts):  # the first step is slower
        measured.append(_timed_step(model, optimizer, batch, precision))
    (fewer_tokens, faster), (more_tokens, slower) = measured[1:]
    seconds_a_token = max(0.0, slower - faster) / max(1, more_tokens - fewer_tokens)
    seconds_a_step = max(0.0, faster - seconds_a_token * fewer_tokens)
    device = torch.cuda.get_device_name() if on_gpu else f"this machine, {cell.run.threads} threads"
    return Speed(
        device, precision, shape.layers, seconds_a_step, seconds_a_token / shape.layer_weights
    )


def _timed_step(
    model: Any, optimizer: torch.optim.Optimizer, texts: list[str], precision: str
) -> tuple[int, float]:
    """Tokens and seconds of one training step with two passes."""
    features = batch_to_device(model.preprocess(texts), model.device)
    tokens = 2 * int(features["attention_mask"].sum())
    began = time.monotonic()
    with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bf16"):
        first = model(dict(features))["sentence_embedding"]
        second = model(dict(features))["sentence_embedding"]
        loss = -torch.cosine_similarity(first, second).mean()
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    float(loss.detach())  # waits for the GPU
    return tokens, time.monotonic() - began


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
    inner = getattr(config, "intermediate_size", None) or getattr(config, "hidden_dim", 4 * width)
    return ModelShape(config.num_hidden_layers, width, inner, config.vocab_size)


@dataclass(frozen=True, slots=True)
class CellCost:
    """About what one cell needs."""

    seconds: float
    memory: float  # bytes, at its largest step
    disk: float  # bytes that stay
    checkpoints: float  # bytes that are deleted when it is finished
    finished: bool


@dataclass(frozen=True, slots=True)
class RowCost:
    """About what a row of the study needs, or a model that rows share."""

    label: str
    cells: int
    unfinished: int
    seconds: float  # of the unfinished cells
    memory: float  # bytes, of the largest cell

    def table_cells(self) -> list[str]:
        """As a row of the table."""
        hours, memory = _hours(self.seconds), _gigabytes(self.memory)
        return [self.label, str(self.cells), str(self.unfinished), hours, memory]


@dataclass(frozen=True, slots=True)
class StudyCost:
    """About what a study needs."""

    title: str
    speed: Speed
    rows: tuple[RowCost, ...]
    missing: tuple[str, ...]  # files without which rows have printed numbers alone
    seconds: float  # one cell after the other; equal cells count once
    memory: float  # bytes, of the largest cell
    disk: float  # bytes in the study's folder and the cache, with the checkpoints of one run

    def table(self) -> Table:
        """The estimate as a table: cells, unfinished ones, hours, memory."""
        rows = [row.table_cells() for row in self.rows]
        total = f"All: about {duration(self.seconds)} with one worker"
        notes = [
            f"{total}, {_gigabytes(self.memory)} GB of memory for the largest cell, and "
            f"{_gigabytes(self.disk)} GB of disk. Rows that share cells count them once each.",
            f"By the speed of {self.speed.device} in {self.speed.precision}. An estimate may be "
            "wrong by a half.",
            *self.missing,
        ]
        header = ["row", "cells", "unfinished", "hours", "memory (GB)"]
        return Table(f"Plan: {self.title}", header, rows, notes=notes)


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f}"


def _gigabytes(size: float) -> str:
    return f"{size / GIGA:.1f}"


def study_cost(plan: StudyPlan, gpu: str = "") -> StudyCost:
    """Estimate what the unfinished cells of a plan need, on a named GPU or on this machine.

    UserError for an unknown GPU, or a model whose size is not known.
    """
    estimate = Estimate(plan, speed_of(gpu, plan))
    costs = {key: estimate.cell(cell) for key, cell in plan.cells.items()}
    rows: list[RowCost] = []
    for name, key in plan.models.items():
        rows.append(_row_cost(f"teacher {name}", [costs[key]]))
    for label, keys in plan.rows.items():
        distinct_keys = dict.fromkeys(keys.values())
        rows.append(_row_cost(label, [costs[key] for key in distinct_keys]))

    all_costs = costs.values()
    results = sum(cost.disk for cost in all_costs)
    checkpoints = max(cost.checkpoints for cost in all_costs)  # of one run at a time
    return StudyCost(
        title=plan.spec.title,
        speed=estimate.speed,
        rows=tuple(rows),
        missing=tuple(_missing_files(plan)),
        seconds=_unfinished_seconds(all_costs) + estimate.teachers_seconds,
        memory=max(cost.memory for cost in all_costs),
        disk=results + checkpoints + estimate.teachers_disk,
    )


def _row_cost(label: str, costs: Sequence[CellCost]) -> RowCost:
    """A row by its cells."""
    return RowCost(
        label,
        cells=len(costs),
        unfinished=sum(not cost.finished for cost in costs),
        seconds=_unfinished_seconds(costs),
        memory=max(cost.memory for cost in costs),
    )


def _unfinished_seconds(costs: Iterable[CellCost]) -> float:
    return sum(cost.seconds for cost in costs if not cost.finished)


def _missing_files(plan: StudyPlan) -> list[str]:
    """A line for each file that rows need and nobody has named."""
    lines: dict[str, list[str]] = {}
    for label, row in plan.spec.reference.items():
        if missing := missing_file(row, plan.spec.run):
            lines.setdefault(f"{missing.content}: add {missing.option}", []).append(label)
    for label, row in plan.spec.rows.items():
        if row.differs:
            lines.setdefault(f"published numbers {row.differs}", []).append(label)
    return [f"{line} ({', '.join(labels)})." for line, labels in lines.items()]


class Estimate:
    """Estimates cells. The encoding of a text by a teacher is shared by cells, so it is kept apart."""

    def __init__(self, plan: StudyPlan, speed: Speed) -> None:
        self.plan = plan
        self.speed = speed
        self.teachers_seconds = 0.0
        self.teachers_disk = 0.0
        self._encoded: set[tuple[Any, ...]] = set()
        self._words = cache(_words_a_text)

    def cell(self, cell: Cell) -> CellCost:
        """What one cell needs, without what others have encoded."""
        is_finished = cell.result() is not None
        if cell.row.vectors:
            return CellCost(0.0, 0.0, _numbers_size(cell), 0.0, is_finished)
        shape = shape_of(str(cell.settings["base"]))
        seconds = self._judging(cell, shape)
        memory = float(WEIGHT_BYTES * shape.weights)
        checkpoints = 0.0
        if cell.row.train:
            train = TrainSettings(**cell.settings["train"])
            seconds += self._training(cell, shape, train)
            memory = self._training_memory(cell, shape, train)
            checkpoints = float(CHECKPOINTS * CHECKPOINT_BYTES * shape.weights)
            self._add_teachers(cell, train)
        model_size = WEIGHT_BYTES * shape.weights if cell.keep_model else 0.0
        disk = model_size + _numbers_size(cell)
        return CellCost(seconds, memory, disk, checkpoints, is_finished)

    def _training(self, cell: Cell, shape: ModelShape, train: TrainSettings) -> float:
        """Seconds of the steps, of the teachers that read every batch, and of the evaluations."""
        texts = train.epochs * self._count(cell)
        steps = texts / train.batch_size
        tokens = texts * self._tokens(cell, train.max_length)
        passes = trained_passes(cell.settings)
        seconds = self.speed.training(shape, passes * tokens, steps * passes / 2)
        for table in cell.settings["teachers"].values():
            if table.get("live"):
                for model in table["models"]:
                    seconds += self.speed.encoding(self._shape(model), tokens)
        return seconds + steps / train.eval_steps * self._selecting(cell, shape, train)

    def _selecting(self, cell: Cell, shape: ModelShape, train: TrainSettings) -> float:
        """Seconds of one evaluation on the dev pairs."""
        names = dev_names(cell.run.dev if cell.run.dev is not None else train.select)
        if not (cell.data or cell.run.dev):
            return 0.0
        seconds = 0.0
        for name in names:
            if name == TRANSFER_DEV:
                seconds += TRANSFER_DEV_SECONDS
            sentences = SUITE_SENTENCES["transfer"] if name == TRANSFER_DEV else DEV_SENTENCES
            seconds += self.speed.encoding(shape, sentences * self._tokens(cell, train.max_length))
        return seconds

    def _judging(self, cell: Cell, shape: ModelShape) -> float:
        """Seconds of the test pairs and of the further suites."""
        sentences = JUDGED_SENTENCES[cell.run.test]
        for suite in cell.run.suites:
            sentences += SUITE_SENTENCES[suite]
        seconds = self.speed.encoding(shape, sentences * self._tokens(cell, 512))
        if "transfer" in cell.run.suites:
            seconds += CLASSIFIER_SECONDS
        return seconds

    def _training_memory(self, cell: Cell, shape: ModelShape, train: TrainSettings) -> float:
        """Bytes of weights, optimizer and activations at a step with the longest texts."""
        peers = cell.settings.get("peers", {})
        second = any(peer.get("kind", label) == "trained" for label, peer in peers.items())
        states = STATE_BYTES * shape.weights
        if second:
            states *= 2
        states += WEIGHT_BYTES * shape.weights * (len(peers) - second)

        together = train.batch_size * cell.settings["views"].get("passes", 2)
        texts = min(together, train.mini_batch_size or together)
        channels = texts * train.max_length * shape.layers * shape.width
        activations = channels * ACTIVATION_BYTES[self.speed.precision]
        if train.gradient_checkpointing:
            activations /= shape.layers
        return float(states + activations)

    def _add_teachers(self, cell: Cell, train: TrainSettings) -> None:
        """Count what cached teachers encode, once for each teacher and sample of the text."""
        count = self._count(cell)
        for table in cell.settings["teachers"].values():
            for model in () if table.get("live") else table.get("models", ()):
                seed = cell.seed if cell.sentences else None
                encoded = (model, id(cell.corpus), cell.sentences, seed)
                if model == STUDENT or encoded in self._encoded:
                    continue
                self._encoded.add(encoded)
                shape = self._shape(model)
                tokens = count * self._tokens(cell, train.max_length)
                self.teachers_seconds += self.speed.encoding(shape, tokens)
                self.teachers_disk += WEIGHT_BYTES * count * shape.width

    def _shape(self, reference: str) -> ModelShape:
        """The size of a teacher: a name, or the key of the cell that trains it."""
        if reference in self.plan.cells:
            return shape_of(str(self.plan.cells[reference].settings["base"]))
        return shape_of(reference)

    def _count(self, cell: Cell) -> int:
        return cell.sentences or len(cell.corpus.texts())

    def _tokens(self, cell: Cell, length: int) -> float:
        """Tokens that a model reads of a text, on the average."""
        words: tuple[int, ...] = self._words(cell.corpus)
        tokens = 2 + TOKENS_A_WORD * np.array(words)
        return float(np.minimum(tokens, length).mean())


def _words_a_text(corpus: Any) -> tuple[int, ...]:
    texts = corpus.texts()
    count = min(SAMPLED, len(texts))
    rows = np.asarray(evenly(len(texts), count))
    return tuple(len(text.split()) for text in texts.texts(rows))


def trained_passes(settings: Mapping[str, Any]) -> float:
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


def _numbers_size(cell: Cell) -> float:
    """Bytes of the bootstrap draws and cosines, which every judged cell keeps."""
    tasks = 7 if cell.run.test == "sts" else int(cell.run.test != "none")
    return 8.0 * RESAMPLES * tasks
