"""The loop of `isotrope encode` beside sentence-transformers and three other runtimes, all by
length; prints JSON.

    python -m benchmarks.speed.encode small wiki_train_00.txt.xz [--sentences 50000] \\
        [--repetitions 5] [--output FILE.json]

Each repetition embeds its share of the sentences, from a list. What `isotrope.encode` does besides,
about 0.2 seconds for a job, is left out.

- ``ours``, ``ours_bf16``: `vectors_of`, in float32 and in bf16;
- ``plain``, ``plain_bf16``: a sentence-transformers model as its own library opens it, and in bf16, at
  its default batch of 32;
- ``onnx``, ``fastembed``, ``openvino``, ``openvino_bf16``: the graph of `isotrope.export`, in float32 but for the last,
  in batches of 32; fastembed and OpenVINO only if they are installed (``pip install --no-deps
fastembed openvino``: the   releases of optimum that sentence-transformers' own backends need refuse
the transformers that it has here).

``difference`` is the largest between ``ours`` and ``plain``, of any number of any vector;
``cosine`` the smallest and the mean between each system and ``plain``; ``quality``, with
``--data``, STS-B (Spearman) and CACM (nDCG@10), in points.
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
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from benchmarks.timing import clock, interleave, lines, ratio, show
from isotrope import evaluate, export, load
from isotrope.encoder.embed import freed_memory, vectors_of
from isotrope.encoder.fast.half import has_bf16
from isotrope.encoder.locate import locate

os.environ["TOKENIZERS_PARALLELISM"] = "false"
BATCH = 32  # of the others, their default or near it
Encode = Callable[[list[str]], Any]  # texts (N,) -> vectors (N, D)


def by_onnx(folder: Path, length: int) -> Encode:
    """The exported graph, as its README says."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(
        folder / "model.onnx", options, providers=["CPUExecutionProvider"]
    )
    names = {one.name for one in session.get_inputs()}
    return _by_graph(folder, length, names, lambda features: session.run(None, features)[0])


def by_openvino(folder: Path, length: int, precision: str) -> Encode | None:
    """The exported graph by OpenVINO, in "f32" or "bf16"; None if it is not installed."""
    try:
        import openvino  # type: ignore[import-not-found]
    except ImportError:
        return None
    asked = {
        "INFERENCE_NUM_THREADS": torch.get_num_threads(),
        "INFERENCE_PRECISION_HINT": precision,
    }
    compiled = openvino.Core().compile_model(folder / "model.onnx", "CPU", asked)
    names = {one.any_name for one in compiled.inputs}
    return _by_graph(folder, length, names, lambda features: compiled(features)[0].copy())


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


def quality(model: SentenceTransformer, data: Path) -> dict[str, float]:
    """STS-B and CACM, in points."""
    similar = evaluate(model, "sts", data, tasks=["STSBenchmark"])["STSBenchmark"]["spearman"][
        "test"
    ]
    found = evaluate(model, "retrieval", data, tasks=["CACM"])["CACM"]["ndcg@10"]
    return {"STS-B": 100 * similar, "CACM": 100 * found}


@dataclass(frozen=True)
class Systems:
    """What takes turns, by name; models are those whose quality can be judged too."""

    encode: dict[str, Encode]
    models: dict[str, SentenceTransformer]


def systems_of(shape: str, place: Path) -> Systems:
    """Ours, plain sentence-transformers and ONNX; half precision and others where they can run."""
    name = f"isotrope/{shape}"
    ours = load(name, device="cpu")
    where = locate(name)
    plain = SentenceTransformer(where, device="cpu")
    graph = export(name, place / "onnx")
    length = ours.max_seq_length

    encode: dict[str, Encode] = {
        "ours": partial(_ours, ours),
        "plain": partial(plain.encode, show_progress_bar=False),
        "onnx": by_onnx(graph, length),
    }
    models = {"ours": ours, "plain": plain}
    if has_bf16():
        half = load(name, device="cpu", dtype="bf16")
        options = {"dtype": torch.bfloat16}
        plain_half = SentenceTransformer(where, device="cpu", model_kwargs=options)
        encode["ours_bf16"] = partial(_ours, half)
        encode["plain_bf16"] = partial(plain_half.encode, show_progress_bar=False)
        models |= {"ours_bf16": half, "plain_bf16": plain_half}

    further = {
        "fastembed": by_fastembed(ours, graph, name),
        "openvino": by_openvino(graph, length, "f32"),
        "openvino_bf16": by_openvino(graph, length, "bf16") if has_bf16() else None,
    }
    installed = {who: encoding for who, encoding in further.items() if encoding}
    return Systems(encode | installed, models)


def _ours(model: SentenceTransformer, texts: list[str]) -> Any:
    return vectors_of(model, texts, batch_size=64)


def measure(
    shape: str, path: Path, sentences: int, repetitions: int, data: Path | None
) -> dict[str, Any]:
    """All on the first lines of the text; the share of the warm-up comes first."""
    share = sentences // repetitions
    texts = lines(path, share * (repetitions + 1))
    vectors: dict[str, list[Any]] = {}

    def run(who: str, encode: Encode, repetition: int) -> float:
        chosen = texts[repetition * share : (repetition + 1) * share]
        freed_memory.give_back()  # of the others: ours would do it in its own time
        began = clock()
        found = encode(chosen)
        seconds = clock() - began
        vectors.setdefault(who, []).append(np.asarray(found, np.float32))
        return seconds

    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = f"{place}/cache"
        systems = systems_of(shape, Path(place))
        turns = {who: partial(run, who, encode) for who, encode in systems.encode.items()}
        times = interleave(turns, repetitions)

    measured = {
        "shape": shape,
        "text": path.name,
        "sentences": share * repetitions,
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        **speeds(times, share * repetitions),
        **differences({who: np.concatenate(found) for who, found in vectors.items()}),
    }
    if data:
        measured["quality"] = {who: quality(model, data) for who, model in systems.models.items()}
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
    parser.add_argument("--data", type=Path, help="judge each model on STS-B and CACM too")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    clock.cpu_time = asked.cpu_time
    torch.set_num_threads(1 if asked.cpu_time else asked.threads)
    show(
        measure(asked.shape, asked.text, asked.sentences, asked.repetitions, asked.data),
        asked.output,
    )
