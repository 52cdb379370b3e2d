"""One step of SimCSE at batch 64 and length 32, side by side with what a user would pick instead;
prints JSON.

    python -m benchmarks.speed.step minilm wiki_train_00.txt.xz [--repetitions 9] [--steps 6] \\
        [--output FILE.json]
    python -m benchmarks.speed.step tiny   wiki_train_00.txt.xz

Systems, on the same model, sentences, batches and length, each with dropout .1 and a whole step
(data, tokens, forward, loss, backward, clipping, AdamW):

- ``ours``: isotrope's trainer with the preset ``simcse``, tokens made beforehand, its head left out: (a) has none;
- ``ours_bf16``: the same with ``train.precision = bf16``: weights, their gradients and the loss stay in 32 bits;
- ``a``: sentence-transformers' trainer, MultipleNegativesRankingLoss on a duplicated column;
- ``b``: the loop of the papers' repositories: tokens made beforehand, padded to the longest, two copies in one forward;
- ``bound``: the matrix products of ``ours`` alone, forward and backward, for real tokens.

``ceiling`` is what the padding alone allows: L over the mean number of real tokens. Ratios are of
time, other / ours.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from datasets import Dataset, disable_progress_bars
from rich.console import Console
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback

from benchmarks.timing import System, clock, interleave, lines, ratio, show
from isotrope import load
from isotrope.contract.context import BuildContext
from isotrope.encoder.fast.products import fast_products
from isotrope.preset.preset import Preset, build_objective, open_teachers, read_preset
from isotrope.text.corpus import build_texts
from isotrope.text.files import find_sources
from isotrope.text.tables import Columns
from isotrope.text.tokens import token_data
from isotrope.training.processes import environment
from isotrope.training.trainer import ObjectiveState, Trainer, training_arguments

os.environ["TOKENIZERS_PARALLELISM"] = "false"
BATCH, LENGTH, DROPOUT, RATE = 64, 32, 0.1, 3e-5


class Ticks(TrainerCallback):
    """When each step ended: the first ends the preparations."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.ends.append(clock())

    @property
    def seconds(self) -> float:
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1)


class Ours:
    """isotrope's trainer, as `isotrope.training.fit` sets it up, on any preset."""

    def __init__(self, preset: Preset, batches: Callable[[int], list[str]], folder: Path) -> None:
        self.preset, self.batches, self.folder = preset, batches, folder
        pooling, self.length = (
            "mask" if preset.encoder.pooling == "mask" else "cls",
            preset.train.max_length,
        )
        self.model = load(
            preset.encoder.backbone, pooling, max_length=self.length, dropout=DROPOUT, device="cpu"
        )

    def __call__(self, repetition: int) -> float:
        text, ticks = self.folder / f"{repetition}.txt", Ticks()
        text.write_text("\n".join(self.batches(repetition)) + "\n", encoding="utf-8")
        corpus = build_texts(find_sources([text]), Columns(), self.folder / "corpora")
        dataset, collator = token_data(self.model, corpus, None, self.length, Console(quiet=True))
        teachers = open_teachers(self.preset, BuildContext.of(self.model, corpus=corpus))
        objective = build_objective(self.preset, self.model, repetition, teachers)
        arguments = training_arguments(self.preset, self.folder, seed=repetition)
        arguments.eval_strategy = arguments.save_strategy = "no"
        trainer = Trainer(
            model=self.model,
            args=arguments,
            train_dataset=dataset,
            loss=objective,
            data_collator=collator,
            callbacks=[ObjectiveState(objective), ticks],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return ticks.seconds


class SentenceTransformers:
    """(a): what its documentation gives for SimCSE."""

    def __init__(self, name: str, batches: Callable[[int], list[str]], folder: Path) -> None:
        self.model = load(
            name, "cls", max_length=LENGTH, dropout=DROPOUT, device="cpu", packed=False
        )
        self.batches, self.folder = batches, folder

    def __call__(self, repetition: int) -> float:
        texts, ticks = self.batches(repetition), Ticks()
        arguments = SentenceTransformerTrainingArguments(
            str(self.folder),
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            dataloader_drop_last=True,
        )
        trainer = Quiet(
            model=self.model,
            args=arguments,
            train_dataset=Dataset.from_dict({"anchor": texts, "positive": texts}),
            loss=MultipleNegativesRankingLoss(self.model, scale=20.0),
            callbacks=[ticks],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return ticks.seconds


class Quiet(SentenceTransformerTrainer):
    """Without the model card, which is no part of a step."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None: ...


class PlainLoop:
    """(b): the usual loop over a transformers model."""

    def __init__(self, name: str, batches: Callable[[int], list[str]], folder: Path) -> None:
        encoder: SentenceTransformer = load(
            name, "cls", max_length=LENGTH, dropout=DROPOUT, device="cpu", packed=False
        )
        self.model, self.tokenizer, self.batches = (
            encoder[0].auto_model.train(),
            encoder.tokenizer,
            batches,
        )

    def __call__(self, repetition: int) -> float:
        tokens = self.tokenizer(self.batches(repetition), truncation=True, max_length=LENGTH)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, weight_decay=0.0)
        rows = torch.randperm(len(tokens["input_ids"])).tolist()
        ends = []
        for start in range(0, len(rows), BATCH):
            chosen = rows[start : start + BATCH]
            batch = self.tokenizer.pad(
                {key: [tokens[key][i] for i in chosen] for key in tokens}, return_tensors="pt"
            )
            twice = {key: value.repeat(2, 1) for key, value in batch.items()}
            first, second = self.model(**twice).last_hidden_state[:, 0].chunk(2)
            cosines = F.cosine_similarity(first[:, None], second[None], dim=-1)
            F.cross_entropy(cosines / 0.05, torch.arange(BATCH)).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            ends.append(clock())
        return (ends[-1] - ends[0]) / (len(ends) - 1)


class Bound:
    """(c): each matrix product of the step, once forward and twice backward, on numbers that lie
    ready.
    """

    def __init__(self, name: str, tokens: int) -> None:
        config = load(name, device="cpu")[0].auto_model.config
        width, inner, heads = (
            config.hidden_size,
            config.intermediate_size,
            config.num_attention_heads,
        )
        gated = 2 if config.model_type == "modernbert" else 1  # its MLP multiplies two projections
        linear = [(width, width)] * 4 + [(width, gated * inner), (inner, width)]
        self.layers = config.num_hidden_layers
        self.linear = [
            (torch.randn(tokens, a), torch.randn(a, b), torch.randn(tokens, b)) for a, b in linear
        ]
        shape = (2 * BATCH * heads, LENGTH)
        self.heads, self.scores = torch.randn(*shape, width // heads), torch.randn(*shape, LENGTH)

    def __call__(self, repetition: int) -> float:
        began = clock()
        with fast_products():  # as `ours`
            for _ in range(self.layers):
                self._layer()
        return clock() - began

    def _layer(self) -> None:
        for x, weight, gradient in self.linear:
            _products(x, weight, gradient)
        for _ in range(3):  # scores and their two gradients; the weighted sum and its two
            torch.bmm(self.heads, self.heads.mT)
            torch.bmm(self.scores, self.heads)


def _products(x: Tensor, weight: Tensor, gradient: Tensor) -> None:
    """y = x·W, and the gradients of x and of W."""
    torch.mm(x, weight)
    torch.mm(gradient, weight.mT)
    torch.mm(x.mT, gradient)


def measure(shape: str, path: Path, repetitions: int, steps: int) -> dict[str, Any]:
    """All systems on the first lines of the text."""
    name = f"isotrope/{shape}"
    size = BATCH * (steps + 1)
    texts = lines(path, size * (repetitions + 1))
    tokenizer = load(name, device="cpu").tokenizer
    filled = [len(ids) for ids in tokenizer(texts, truncation=True, max_length=LENGTH)["input_ids"]]
    mean = sum(filled) / len(filled)
    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = place
        preset, half = (
            read_preset(
                "simcse",
                [f"encoder.backbone={name}", "views.mlp=false", f"train.precision={precision}"],
            )
            for precision in ("fp32", "bf16")
        )
        given = (lambda repetition: texts[repetition * size : (repetition + 1) * size], Path(place))
        systems: dict[str, System] = {
            "ours": Ours(preset, *given),
            "ours_bf16": Ours(half, *given),
            "a": SentenceTransformers(name, *given),
            "b": PlainLoop(name, *given),
        }
        times = interleave(systems | {"bound": Bound(name, round(2 * BATCH * mean))}, repetitions)
    return {
        "shape": shape,
        "text": path.name,
        "tokens": round(mean, 2),
        "ceiling": round(LENGTH / mean, 3),
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        "environment": environment(),
        "seconds": {
            name: round(sorted(found)[len(found) // 2], 4) for name, found in times.items()
        },
        "a_over_ours_bf16": ratio(times, "a", "ours_bf16"),
        "ours_over_ours_bf16": ratio(times, "ours", "ours_bf16"),
        "a_over_ours": ratio(times, "a", "ours"),
        "b_over_ours": ratio(times, "b", "ours"),
        "bound_over_ours": ratio(times, "bound", "ours"),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--repetitions", type=int, default=9)
    parser.add_argument("--steps", type=int, default=6, help="timed ones a repetition")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time of one thread, on a busy machine"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    disable_progress_bars()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    show(measure(asked.shape, asked.text, asked.repetitions, asked.steps), asked.output)
