"""The same 100 texts through every kind of saved model, in several environments and as ONNX; writes
JSON and a table.

    python -m benchmarks.models.portable --work runs/portable --output docs/results/portable

Each environment is a virtual environment of its own, made with pip in WORK the first time. A model
is saved once, by isotrope. Each environment loads the folder with plain sentence-transformers. The
last two columns are the graph that `isotrope export` writes, and sentence-transformers' own
``backend="onnx"``. A cell is the largest distance between a vector and the one that the model gave
before it was saved, as a part of that vector's length; or the error's line. The exit code is 1 if a
distance is above 1e-4: a model must be equal, or refused.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from rich.console import Console
from sentence_transformers import SentenceTransformer
from torch import nn

from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.pooling import Dense
from isotrope.errors import UserError
from isotrope.post.whitening import whitening
from isotrope.report.card import GRAPH
from isotrope.store.files import write_json, write_text
from isotrope.training.onnx import FARTHEST, export_onnx, farthest_apart, run_onnx

Vectors = np.ndarray[Any, Any]
TORCH = "torch==2.13.0"  # by its exact version, before what asks for it
ENVIRONMENTS = {
    "ST 5.1, transformers 4": ["sentence-transformers==5.1.2", "transformers==4.57.6"],
    "ST 5.7, transformers 4": ["sentence-transformers==5.7.0", "transformers==4.57.6"],
    "ST 5.7, transformers 5.0": ["sentence-transformers==5.7.0", "transformers==5.0.0"],
    "ST 5.7, transformers 5.23": ["sentence-transformers==5.7.0", "transformers==5.23.0"],
    "ST 6.2, transformers 5.23": ["sentence-transformers==6.2.0", "transformers==5.23.0"],
    "isotrope export": [],
    'backend="onnx"': [
        "sentence-transformers==5.7.0",
        "transformers==4.57.6",
        "optimum-onnx[onnxruntime]==0.1.0",
    ],
}
POOLINGS = ("mean", "cls", "first_last", "first_layer_last", "last_two")
# random weights, two layers
KINDS = ("Bert", "DistilBert", "MPNet", "Roberta", "Electra", "ModernBert", "Qwen3")
BEGINNINGS = (
    "The old bridge over the river", "A letter from the ministry", "My neighbour's youngest daughter",
    "In 1987, the first computer of our school", "This recipe for lentil soup", "Every train that leaves after 9:45 pm",
    "The committee, which meets twice a year,", "Ein Vogel auf dem Dach", "What nobody expected of the new goalkeeper",
    "A protein that binds to the receptor",
)  # fmt: skip
ENDINGS = (
    "was closed.", "cost 4.2% more than last year.", "came as a surprise to almost everybody in the village.",
    "has been described in three papers since then!", "is still the best answer that we have, is it not?",
    "was found by accident, and it changed the way in which doctors look at the disease.",
    "stood in the garden until the storm of the following winter took it away.", "did not work 😀.",
    "belongs to a group of eleven that the museum bought from a dealer in Zürich.", "made us laugh, twice.",
)  # fmt: skip
TEXTS = [
    # two are longer than MiniLM reads
    " ".join([f"{beginning} {ending}"] * (16 if i % 50 == 0 else 1))
    for i, (beginning, ending) in enumerate(product(BEGINNINGS, ENDINGS))
]
CHILD = """
import json, sys, warnings
import numpy as np
warnings.filterwarnings("ignore")
from sentence_transformers import SentenceTransformer
work, target, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
texts = json.load(open(work + "/texts.json"))
refused = {}
for name in json.load(open(work + "/models.json")):
    try:
        model = SentenceTransformer(f"{work}/models/{name}", device="cpu", **options)
        np.save(f"{target}/{name}.npy", model.encode(texts, batch_size=8, show_progress_bar=False))
    except Exception as error:
        refused[name] = f"{type(error).__name__}: " + " ".join(str(error).split())
json.dump(refused, open(target + "/refused.json", "w"))
"""


def random_model(kind: str, folder: Path, layer_types: list[str] | None = None) -> Path:
    """A small encoder of random weights, with the shipped model's tokenizer."""
    words = load("isotrope/tiny", device="cpu").tokenizer
    shape: dict[str, Any] = {
        "vocab_size": len(words),
        "max_position_embeddings": 140,
        "pad_token_id": 0,
    }
    if kind == "DistilBert":
        shape |= {"dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 64}
    else:
        shape |= {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        }
    if kind == "ModernBert":
        shape |= {
            "local_attention": 6,
            "bos_token_id": 2,
            "cls_token_id": 2,
            "eos_token_id": 3,
            "sep_token_id": 3,
        }
        shape |= {"layer_types": layer_types or ["full_attention", "sliding_attention"]}
    if kind == "Qwen3":
        shape |= {"num_key_value_heads": 2, "head_dim": 16}
        shape |= {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape))
    for weights in model.parameters():  # embeddings are born small: let every part matter
        weights.data.normal_(0, 0.2)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def models(work: Path) -> Iterator[tuple[str, SentenceTransformer]]:
    """Every kind of model that isotrope saves, by name."""
    for source in ("tiny", "minilm"):
        for pooling in POOLINGS:
            yield f"{source} {pooling}", load(f"isotrope/{source}", pooling, device="cpu")
    for name in ("tiny cls", "tiny first_last", "minilm mean"):
        source, _, pooling = name.partition(" ")
        yield f"{name} whitened", whitened(load(f"isotrope/{source}", pooling, device="cpu"))
    yield "minilm normalized", load("isotrope/minilm", normalize=True, device="cpu")
    for kind in KINDS:
        yield (
            f"{kind} first_last",
            load(random_model(kind, work / "random" / kind), "first_last", device="cpu"),
        )
    yield "Bert cls_head", load(work / "random" / "Bert", "cls_head", device="cpu")
    folder = random_model(
        "ModernBert", work / "random" / "local", layer_types=["sliding_attention", "full_attention"]
    )
    yield "ModernBert, a local layer first", load(folder, "mean", device="cpu")


def whitened(encoder: SentenceTransformer) -> SentenceTransformer:
    """With full whitening behind it, fitted on the texts themselves: the worst case for rounding."""
    mean, matrix = whitening(np.asarray(encoder.encode(TEXTS), dtype=np.float64), k=32)
    layer = Dense(
        *matrix.shape,
        activation_function=nn.Identity(),
        init_weight=torch.from_numpy(matrix.T).float().contiguous(),
        init_bias=torch.from_numpy(-mean @ matrix).float(),
    )
    encoder.append(layer)
    return encoder


def python_of(name: str, packages: list[str], work: Path) -> Path:
    """The interpreter of an environment, which is made the first time."""
    folder = (
        work / "venvs" / "".join(c if c.isalnum() or c == "." else "-" for c in name).strip("-")
    )
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        for wanted in ([TORCH], packages):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        write_text(folder / "installed", "\n".join(packages))
    return python


def elsewhere(name: str, work: Path, target: Path) -> dict[str, str]:
    """Every model in another environment: vectors into ``target``; the refusals."""
    python, options = (
        python_of(name, ENVIRONMENTS[name], work),
        {"backend": "onnx"} if "onnx" in name else {},
    )
    subprocess.run(
        [str(python), "-c", CHILD, str(work), str(target), json.dumps(options)], check=True
    )
    refused: dict[str, str] = json.loads((target / "refused.json").read_text())
    return {model: error.replace(f"{work}/", "") for model, error in refused.items()}


def exported(names: list[str], work: Path, target: Path) -> dict[str, str]:
    """Every model as our graph: vectors into ``target``; the refusals."""
    refused = {}
    for name in names:
        with tempfile.TemporaryDirectory(dir=work) as place:
            try:
                folder = export_onnx(work / "models" / name, Path(place) / "onnx")
                np.save(target / f"{name}.npy", run_onnx(folder / GRAPH, TEXTS, batch_size=8))
            except UserError as error:
                refused[name] = str(error)
    return refused


def save_all(work: Path) -> dict[str, Vectors]:
    """Save every model, and return the vectors that it gives before."""
    before = dict[str, Vectors]()
    for name, encoder in models(work):
        before[name] = np.asarray(encoder.encode(TEXTS, batch_size=8))
        save(encoder, work / "models" / name)
    write_json(work / "models.json", list(before))
    return before


def compare(work: Path, environment: str, before: dict[str, Vectors]) -> dict[str, float | str]:
    """How far each saved model's vectors are from those before; or why it is refused."""
    target = work / "vectors" / environment.replace('"', "")
    target.mkdir(parents=True, exist_ok=True)
    if ENVIRONMENTS[environment]:
        refused = elsewhere(environment, work, target)
    else:
        refused = exported(list(before), work, target)
    return {
        name: refused.get(name) or farthest_apart(np.load(target / f"{name}.npy"), expected)
        for name, expected in before.items()
    }


def is_too_far(cell: float | str) -> bool:
    """Whether a model's vectors differ by more than rounding; a refusal does not."""
    return not isinstance(cell, str) and not cell <= FARTHEST


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/portable"))
    parser.add_argument("--output", type=Path, default=Path("docs/results/portable"))
    arguments = parser.parse_args()
    work = arguments.work.resolve()
    console = Console()
    for folder in (work, arguments.output):
        folder.mkdir(parents=True, exist_ok=True)
    write_json(work / "texts.json", TEXTS)
    before = save_all(work)
    cells: dict[str, dict[str, float | str]] = {name: {} for name in before}
    for environment in ENVIRONMENTS:
        console.print(environment)
        for name, distance in compare(work, environment, before).items():
            cells[name][environment] = distance
    write_json(
        arguments.output / "result.json",
        {
            "command": "python -m benchmarks.models.portable",
            "torch": TORCH,
            "environments": ENVIRONMENTS,
            "texts": {
                "count": len(TEXTS),
                "sha256": sha256(json.dumps(TEXTS).encode()).hexdigest(),
            },
            "largest": FARTHEST,
            "models": cells,
        },
    )
    write_text(arguments.output / "table.md", table(cells))
    console.print(table(cells))
    sys.exit(any(is_too_far(cell) for row in cells.values() for cell in row.values()))


def table(cells: dict[str, dict[str, float | str]]) -> str:
    """Markdown: =, refused, or the distance."""
    lines = [
        "| saved model | " + " | ".join(ENVIRONMENTS) + " |",
        "|---" * (len(ENVIRONMENTS) + 1) + "|",
    ]
    for name, row in cells.items():
        shown = [
            "refused" if isinstance(cell, str) else "=" if cell <= FARTHEST else f"**{cell:.2g}**"
            for cell in row.values()
        ]
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
