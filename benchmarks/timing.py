"""Interleaved timing: systems take turns, so that whatever else a machine does meets them alike."""

import json
import lzma
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class _Clock:
    """Seconds since some moment: of the wall, or those that this process's one thread has computed."""

    cpu_time = False

    @property
    def name(self) -> str:
        """For the record."""
        return "processor time of one thread" if self.cpu_time else "wall"

    def __call__(self) -> float:
        return time.process_time() if self.cpu_time else time.perf_counter()


clock = _Clock()
System = Callable[[int], float]  # the number of the repetition -> seconds a step


def interleave(systems: Mapping[str, System], repetitions: int) -> dict[str, list[float]]:
    """Name -> seconds of every repetition, after one that warms up and is not counted; the order
    turns each time.
    """
    names = list(systems)
    times: dict[str, list[float]] = {name: [] for name in names}
    for repetition in range(repetitions + 1):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            seconds = systems[name](repetition)
            if repetition:
                times[name].append(seconds)
    return times


def ratio(times: Mapping[str, list[float]], over: str, under: str) -> dict[str, float]:
    """The ratio within a repetition: median, and the quartiles as its spread."""
    ratios = [a / b for a, b in zip(times[over], times[under], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": round(middle, 3), "low": round(low, 3), "high": round(high, 3)}


def lines(path: Path, count: int) -> list[str]:
    """The first ``count`` lines of a text file, compressed (.xz) or not."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as file:
        found = [line.strip() for line, _ in zip(file, range(count), strict=False)]
    if len(found) < count:
        raise SystemExit(f"{path} has {len(found)} lines; {count} are needed")
    return found


def show(result: dict[str, Any], output: Path | None) -> None:
    """Print the result as JSON, and write it."""
    text = json.dumps(result, indent=2)
    print(text)
    if output is not None:
        output.write_text(text + "\n", encoding="utf-8")
