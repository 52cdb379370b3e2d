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


def measure(
    shape: str, path: Path, sentences: int, repetitions: int, data: Path | None
) -> dict[str, Any]:
    """All on the first lines of the text; the share of the warm-up comes first."""
    name = f"isotrope/{shape}"
    share = sentences // repetitions
    texts = lines(path, share * (repetitions + 1))
    ours, where = load(name, device="cpu"), locate(name)
    vectors: dict[str, list[Any]] = {}

    with tempfile.TemporaryDirectory() as place:
        os.environ["ISOTROPE_CACHE"] = f"{place}/cache"

        def timed(encode: Encode) -> Callable[[list[str]], Any]:
            def system(chosen: list[str]) -> Any:
                freed_memory.give_back()  # of the others: ours would do it in its own time
                began = clock()
                found = encode(chosen)
                return clock() - began, found

            return system

        plain = SentenceTransformer(where, device="cpu")
        graph, length = export(name, Path(place) / "onnx"), ours.max_seq_length
        systems = {
            "ours": timed(lambda chosen: vectors_of(ours, chosen, batch_size=64)),
            "plain": timed(lambda chosen: plain.encode(chosen, show_progress_bar=False)),
            "onnx": timed(by_onnx(graph, length)),
        }
        models = {"ours": ours, "plain": plain}
        if has_bf16():
            half = load(name, device="cpu", dtype="bf16")
            plain16 = SentenceTransformer(
                where, device="cpu", model_kwargs={"dtype": torch.bfloat16}
            )
            systems["ours_bf16"] = timed(lambda chosen: vectors_of(half, chosen, batch_size=64))
            systems["plain_bf16"] = timed(
                lambda chosen: plain16.encode(chosen, show_progress_bar=False)
            )
            models |= {"ours_bf16": half, "plain_bf16": plain16}
        further = {
            "fastembed": by_fastembed(ours, graph, name),
            "openvino": by_openvino(graph, length, "f32"),
        }
        further |= {"openvino_bf16": by_openvino(graph, length, "bf16")} if has_bf16() else {}
        systems |= {who: timed(encode) for who, encode in further.items() if encode}

        def run(who: str, repetition: int) -> float:
            seconds, found = systems[who](texts[repetition * share : (repetition + 1) * share])
            vectors.setdefault(who, []).append(np.asarray(found, np.float32))
            return float(seconds)

        times = interleave({who: partial(run, who) for who in systems}, repetitions)
    # in the order of the repetitions
    rows = {who: np.concatenate(found) for who, found in vectors.items()}
    unit = {
        who: found / np.linalg.norm(found, axis=1, keepdims=True) for who, found in rows.items()
    }
    cosines = {who: (unit[who] * unit["plain"]).sum(axis=1) for who in systems if who != "plain"}
    judged = (
        {"quality": {who: quality(model, data) for who, model in models.items()}} if data else {}
    )
    return {
        "shape": shape,
        "text": path.name,
        "sentences": share * repetitions,
        "threads": torch.get_num_threads(),
        "clock": clock.name,
        "sentences_a_second": {
            who: round(share * repetitions / sum(found)) for who, found in times.items()
        },
        "plain_over_ours": ratio(times, "plain", "ours"),
        "plain_over": {
            who: ratio(times, "plain", who) for who in systems if who not in ("plain", "ours")
        },
        "difference": float(np.abs(rows["ours"] - rows["plain"]).max()),
        "cosine": {
            who: {"least": float(of.min()), "mean": float(of.mean())} for who, of in cosines.items()
        },
        **judged,
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
