"""The loop of `isotrope encode` beside sentence-transformers and three other runtimes, all by
length; prints JSON.

    python -m benchmarks.speed.encode minilm wiki_train_00.txt.xz [--sentences 50000] \\
        [--repetitions 5] [--hide-bf16] [--data DATA] [--output FILE.json]

Each repetition embeds its share of the sentences, from a list. What `isotrope.encode` does besides,
about 0.2 seconds for a job, is left out.

- ``ours``, ``ours_bf16``, ``ours_int8``: `vectors_of`, in float32, bf16 and int8;
- ``plain``, ``plain_bf16``: a sentence-transformers model as its own library opens it, and in bf16,
  at its default batch of 32;
- ``onnx``, ``onnx_int8``: the graphs of `isotrope.export`, in float32, and with weights and inputs
  in 8 bits (dynamic quantisation), in batches of 32;
- ``fastembed``, ``openvino``, ``openvino_bf16``, ``openvino_int8``: the float32 graph in float32,
  bf16, and in 8 bits by NNCF (static quantisation with its preset for transformers); only if they
  are installed (``pip install --no-deps fastembed openvino``, and ``nncf``: the releases of optimum
  that sentence-transformers' own backends need refuse the transformers that it has here).

``ours_int8`` and ``openvino_int8`` measure their steps on the same texts, those of the warm-up.
``--hide-bf16`` leaves out what is in bf16, and keeps oneDNN from using its instructions: so it
measures a processor without them.

``difference`` is the largest between ``ours`` and ``plain``, of any number of any vector;
``cosine`` the smallest and the mean between each system and ``plain``; ``same_hits`` the part of
the first ten neighbours that both have, among at most 1,000 texts; ``quality``, with ``--data``,
nDCG@10 of CACM and SciFact in points.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from benchmarks.timing import clock, interleave, lines, ratio, show
from isotrope import evaluate, export, load
from isotrope.encoder.embed import freed_memory, vectors_of
from isotrope.encoder.fast.dtype import same_hits
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoder.fast.int8 import has_int8
from isotrope.encoder.locate import locate
from isotrope.training.processes import environment

os.environ["TOKENIZERS_PARALLELISM"] = "false"
BATCH = 32  # of the others, their default or near it
TASKS = ("CACM", "SciFact")
MOST_HITS = 1000  # texts among which neighbours are compared
Encode = Callable[[list[str]], Any]  # texts (N,) -> vectors (N, D)


def by_onnx(folder: Path, length: int, graph: str) -> Encode:
    """An exported graph, as its README says."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        folder / graph, options, providers=["CPUExecutionProvider"]
    )
    names = {one.name for one in session.get_inputs()}
    return _by_graph(folder, length, names, lambda features: session.run(None, features)[0])


def by_openvino(folder: Path, length: int, precision: str, calibration: list[str]) -> Encode | None:
    """The exported graph by OpenVINO, in "f32", "bf16" or "int8"; None if it is not installed."""
    try:
        import openvino  # type: ignore[import-not-found]

        core = openvino.Core()
        graph = core.read_model(folder / "model.onnx")
        if precision == "int8":
            graph = _by_nncf(graph, folder, length, calibration)
    except ImportError:
        return None
    options = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
    }
    compiled = core.compile_model(graph, "CPU", options)
    names = {one.any_name for one in compiled.inputs}
    return _by_graph(folder, length, names, lambda features: compiled(features)[0].copy())


def _by_nncf(graph: Any, folder: Path, length: int, calibration: list[str]) -> Any:
    """A graph of OpenVINO in 8 bits, calibrated on texts one by one."""
    import nncf  # type: ignore[import-not-found]

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    examples = []
    for encoding in tokenizer.encode_batch_fast(calibration):
        ids = np.array([encoding.ids], np.int64)
        examples.append({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    return nncf.quantize(
        graph,
        nncf.Dataset(examples),
        subset_size=len(examples),
        model_type=nncf.ModelType.TRANSFORMER,
    )


def _by_graph(
    folder: Path, length: int, names: set[str], run: Callable[[dict[str, Any]], Any]
) -> Encode:
    """A runtime with the tokenizer that lies beside the graph."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.enable_padding()

    def encode(texts: list[str]) -> Any:
        found = []
        for start in range(0, len(texts), BATCH):
            read = tokenizer.encode_batch_fast(texts[start : start + BATCH])
            given = {
                "input_ids": [one.ids for one in read],
                "attention_mask": [one.attention_mask for one in read],
            }
            found.append(
                run({name: np.array(ids, np.int64) for name, ids in given.items() if name in names})
            )
        return np.concatenate(found)

    return lambda texts: _sorted(encode, texts)


def by_fastembed(model: SentenceTransformer, folder: Path, name: str) -> Encode | None:
    """fastembed on the exported graph; None if it is not installed."""
    try:
        from fastembed import TextEmbedding  # type: ignore[import-not-found]
        from fastembed.common.model_description import ModelSource, PoolingType  # type: ignore[import-not-found]
    except ImportError:
        return None
    model.tokenizer.save_pretrained(folder)
    model[0].auto_model.config.save_pretrained(folder)
    source, size = ModelSource(hf="none/none"), len(model.encode("a"))
    # all is inside
    TextEmbedding.add_custom_model(name, PoolingType.DISABLED, False, source, size, "model.onnx")
    embedding = TextEmbedding(
        name, threads=torch.get_num_threads(), specific_model_path=str(folder)
    )
    embedding.model.tokenizer.enable_truncation(model.max_seq_length)
    return lambda texts: _sorted(
        lambda some: np.stack(list(embedding.embed(some, batch_size=BATCH))), texts
    )


def _sorted(encode: Encode, texts: list[str]) -> Any:
    """By length, as the others do by themselves."""
    order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
    vectors = encode([texts[row] for row in order])
    return vectors[np.argsort(order)]


@dataclass(frozen=True)
class Encoder:
    """A system as `isotrope.evaluate` takes it."""

    encode: Encode


def quality(encode: Encode, data: Path) -> dict[str, float]:
    """nDCG@10 of CACM and SciFact, in points."""
    scores = evaluate(Encoder(encode), "retrieval", data, tasks=list(TASKS))
    return {task: 100 * scores[task]["ndcg@10"] for task in TASKS}


def systems_of(
    shape: str, folder: Path, calibration: list[str], hide_bf16: bool
) -> dict[str, Encode]:
    """What takes turns: half precision, 8 bits and other runtimes where they can run."""
    name = f"isotrope/{shape}"
    location = locate(name)
    ours = load(name, device="cpu")
    plain = SentenceTransformer(location, device="cpu")
    graph = export(name, folder / "onnx")
    quantize_dynamic(
        graph / "model.onnx",
        graph / "model_int8.onnx",
        weight_type=QuantType.QInt8,
        per_channel=True,
    )
    length = ours.max_seq_length

    systems: dict[str, Encode | None] = {
        "ours": partial(_ours, ours),
        "plain": partial(plain.encode, show_progress_bar=False),
        "onnx": by_onnx(graph, length, "model.onnx"),
        "onnx_int8": by_onnx(graph, length, "model_int8.onnx"),
        "fastembed": by_fastembed(ours, graph, name),
        "openvino": by_openvino(graph, length, "f32", calibration),
        "openvino_int8": by_openvino(graph, length, "int8", calibration),
    }
    if has_int8():
        quantised = load(name, device="cpu", dtype="int8", sample=calibration)
        systems["ours_int8"] = partial(_ours, quantised)
    if has_bf16() and not hide_bf16:
        half = load(name, device="cpu", dtype="bf16")
        plain_half = SentenceTransformer(
            location, device="cpu", model_kwargs={"dtype": torch.bfloat16}
        )
        systems["ours_bf16"] = partial(_ours, half)
        systems["plain_bf16"] = partial(plain_half.encode, show_progress_bar=False)
        systems["openvino_bf16"] = by_openvino(graph, length, "bf16", calibration)
    return {name: encode for name, encode in systems.items() if encode is not None}


def _ours(model: SentenceTransformer, texts: list[str]) -> Any:
    return vectors_of(model, texts, batch_size=64)


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """All on the first lines of the text; the share of the warm-up comes first."""
    share = asked.sentences // asked.repetitions
    texts = lines(asked.text, share * (asked.repetitions + 1))
    vectors: dict[str, list[Any]] = {}

    def run(who: str, encode: Encode, repetition: int) -> float:
        chosen = texts[repetition * share : (repetition + 1) * share]
        freed_memory.give_back()  # of the others: ours would do it in its own time
        began = clock()
        found = encode(chosen)
        seconds = clock() - began
        if repetition:
            vectors.setdefault(who, []).append(np.asarray(found, np.float32))
        return seconds

    with tempfile.TemporaryDirectory() as folder:
        os.environ["ISOTROPE_CACHE"] = f"{folder}/cache"
        systems = systems_of(asked.shape, Path(folder), texts[:share], asked.hide_bf16)
        turns = {who: partial(run, who, encode) for who, encode in systems.items()}
        times = interleave(turns, asked.repetitions)

    measured = {
        "shape": asked.shape,
        "text": asked.text.name,
        "bf16": has_bf16() and not asked.hide_bf16,
        "vnni": torch.cpu._is_vnni_supported(),
        "environment": environment(),
        "sentences": share * asked.repetitions,
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        **speeds(times, share * asked.repetitions),
        **differences({who: np.concatenate(found) for who, found in vectors.items()}),
    }
    if asked.data:
        judged = [who for who in systems if who == "plain" or who.endswith(("int8", "bf16"))]
        measured["quality"] = {who: quality(systems[who], asked.data) for who in judged}
    return measured


def speeds(times: dict[str, list[float]], sentences: int) -> dict[str, Any]:
    """Sentences a second of each system, and the seconds of plain encoding over its own."""
    others = [who for who in times if who not in ("plain", "ours")]
    return {
        "sentences_a_second": {who: round(sentences / sum(found)) for who, found in times.items()},
        "plain_over_ours": ratio(times, "plain", "ours"),
        "plain_over": {who: ratio(times, "plain", who) for who in others},
    }


def differences(rows: dict[str, Any]) -> dict[str, Any]:
    """How far each system's vectors (N, D) are from those of plain encoding."""
    unit = {
        who: found / np.linalg.norm(found, axis=1, keepdims=True) for who, found in rows.items()
    }
    cosines = {who: (unit[who] * unit["plain"]).sum(axis=1) for who in rows if who != "plain"}
    return {
        "difference": float(np.abs(rows["ours"] - rows["plain"]).max()),
        "cosine": {
            who: {"least": float(each.min()), "mean": float(each.mean())}
            for who, each in cosines.items()
        },
        "same_hits": {
            who: same_hits(unit["plain"][:MOST_HITS], unit[who][:MOST_HITS]) for who in cosines
        },
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("shape", choices=["minilm", "small", "tiny"])
    parser.add_argument("text", type=Path)
    parser.add_argument("--sentences", type=int, default=50_000)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--cpu-time", action="store_true", help="processor time of one thread, on a busy machine"
    )
    parser.add_argument("--hide-bf16", action="store_true", help="as on a processor without bf16")
    parser.add_argument("--data", type=Path, help="judge what rounds on CACM and SciFact too")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    if asked.hide_bf16:  # oneDNN reads it before its first product
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_VNNI"
    show(measure(asked), asked.output)
