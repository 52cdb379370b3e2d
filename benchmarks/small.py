"""isotrope/small beside its teacher and isotrope/tiny: what it keeps, and what it saves.

    python benchmarks/small.py measure DATA      # docs/results/compress/small.json
    python benchmarks/small.py ship run/model    # src/isotrope/models/small: the same weights with 16 bits

STS is the papers' protocol; transfer is SentEval's, in its setting for prototypes. In search and clustering a model
reads the first 128 tokens of a text, in bf16. Time and memory are those of `isotrope compress`: one thread, both models
in turns, on abstracts of SciFact. What the file has already is not measured again; time and memory are.

isotrope/small was made by these two commands. The second one needs about an hour on one core.

    python benchmarks/small_text.py DATA small.txt
    isotrope compress isotrope/minilm small.txt --student layers:2,vocabulary:16000,inner:768 --output run \\
        --set train.learning_rate=5e-4 --set train.epochs=4.6 --set train.precision=bf16 \\
        --set train.eval_steps=1000 --set teachers.teacher.precision=bf16
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from isotrope import evaluate, load
from isotrope.compression.compress import TIMED
from isotrope.compression.cost import costs
from isotrope.encoder.locate import locate
from isotrope.evaluation.sets.domains import load_domain
from isotrope.evaluation.suite import SUITES, main_scores
from isotrope.study.run_cell import reading
from isotrope.types import Encoder

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "docs" / "results" / "compress" / "small.json"
SHIPPED = ROOT / "src" / "isotrope" / "models" / "small"
TEACHER, STUDENT = "isotrope/minilm", "isotrope/small"
POOLING = {TEACHER: None, "isotrope/tiny": "first_last", STUDENT: None}
SEARCHED, CLUSTERED = ("SciFact", "CACM", "NPL"), "Banking77"


def similar(model: Encoder, data: Path) -> dict[str, Any]:
    """Spearman on each STS set, as fractions, and the papers' mean."""
    sts = evaluate(model, "sts", data)
    return {"sts": main_scores("sts", sts), "sts_average": sum(main_scores("sts", sts).values()) / len(sts)}


def searched(model: Encoder, data: Path) -> dict[str, Any]:
    """nDCG@10 of each collection, its mean, and V-measure, as fractions."""
    with reading(model, 128, "bf16"):
        search = evaluate(model, "retrieval", data, [*SEARCHED, CLUSTERED])
    found = {task: search[task]["ndcg@10"] for task in SEARCHED}
    mean = sum(found.values()) / len(found)
    return {"ndcg@10": found, "ndcg@10_average": mean, "v_measure": {CLUSTERED: search[CLUSTERED]["v_measure"]}}


def classified(model: Encoder, data: Path) -> dict[str, Any]:
    """Accuracy on each transfer task, as fractions, and the mean of the papers' seven."""
    found = main_scores("transfer", evaluate(model, "transfer", data, setting="fast"))
    seven = [found[task] for task in SUITES["transfer"].averaged]
    return {"transfer_fast": found, "transfer_fast_average": sum(seven) / len(seven)}


MEASURED = {"sts": similar, "ndcg@10": searched, "transfer_fast": classified}  # the first key of each -> what it is of


def on_disk(name: str) -> int:
    """Bytes of a model's folder."""
    return sum(path.stat().st_size for path in Path(locate(name)).rglob("*") if path.is_file())


def stored(name: str) -> int:
    """Bytes of a model's weights, with as many bits as they are stored with. MTEB calls this memory usage."""
    return sum(value.nbytes for value in load_file(Path(locate(name)) / "model.safetensors").values())


def measure(data: Path) -> None:
    """Write the result after each part, so that a stop loses little."""
    found = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {"models": {}}
    RESULT.parent.mkdir(exist_ok=True)
    for name in POOLING:
        if name == STUDENT and not SHIPPED.is_dir():
            continue
        of = found["models"].setdefault(name, {})
        for key, measured in MEASURED.items():
            if key not in of:
                print(name, key, flush=True)
                of |= measured(load(name, POOLING[name]), data)
                RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if SHIPPED.is_dir():
        texts = load_domain(data, SEARCHED[0], "test").corpus[:TIMED]
        found["cost"] = costs(load(TEACHER, frozen=True), load(STUDENT, frozen=True), [TEACHER, STUDENT], texts)
        found["cost"] |= {key: [of(TEACHER), of(STUDENT)] for key, of in (("on_disk", on_disk), ("stored", stored))}
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def ship(trained: Path) -> None:
    """Copy a model, with weights of 16 bits; its configuration says 32, so that it computes with these."""
    shutil.copytree(trained, SHIPPED)
    weights = {name: value.to(torch.float16) for name, value in load_file(trained / "model.safetensors").items()}
    save_file(weights, SHIPPED / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Measure, or ship."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "ship"])
    parser.add_argument("folder", type=Path, help="the data folder, or the folder of the trained model")
    given = parser.parse_args()
    torch.set_num_threads(1)
    (measure if given.what == "measure" else ship)(given.folder)


if __name__ == "__main__":
    main()
