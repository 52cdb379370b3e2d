"""Training steps on a GPU: SimCSE, and RankCSE with two cached teachers, compiled and not; prints
JSON.

    # an H100 or H200, dense bf16
    python -m benchmarks.speed.gpu --peak-tflops 989 --output gpu.json
    # a try on a CPU
    python -m benchmarks.speed.gpu --layers 2 --width 64 --batches 16 --steps 3

A BERT of random weights, base-sized unless told otherwise, with the presets' objectives, heads and
dropout .1, in bf16 (float32 on a CPU). A step is forward, loss, backward, clipping and AdamW on
token ids that lie ready; sentences have 12 to 32 tokens, evenly (mean 22, as SimCSE's wiki1m).
Teachers are two memory-mapped files of D float32 a row, looked up and mixed every step. Every shape
has been met before the clock starts; ``first_seconds`` is what that took, compiling included.
``epoch_minutes`` is a million sentences at that speed, tokens, evaluation and checkpoints left out.

``model_flop_utilisation`` is 6·N·T a second over the peak: N parameters of the layers alone, T real
tokens of both passes; attention, heads, loss and optimizer are not counted, padding and filler
tokens neither.
"""

import argparse
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor
from transformers import BertConfig, BertModel

from benchmarks.timing import show
from isotrope import load
from isotrope.encoder.fast.packed import compile_layers, layers
from isotrope.preset.preset import build_objective, read_preset
from isotrope.teachers.mixture import mix
from isotrope.types import Batch

SHORTEST, LONGEST, VOCABULARY, SENTENCES, PREPARED = 12, 32, 30522, 1_000_000, 16
METHODS = {"simcse": 0, "rankcse-listmle": 2}  # preset -> teachers


def student(folder: Path, depth: int, width: int, device: str) -> SentenceTransformer:
    """A BERT of random weights, with the shipped model's tokenizer, which nothing here uses."""
    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=width,
            num_hidden_layers=depth,
            num_attention_heads=max(1, width // 64),
            intermediate_size=4 * width,
        )
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
        load("isotrope/tiny", device="cpu").tokenizer.save_pretrained(folder)
    return load(folder, "cls", dropout=0.1, device=device)


def prepared(
    count: int, batch: int, rows: int, device: str
) -> list[tuple[dict[str, Tensor], Tensor]]:
    """Batches of token ids and masks (batch, L), and the row ids (batch,) of their sentences."""
    generator, made = torch.Generator().manual_seed(0), []
    for _ in range(count):
        lengths = torch.randint(SHORTEST, LONGEST + 1, (batch,), generator=generator)
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        ids = torch.randint(5, VOCABULARY, mask.shape, generator=generator) * mask
        features = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
        made.append((features, torch.randint(rows, (batch,), generator=generator)))
    return made


class Teachers:
    """Two cached teachers, mixed 1 : 2 as RankCSE does."""

    def __init__(self, folder: Path, rows: int, width: int, device: str) -> None:
        self.files, self.device = [folder / f"teacher-{number}.npy" for number in range(2)], device
        for number, path in enumerate(self.files):
            if not path.exists():
                drawn = np.random.default_rng(number).standard_normal(
                    (rows, width), dtype=np.float32
                )
                np.save(path, drawn / np.linalg.norm(drawn, axis=1, keepdims=True))
        self.maps = [np.load(path, mmap_mode="r") for path in self.files]

    def __call__(self, batch: Batch) -> Tensor:
        rows = batch.rows.cpu().numpy()
        return mix([torch.from_numpy(found[rows]).to(self.device) for found in self.maps], [1, 2])


def measure(
    folder: Path, method: str, batch: int, compiled: bool, asked: argparse.Namespace
) -> dict[str, Any]:
    """One method at one batch size."""
    model = student(folder, asked.layers, asked.width, asked.device)
    if compiled:
        compile_layers(model)
    taught = (
        {"rank": Teachers(folder, asked.rows, asked.width, asked.device)} if METHODS[method] else {}
    )
    objective = build_objective(read_preset(method), model, 0, taught).to(asked.device).train()
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1e-5, fused=asked.device == "cuda")
    batches = prepared(PREPARED, batch, asked.rows, asked.device)

    def step(features: dict[str, Tensor], rows: Tensor) -> None:
        with torch.autocast(asked.device, dtype=torch.bfloat16, enabled=asked.device == "cuda"):
            loss = torch.stack(
                list(objective([dict(features)], rows.to(asked.device)).values())
            ).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    first = _seconds(step, iter(batches), asked.device)
    timed = [batches[number % PREPARED] for number in range(asked.steps)]
    seconds = _seconds(step, iter(timed), asked.device) / asked.steps
    tokens = 2 * sum(int(features["attention_mask"].sum()) for features, _ in timed) / asked.steps
    parameters = sum(p.numel() for p in layers(model[0].auto_model).parameters())
    return {
        "method": method,
        "batch": batch,
        "compiled": compiled,
        "steps_per_second": float(f"{1 / seconds:.4g}"),
        "sentences_per_second": round(batch / seconds),
        "tokens_per_step": round(tokens),
        "first_seconds": round(first, 1),
        "epoch_minutes": round(SENTENCES / batch * seconds / 60, 2),
        "model_flop_utilisation": float(
            f"{6 * parameters * tokens / seconds / asked.peak_tflops / 1e12:.3g}"
        ),
    }


def _seconds(step: Any, batches: Iterator[tuple[dict[str, Tensor], Tensor]], device: str) -> float:
    """How long a step on each of the batches takes in all."""
    began = time.perf_counter()
    for features, rows in batches:
        step(features, rows)
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def main(arguments: list[str] | None = None) -> None:
    """Measure every method at every batch size, compiled and not."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64")
    parser.add_argument(
        "--batches", type=int, nargs="+", default=[64, 128], help="sentences a step"
    )
    parser.add_argument("--steps", type=int, default=100, help="timed ones")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=[*METHODS])
    parser.add_argument("--rows", type=int, default=100_000, help="of a teacher's file")
    parser.add_argument("--compile", choices=["on", "off", "both"], default="both")
    parser.add_argument(
        "--peak-tflops", type=float, default=989.0, help="of the device, dense, in its precision"
    )
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args(arguments)
    asked.device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = {"on": [True], "off": [False], "both": [False, True]}[asked.compile]
    with tempfile.TemporaryDirectory() as place:
        found = [
            measure(Path(place), method, batch, compiled, asked)
            for method in asked.methods
            for batch in asked.batches
            for compiled in chosen
        ]
    show(
        {
            "device": torch.cuda.get_device_name()
            if asked.device == "cuda"
            else platform.machine(),
            "torch": torch.__version__,
            "precision": "bf16" if asked.device == "cuda" else "fp32",
            "layers": asked.layers,
            "width": asked.width,
            "lengths": [SHORTEST, LONGEST],
            "peak_tflops": asked.peak_tflops,
            "steps": asked.steps,
            "results": found,
        },
        asked.output,
    )


if __name__ == "__main__":
    main()
