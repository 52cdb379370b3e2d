"""isotrope/small beside its teacher and isotrope/tiny: what it keeps, and what it saves.

    python -m benchmarks.models.small measure DATA      # docs/results/compress/small.json
    # a student to begin with: two layers of the teacher, with fewer tokens and units
    python -m benchmarks.models.small first --output start
    # another one: more tokens, fewer numbers
    python -m benchmarks.models.small begin STUDENT --output start
    # src/isotrope/models/small: the same weights with 16 bits
    python -m benchmarks.models.small ship MODEL

STS is the papers' protocol; transfer is SentEval's, in its setting for prototypes. In search and
clustering a model reads the first 128 tokens of a text, in bf16. Time and memory are those of
`isotrope compress`: one thread, both models in turns, on abstracts of SciFact. What the file has
already is not measured again; time and memory are.

isotrope/small was made in four trainings. The first student keeps 16,000 tokens. The second one
begins as the first, with 27,000 tokens of 256 numbers each, and learns the teacher's vectors alone.
It was stopped behind step 2,000 of 5,243, because the machine was busy, and the third one goes on
from there with a lower learning rate. The fourth one goes on with new texts and the high rate; what
ships is the mean of its weights and the third one's. The first one was trained before BERT's unused
tokens gave their places to words, so now it would have 994 words more.

    python -m benchmarks.models.small_text first DATA first.txt
    python -m benchmarks.models.small first --output start-first
    isotrope compress isotrope/minilm first.txt --output first \\
        --student ./start-first --set train.learning_rate=5e-4 \\
        --set train.epochs=4.6 --set train.precision=bf16 \\
        --set train.eval_steps=1000 --set teachers.teacher.precision=bf16
    python -m benchmarks.models.small ship first/model --output first-16
    python -m benchmarks.models.small begin first-16 --output start
    python -m benchmarks.models.small_text second DATA second.txt
    isotrope compress isotrope/minilm second.txt --output second \\
        --preset benchmarks/models/small.toml --student ./start \\
        --set train.learning_rate=5e-4 --set train.epochs=3.5
    isotrope compress isotrope/minilm second.txt --output third \\
        --preset benchmarks/models/small.toml --student second/checkpoints/checkpoint-2000 \\
        --set train.learning_rate=3.3e-4 --set train.epochs=1.1
    python -m benchmarks.models.small ship third/model --output third-16
    python -m benchmarks.models.small_text third DATA third.txt
    isotrope compress isotrope/minilm third.txt --output fourth \\
        --preset benchmarks/models/small.toml --student ./third-16 \\
        --set train.learning_rate=5e-4 --set train.epochs=1
    python -m benchmarks.models.small ship fourth/model --beside third-16
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from benchmarks.models.shrink import keep_tokens, keep_units, narrow_embeddings
from benchmarks.paths import ROOT
from isotrope import evaluate, load
from isotrope.compression.compress import TIMED
from isotrope.compression.cost import measure_costs, peak_memory
from isotrope.encoder import save
from isotrope.encoder.locate import locate
from isotrope.encoder.student import keep_layers
from isotrope.evaluation.sets.public import load_retrieval_set
from isotrope.evaluation.suite import SUITES, main_scores
from isotrope.study.measure import reading
from isotrope.types import Encoder

RESULT = ROOT / "docs" / "results" / "compress" / "small.json"
SHIPPED = ROOT / "src" / "isotrope" / "models" / "small"
TEACHER, STUDENT = "isotrope/minilm", "isotrope/small"
POOLING = {TEACHER: None, "isotrope/tiny": "first_last", STUDENT: None}
TOKENS, WIDTH = 27_000, 256  # with 16 bits a weight, the whole model then has less than 20 MB
SEARCHED, CLUSTERED = ("SciFact", "CACM", "NPL"), "Banking77"


def similar(model: Encoder, data: Path) -> dict[str, Any]:
    """Spearman on each STS set, as fractions, and the papers' mean."""
    sts = evaluate(model, "sts", data)
    return {
        "sts": main_scores("sts", sts),
        "sts_average": sum(main_scores("sts", sts).values()) / len(sts),
    }


def searched(model: Encoder, data: Path) -> dict[str, Any]:
    """nDCG@10 of each collection, its mean, and V-measure, as fractions."""
    with reading(model, 128, "bf16"):
        search = evaluate(model, "retrieval", data, [*SEARCHED, CLUSTERED])
    found = {task: search[task]["ndcg@10"] for task in SEARCHED}
    mean = sum(found.values()) / len(found)
    return {
        "ndcg@10": found,
        "ndcg@10_average": mean,
        "v_measure": {CLUSTERED: search[CLUSTERED]["v_measure"]},
    }


def classified(model: Encoder, data: Path) -> dict[str, Any]:
    """Accuracy on each transfer task, as fractions, and the mean of the papers' seven."""
    found = main_scores("transfer", evaluate(model, "transfer", data, setting="fast"))
    seven = [found[task] for task in SUITES["transfer"].averaged]
    return {"transfer_fast": found, "transfer_fast_average": sum(seven) / len(seven)}


# the first key of each -> what it is of
MEASURED = {"sts": similar, "ndcg@10": searched, "transfer_fast": classified}


def on_disk(name: str) -> int:
    """Bytes of a model's folder."""
    return sum(path.stat().st_size for path in Path(locate(name)).rglob("*") if path.is_file())


def stored(name: str) -> int:
    """Bytes of a model's weights, with as many bits as they are stored with. MTEB calls this memory
    usage.
    """
    return sum(
        value.nbytes for value in load_file(Path(locate(name)) / "model.safetensors").values()
    )


AT_REST = """
import gc, sys, psutil
from isotrope import load
from isotrope.encoder.embed import freed_memory, vectors_of
def resident():
    gc.collect(), freed_memory.give_back()
    return psutil.Process().memory_info().rss
vectors_of(load("isotrope/tiny", device="cpu", frozen=True), ["Rain."])  # what the libraries load at their first use
before, model = resident(), load(sys.argv[1], device="cpu", frozen=True)
print(resident() - before)
"""


def at_rest(name: str) -> int:
    """Bytes that a process holds for a loaded model while it encodes nothing: weights and
    tokenizer.
    """
    command = [sys.executable, "-c", AT_REST, name]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


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
        texts = load_retrieval_set(data, SEARCHED[0], "test").corpus[:TIMED]
        both = load(TEACHER, frozen=True), load(STUDENT, frozen=True)
        found["cost"] = asdict(measure_costs(*both, [TEACHER, STUDENT], texts))
        sizes = {"on_disk": on_disk, "stored": stored, "at_rest": at_rest}
        found["cost"] |= {key: [of(TEACHER), of(STUDENT)] for key, of in sizes.items()}
        found["cost"]["one_text"] = [peak_memory(name, texts[:1]) for name in (TEACHER, STUDENT)]
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def first(output: Path) -> None:
    """Write what the first training begins with: two layers of the teacher."""
    student = keep_layers(load(TEACHER, device="cpu"), 2)
    student = keep_units(keep_tokens(student, 16_000), 768)
    save(student, output)


def begin(earlier: Path, output: Path) -> None:
    """Write what the second training begins with: a student of few tokens, with more of them, of
    fewer numbers each.

    The tokens that it lacks come from the teacher, whose vectors of tokens are still like the
    student's.
    """
    student, teacher = (load(str(name), dropout=0.0).float() for name in (earlier, TEACHER))
    known = student[0].auto_model.get_input_embeddings().weight.detach()
    whole = teacher[0].auto_model.get_input_embeddings().weight.detach().clone()
    places = teacher.tokenizer.get_vocab()
    own, there = zip(
        *((number, places[token]) for token, number in student.tokenizer.get_vocab().items()),
        strict=True,
    )
    whole[list(there)] = known[list(own)]
    student[0].auto_model.resize_token_embeddings(len(whole), mean_resizing=False)
    student[0].auto_model.get_input_embeddings().weight.data.copy_(whole)
    student[0].processor = teacher[0].processor
    save(narrow_embeddings(keep_tokens(student, TOKENS), WIDTH), output)
    if (card := earlier / "README.md").is_file():  # the next training adds itself to it
        shutil.copy(card, output)


def ship(trained: Path, output: Path, beside: Path | None = None) -> None:
    """Copy a model, with weights of 16 bits; its configuration says 32, so that it computes with
    these.

    Its weights, or the mean of its weights and those of a model ``beside`` it.
    """
    shutil.copytree(trained, output)
    weights, others = (
        load_file(folder / "model.safetensors") for folder in (trained, beside or trained)
    )
    means = {
        name: ((value.float() + others[name].float()) / 2).half() for name, value in weights.items()
    }
    save_file(means, output / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Measure, make a first student, begin, or ship."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["measure", "first", "begin", "ship"])
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        help="the data folder, or the folder of the trained model",
    )
    parser.add_argument("--output", type=Path, default=SHIPPED, help="a new folder for the model")
    parser.add_argument(
        "--beside",
        type=Path,
        help="another model, whose weights have an equal share in what is shipped",
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "measure":
        measure(given.folder)
    elif given.what == "first":
        first(given.output)
    elif given.what == "begin":
        begin(given.folder, given.output)
    else:
        ship(given.folder, given.output, given.beside)


if __name__ == "__main__":
    main()
