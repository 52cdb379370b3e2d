"""The main job on text that every machine has, offline: train on docstrings, whiten, and tell what is better."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from isotrope.encoder import load
from isotrope.errors import UserError
from isotrope.evaluation.embed import Embedded
from isotrope.evaluation.geometry import alignment, uniformity
from isotrope.evaluation.retrieval import reciprocal_ranks
from isotrope.evaluation.significance import Comparison, compare, compare_means
from isotrope.evaluation.sts import spearman
from isotrope.post.whiten import whiten
from isotrope.quickstart.docstrings import Docstrings, gather
from isotrope.quickstart.similarity import agreement, similarity_pairs
from isotrope.report.run_page import write_report
from isotrope.run.environment import environment
from isotrope.run.train import train
from isotrope.store.atomic import write_text
from isotrope.store.disk import writing
from isotrope.types import Encoder

Vector = npt.NDArray[np.float64]

BACKBONE, PRESET = "isotrope/tiny", "simcse-tiny"
POOLING = "first_last"  # before and after: the preset's, and the backbone's best without training
SETTINGS = (f"encoder.pooling={POOLING}", "train.eval_steps=100", "train.save_steps=100")
POSITIVE = 4.0  # pairs graded at least so are positives of the alignment
RESAMPLES = 2000
LEVEL = 0.05 / 2  # two tests share the 5 % (Bonferroni)
RULE = (
    f"better (worse) where one of the two tests says so with p ≤ {LEVEL:g} and the other one does not say the contrary"
)
TEXT, RESULT = "docstrings.json", "quickstart.json"
STAGES = {"before": "before", "whitened": "whitened", "trained": "trained", "after": "both"}


@dataclass(frozen=True, slots=True)
class Measured:
    """One model on the three measures."""

    reciprocal: Vector  # (Q,) 1 / place of each query's own body, 0 beyond the cutoff
    cosines: Vector  # (N,) of the similarity set's pairs
    alignment: float
    uniformity: float


def quickstart(
    output: str | Path = "isotrope-quickstart",
    *,
    seed: int = 0,
    backbone: str = BACKBONE,
    text: Docstrings | None = None,
    overrides: Iterable[str] = (),
    console: Console | None = None,
) -> dict[str, Any]:
    """Train `backbone` on the docstrings of the installed packages without labels, whiten it, judge it at every stage.

    Called again after a stop or a kill, it goes on; after its end, it gives the same result again.

    Args:
        output: the folder, for the gathered text, `run/` of the training, `model/`, the new one, and `quickstart.json`.
        seed: of the training and of the tests' resamples.
        backbone: the model to begin with.
        text: what was gathered; by default `isotrope.quickstart.docstrings.gather()`.
        overrides: `key=value` over the preset's keys.
        console: where to report; None reports to the terminal.

    Returns:
        What `quickstart.json` holds: `text` (counts), `measures` (`STAGES`, intervals), `verdict`, `seconds`, …

    Raises:
        UserError: the folder holds something else or another seed's result, or too little text is installed.
        Stopped: Ctrl-C while training.
    """
    console, folder = console or Console(), Path(output)
    with writing(folder):
        if (folder / RESULT).is_file():
            return _finished(folder, seed, backbone)
        resumed, model = _resumes(folder), load(backbone, POOLING)
        seconds: dict[str, float] = {}
        began = time.monotonic()
        with _timed(seconds, "gathering"):
            text = Docstrings.read(folder / TEXT) if resumed else _gather(text, folder, console)
            corpus = folder / "sentences.txt"
            corpus.write_text("\n".join(text.sentences) + "\n", encoding="utf-8")
        _say(console, f"{len(text.sentences):,} sentences of {len(text.packages)} packages to train on")
        _say(console, f"{len(text.queries):,} docstrings of {len(text.held_out)} other packages to judge by")
        settings = [*SETTINGS, *overrides]
        with _timed(seconds, "before"), console.status("measuring the model to begin with"):
            found = {"before": measure(model, text)}
        with _timed(seconds, "whitened"), console.status("whitening it, to tell what that gives by itself"):
            found["whitened"] = measure(_whitened(backbone, corpus, folder / "whitened", POOLING), text)
        with _timed(seconds, "training"):
            run = train(
                corpus, output=folder / "run", preset=PRESET, backbone=backbone, dev="none", test="none", seed=seed,
                overrides=settings, resume=True, console=console,
            )  # fmt: skip
        with _timed(seconds, "after"), console.status("whitening and measuring the new model"):
            found["trained"] = measure(load(run.model), text)
            found["after"] = measure(_whitened(run.model, corpus, folder / "model"), text)
        write_report(run.folder, run.folder / "report.html")
        tests = judge(found["before"], found["after"], seed)
        stages = {name: _headline(measured) for name, measured in found.items()}
        result = {
            "backbone": backbone,
            "preset": PRESET,
            "overrides": settings,
            "seed": seed,
            "text": {
                "packages": len(text.packages),
                "held_out_packages": text.held_out,
                "sentences_found": text.found,
                "sentences_shared_with_held_out": text.shared,
                "sentences_trained_on": len(text.sentences),
                "queries": len(text.queries),
            },
            "measures": {
                name: {stage: figures[name] for stage, figures in stages.items()}
                | (_figures(tests[name]) if name in tests else {})
                for name in stages["before"]
            },
            "grading_agreement": agreement(),
            "verdict": verdict(tests),
            "rule": RULE,
            "seconds": {**seconds, "total": time.monotonic() - began},
            "resumed": resumed,  # then the seconds are those of the last call alone
            "peak_memory_mb": peak_memory_mb(),
            "environment": environment(),
        }
        write_text(folder / RESULT, json.dumps(result, indent=2))
        return result


def measure(encoder: Encoder, text: Docstrings) -> Measured:
    """The three measures of anything with `encode()`."""
    pairs = similarity_pairs()
    embedded = Embedded(encoder, [*text.queries, *text.bodies, *pairs.first, *pairs.second])
    close = pairs.gold >= POSITIVE
    first, second = embedded(pairs.first), embedded(pairs.second)
    return Measured(
        reciprocal=reciprocal_ranks(embedded(text.queries), embedded(text.bodies)),
        cosines=embedded.cosines(pairs),
        alignment=alignment(first[close], second[close]),
        uniformity=uniformity(embedded(list(dict.fromkeys([*pairs.first, *pairs.second])))),
    )


def judge(before: Measured, after: Measured, seed: int = 0) -> dict[str, Comparison]:
    """Both tests: retrieval, a paired bootstrap over queries; similarity, a paired bootstrap over pairs."""
    gold = similarity_pairs().gold
    return {
        "retrieval": compare_means(before.reciprocal, after.reciprocal, RESAMPLES, seed),
        "similarity": compare({"": (gold, before.cosines)}, {"": (gold, after.cosines)}, RESAMPLES, seed),
    }


def verdict(tests: Mapping[str, Comparison]) -> str:
    """`RULE`."""
    says = {test.verdict for test in tests.values() if test.p <= LEVEL}
    return says.pop() if len(says) == 1 else "cannot be told"


def tell(result: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Before → after, the verdict and its rule, where things lie, and what to type next."""
    title = "No label was used; the change is from the first to the last"
    shown = Table("", *STAGES.values(), "change", "95 %", box=SIMPLE, title=title)  # fits into 80 columns
    text, measures, agreed = result["text"], result["measures"], result["grading_agreement"]["spearman"]
    what = {
        "retrieval": f"MRR@10 × 100 of a docstring's body by its first sentence, {text['queries']:,} queries",
        "similarity": f"Spearman × 100 on 330 graded pairs (the two graders: {100 * agreed:.1f})",
        "alignment": "of pairs graded 4 or more, lower is better",
        "uniformity": "of the pairs' sentences, lower is better",
    }
    for name in what:
        scale, digits = (100, 2) if "p" in measures[name] else (1, 3)
        m = {key: f"{scale * value:.{digits}f}" for key, value in measures[name].items()}
        change = f"{scale * (measures[name]['after'] - measures[name]['before']):+.{digits}f}"
        interval = f"{float(m['low']):+.2f} … {float(m['high']):+.2f}" if "low" in m else ""
        shown.add_row(name, *(m[stage] for stage in STAGES), change, interval)
    console.print(shown)
    for name, said in what.items():
        p = f"; p {measures[name]['p']:.3g}" if "p" in measures[name] else ""
        _say(console, f"{name}: {said}{p}")
    minutes, memory = divmod(round(result["seconds"]["total"]), 60), result["peak_memory_mb"]
    _say(console, f"verdict: {result['verdict']}\n(the rule: {RULE})")
    _say(console, f"took {minutes[0]} min {minutes[1]} s" + (f", at most {memory:,} MB of memory" if memory else ""))
    _say(
        console,
        f"model:  {folder / 'model'}\nreport: {folder / 'run' / 'report.html'}\nresult: {folder / RESULT}",
    )
    _say(console, "your own text, a sentence a line, and your own model:")
    _say(console, "  isotrope train YOUR-TEXT.txt --backbone YOUR-MODEL --output runs/mine [--dev YOUR-PAIRS.tsv]")
    _say(console, "  isotrope whiten runs/mine/model YOUR-TEXT.txt --output runs/whitened")


def peak_memory_mb() -> int | None:
    """The most memory that this process held so far; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # pragma: no cover  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))


def _whitened(model: str | Path, corpus: Path, output: Path, pooling: str | None = None) -> Encoder:
    """The model with whitening as its last layer, fitted on the text."""
    shutil.rmtree(output, ignore_errors=True)  # which an earlier call may have begun
    encoder: Encoder = load(whiten(model, corpus, output, pooling=pooling))
    return encoder


def _headline(measured: Measured) -> dict[str, float]:
    """A model's four figures."""
    return {
        "retrieval": float(measured.reciprocal.mean()),
        "similarity": spearman(similarity_pairs().gold, measured.cosines),
        "alignment": measured.alignment,
        "uniformity": measured.uniformity,
    }


def _gather(text: Docstrings | None, folder: Path, console: Console) -> Docstrings:
    if text is None:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("reading docstrings of the installed packages", total=None)
            text = gather(progress=lambda done, all_: bar.update(task, completed=done, total=all_))
    text.write(folder / TEXT)
    return text


def _resumes(folder: Path) -> bool:
    """Whether an earlier call began here; what is not ours is left alone."""
    if (folder / TEXT).is_file():
        return True
    if any(path.suffix != ".part" for path in folder.iterdir()):  # which a kill may have left
        raise UserError(f"{folder} is not empty and holds no quickstart", "choose a new --output")
    return False


def _finished(folder: Path, seed: int, backbone: str) -> dict[str, Any]:
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        began = {"seed": result["seed"], "backbone": result["backbone"]}
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{folder / RESULT} is damaged", "delete it, or choose another --output") from None
    if began != {"seed": seed, "backbone": backbone}:
        raise UserError(f"{folder} holds a result of {began}", "choose another --output")
    return result  # type: ignore[no-any-return]


def _figures(test: Comparison) -> dict[str, float]:
    figures = asdict(test)
    return {name: figures[name] for name in ("before", "after", "difference", "low", "high", "p", "resamples")}


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = time.monotonic() - began


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)
