"""The tables of speed and memory, from the files that the benchmarks wrote to
docs/results/performance/.
"""

import json
from typing import Any

from grid import RESULTS, grid, read, signed, times

Result = dict[str, Any]


def _files(name: str) -> list[Result]:
    """Every result of one benchmark: NAME-….json."""
    found = sorted((RESULTS / "performance").glob(f"{name}-*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in found]


def step() -> str:
    """A step of SimCSE: the times of (a), (b) and (c) over ours."""
    rows = [
        [
            f"isotrope/{r['shape']}",
            f"{r['text'].split('.')[0]} ({r['tokens']:.1f} tokens)",
            f"{1000 * r['seconds']['ours']:.0f} ms",
            f"{r['ceiling']:.2f} ×",
            times(r["a_over_ours"]),
            times(r["b_over_ours"]),
            f"{r['bound_over_ours']['median']:.2f} ×",
        ]
        for r in _files("step")
    ]
    return grid(["model", "text", "ours", "ceiling", "(a)", "(b)", "(c)"], rows)


def encode() -> str:
    """`encode` beside sentence-transformers' own, in sentences a second, on the newest processor."""
    found = [r for r in _files("bits") if r["bf16"] and r["text"].startswith("wiki")]
    rows = [
        [
            f"isotrope/{r['shape']}",
            *(f"{r['sentences_a_second'][who]:,}" for who in ("ours", "plain")),
            times(r["plain_over_ours"]),
            f"{r['difference']:.0e}",
        ]
        for r in found
    ]
    return grid(["model", "isotrope", "sentence-transformers", "ratio", "largest difference"], rows)


SYSTEMS = {
    "plain_bf16": "sentence-transformers, bf16", "onnx": "ONNX Runtime", "fastembed": "fastembed",
    "openvino": "OpenVINO", "openvino_bf16": "OpenVINO, bf16",
    "ours": "isotrope, float32", "ours_bf16": "isotrope, bf16",
}  # fmt: skip


def dtypes() -> str:
    """How many times as fast as sentence-transformers in float32 each system is, and its smallest
    cosine with it.
    """
    found = _files("slow16")
    names = [name for name in SYSTEMS if name in found[0]["cosine"]]
    rows = [
        [
            f"isotrope/{r['shape']}",
            r["text"].split(".")[0],
            *(
                times(r["plain_over_ours"] if name == "ours" else r["plain_over"][name])
                for name in names
            ),
            *(f"{r['cosine'][name]['least']:.5f}" for name in ("plain_bf16", "ours_bf16")),
        ]
        for r in found
    ]
    header = ["model", "text", *(SYSTEMS[name] for name in names)]
    return grid(
        [*header, "smallest cosine, sentence-transformers in bf16", "isotrope in bf16"], rows
    )


BITS = {
    "plain": "sentence-transformers, float32",
    "plain_bf16": "sentence-transformers, bf16",
    "onnx_int8": "ONNX Runtime, int8 (dynamic)",
    "fastembed": "fastembed",
    "openvino": "OpenVINO, float32",
    "openvino_bf16": "OpenVINO, bf16",
    "openvino_int8": "OpenVINO, int8 (NNCF)",
    "ours": "isotrope, float32",
    "ours_bf16": "isotrope, bf16",
    "ours_int8": "isotrope, int8",
}


def bits(processor: str, model: str = "", text: str = "") -> str:
    """Each system in 32, 16 and 8 bits: speed, and what rounding changes. On a processor with bf16
    instructions, with those of VNNI alone, or with AVX2 alone; of one model and text, or of all.
    """
    header = ["model", "text", "system", "a second", "times as fast", "smallest cosine"]
    header += ["first hits the same", "CACM", "SciFact"]
    rows = []
    for result in _files("bits"):
        name = result["text"].split(".")[0]
        is_asked = model in ("", result["shape"]) and text in ("", name)
        if not is_asked or _instructions(result) != processor:
            continue
        for system in BITS:
            if system in result["sentences_a_second"]:
                rows.append([f"isotrope/{result['shape']}", name, *_bits_row(result, system)])
    return grid(header, rows)


def _instructions(result: Result) -> str:
    """The best instructions for few bits that a measurement could use."""
    if result["bf16"]:
        return "bf16"
    return "VNNI" if result.get("vnni", True) else "AVX2"


def _bits_row(result: Result, system: str) -> list[str]:
    """One system of a result: from its name to its quality."""
    cells = [BITS[system], f"{result['sentences_a_second'][system]:,}"]
    if system == "plain":
        cells += ["1.00 ×", "", ""]
    else:
        ratio = result["plain_over_ours"] if system == "ours" else result["plain_over"][system]
        cells += [times(ratio), f"{result['cosine'][system]['least']:.5f}"]
        cells.append(f"{100 * result['same_hits'][system]:.1f} %")
    quality = result.get("quality", {})
    for task in ("CACM", "SciFact"):
        points = quality.get(system, {}).get(task)
        if points is None:
            cells.append("")
        elif system == "plain":
            cells.append(f"{points:.2f}")
        else:
            cells.append(signed(points - quality["plain"][task]))
    return cells


def dtype_quality() -> str:
    """What 16 bits change in quality: the same models on STS-B and CACM."""
    asked = ("ours", "plain_bf16", "ours_bf16")
    found = [(r["shape"], r["quality"]) for r in _files("slow16") if "quality" in r]
    rows = [
        [
            f"isotrope/{shape}",
            task,
            f"{of['plain'][task]:.2f}",
            *(signed(of[who][task] - of["plain"][task]) for who in asked),
        ]
        for shape, of in found
        for task in of["plain"]
    ]
    return grid(
        ["model", "task", "sentence-transformers, float32", *(SYSTEMS[who] for who in asked)], rows
    )


def methods() -> str:
    """A step of each method over SimCSE's; the last share is the time of evaluating STS-B dev.

    The presets that whiten had one pass when this was measured, and have three now.
    """
    found = _files("methods")
    names = list(found[0]["over_simcse"])
    titles = [
        f"{name}, one pass" if name in ("whitenedcse", "all-three") else name for name in names
    ]
    rows = [
        [
            f"isotrope/{r['shape']}",
            f"{1000 * r['seconds']['simcse']:.0f} ms",
            *(times(r["over_simcse"][name]) for name in names),
            f"{100 * r['selection']['share']:.1f} %",
        ]
        for r in found
    ]
    return grid(
        ["model", "simcse", *titles, f"STS-B dev every {found[0]['selection']['steps']} steps"],
        rows,
    )


def step_costs() -> str:
    """A step of each further preset over SimCSE's, the cheapest first."""
    found: dict[str, Any] = read("performance/zoo-tiny")["over_simcse"]
    rows = [
        [f"`{name}`", times(of)]
        for name, of in sorted(found.items(), key=lambda one: float(one[1]["median"]))
    ]
    return grid(["preset", "time of a step, SimCSE = 1"], rows)


def corpus() -> str:
    """Bytes a line, as a corpus grows; a batch's tokens from the store and from text."""
    found = read("performance/corpus")
    parts = list(found["slope"])
    rows: list[list[object]] = [
        [f"{r['lines']:,}", *(r["bytes_a_line"][part] for part in parts), f"{r['mapped_mb']:,} MB"]
        for r in found["sizes"]
    ]
    rows.append(["growth from first to last", *(found["slope"][part] for part in parts), ""])
    batch = found["tokens"]
    said = f"A batch of 64 sentences: {batch['store']:.2f} ms from the store, {batch['text']:.2f} ms from text."
    return f"{grid(['lines', *parts, 'mapped pages, not counted'], rows)}\n\n{said}"


def memory() -> str:
    """Resident memory of a step, plain and with gradient caching."""
    (found,) = _files("memory")
    rows = [
        [
            f"{r['batch']:,}",
            r["mini_batch_size"] or "all",
            f"{r['above']:,} MB",
            f"{r['peak']:,} MB",
        ]
        for r in found["cases"]
    ]
    return grid(["sentences in a batch", "at a time", "the step takes", "in all, at most"], rows)


def threads() -> str:
    """A step with other numbers of threads, and other ways to wait."""
    found = read("performance/threads")
    over: dict[str, Any] = found["over_one_thread"]
    rows = [
        [name, f"{seconds:.1f} s", times(over[name]) if name in over else ""]
        for name, seconds in found["seconds_a_step"].items()
    ]
    return grid(["threads", "a step", "divided by one thread"], rows)


def cores() -> str:
    """Texts a second by one thread and by more, and the ratio of the last to one thread."""
    found = read("performance/cores")
    results: dict[str, Result] = found["results"]
    counts = list(next(iter(results.values()))["a_second"])
    rows = [
        [
            system,
            *(f"{result['a_second'][count]:,}" for count in counts),
            times(result["times_one_thread"][counts[-1]]),
        ]
        for system, result in results.items()
    ]
    return grid(["system", *(f"{count} thread(s)" for count in counts), "ratio"], rows)


def step_profile() -> str:
    """The share of each part of a step in torch's operators."""
    found = _files("profile")
    rows = [
        [part, *(f"{100 * result['share'].get(part, 0):.1f} %" for result in found)]
        for part in found[0]["share"]
    ]
    return grid(["part", *(f"isotrope/{result['shape']}" for result in found)], rows)


def million() -> str:
    """Each command on a million documents: time, processor time and memory."""
    found = read("performance/million")
    rows = []
    for name in ("encode", "search", "improve"):
        took = found[name]
        rows.append(
            [
                f"`{name}`",
                f"{took['seconds'] / 60:.1f} min",
                f"{took['processor_seconds'] / 60:.1f} min",
                f"{took['peak_mb']:,} MB",
            ]
        )
    return grid(["command", "time", "processor time", "most memory"], rows)


def gpu() -> str:
    """Steps of each method on one GPU, and what a million sentences take."""
    found = read("performance/gpu")
    rows = [
        [
            f"`{r['method']}`",
            r["batch"],
            r["steps_per_second"],
            f"{r['sentences_per_second']:,}",
            f"{r['epoch_minutes']:.1f} min",
            f"{100 * r['model_flop_utilisation']:.1f} %",
        ]
        for r in found["results"]
    ]
    size = (
        f"{found['layers']} layers of {found['width']}, {found['device']}, torch {found['torch']}"
    )
    head = [
        "preset",
        "batch",
        "steps a second",
        "sentences a second",
        "a million sentences",
        "of the peak",
    ]
    return f"{grid(head, rows)}\n\n{size}."
