"""What it costs to encode very many texts: seconds, bytes and money, from our measurements.

python tools/scale.py 100_000_000 --model small --cores 64 --price 2.5
"""

import argparse
from typing import NamedTuple

from grid import grid, read

MODELS = ("small", "minilm")
WIDTH, NUMBER = 384, 4  # of their vectors, and bytes of a float32
CORES, PRICE = 64, 2.5  # an example: cores of a machine, and its price an hour in any currency
SIZES = [10**power for power in range(6, 10)]


class Cost(NamedTuple):
    """Of one job."""

    hours: float  # of one machine
    price: float
    vectors: float  # bytes
    training: float  # bytes of memory that a training on as many lines needs for its corpus


def line_of(small: tuple[int, float], large: tuple[int, float]) -> tuple[float, float]:
    """Two runs (lines, seconds) -> seconds to start, and seconds a line."""
    each = (large[1] - small[1]) / (large[0] - small[0])
    return small[1] - small[0] * each, each


def cost(lines: int, model: str, cores: int = CORES, price: float = PRICE) -> Cost:
    """With as many processes as cores, each as fast as a single one."""
    speed, corpus = read(f"performance/encode-{model}"), read("performance/corpus")
    hours = lines / (speed["sentences_a_second"]["ours"] * cores) / 3600
    a_line = sum(corpus["slope"][of] for of in ("opening", "training"))
    return Cost(hours, hours * price, lines * WIDTH * NUMBER, lines * a_line)


def scale_checked() -> str:
    """The largest run, predicted from the two smaller ones."""
    found = read("performance/engines")
    runs = [(of["lines"], of["seconds"]) for of in found["one"]]
    start, each = line_of(*runs[:2])
    rows = []
    for (count, seconds), of in zip(runs, found["one"], strict=True):
        guess = start + count * each
        fitted = count < runs[2][0]
        guesses = ["", ""] if fitted else [f"{guess:,.0f}", f"{100 * (guess / seconds - 1):+.0f} %"]
        rows.append([f"{count:,}", f"{seconds:,.0f}", *guesses, f"{of['memory_mb']:,.0f}"])
    ray, (low, middle, high) = found["ray"], found["ratio"]
    return f"""{grid(["lines", "seconds", "predicted", "off by", "memory of the command, MB"], rows)}

Two Ray workers wrote {"the same bytes" if found["equal"] else "other bytes"} for the {ray["lines"]:,} lines in \
{ray["seconds"]:,.0f} seconds, although one of them was killed in the
middle. On {runs[1][0]:,} lines they are {middle:.2f} times as fast as one process with two threads \
({low:.2f} … {high:.2f} in three rounds)."""


def scale_costs() -> str:
    """A row a size, with isotrope/small on the machine of the example."""
    rows = []
    for count in SIZES:
        of = cost(count, "small")
        rows.append(
            [
                f"{count:,}",
                f"{of.hours:,.2f}",
                f"{of.price:,.2f}",
                f"{of.vectors / 1e9:,.1f}",
                f"{of.training / 1e9:,.2f}",
            ]
        )
    return grid(
        ["texts", "hours", "price", "vectors, GB", "corpus in memory, in training, GB"], rows
    )


def main() -> None:
    """Print one job's cost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lines", type=int)
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--price", type=float, default=PRICE, help="of the machine, an hour")
    given = parser.parse_args()
    of = cost(given.lines, given.model, given.cores, given.price)
    print(f"{of.hours:,.2f} hours, price {of.price:,.2f}, vectors {of.vectors / 1e9:,.2f} GB")
    print(f"to train on these lines, the corpus needs {of.training / 1e9:,.3f} GB of memory")


if __name__ == "__main__":
    main()
