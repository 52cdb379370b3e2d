"""Kills and then damage: the same call makes the same result, or refuses with one clear line."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from helpers.forks import code, fork
from helpers.hashes import Hashes
from helpers.small_shards import KINDS, contents, stop_at, write
from isotrope.encoding.encode import encode
from isotrope.errors import UserError

LINES = [f"sentence {number}" for number in range(400)]
Damage = Callable[[bytes, random.Random], bytes]


def emptied(data: bytes, draw: random.Random) -> bytes:
    return b""


def truncated(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))] if data else data


def overwritten(data: bytes, draw: random.Random) -> bytes:
    return draw.randbytes(len(data))


def spoiled(data: bytes, draw: random.Random) -> bytes:
    """Some bytes in the middle are others."""
    start = draw.randrange(len(data)) if data else 0
    length = min(draw.randrange(1, 40), len(data) - start)
    return data[:start] + draw.randbytes(length) + data[start + length :]


def misprinted(data: bytes, draw: random.Random) -> bytes:
    """One digit is another: JSON stays JSON."""
    digits = [place for place, byte in enumerate(data) if chr(byte) in "0123456789"]
    if not digits:
        return spoiled(data, draw)
    changed = bytearray(data)
    place = draw.choice(digits)
    changed[place] = ord("0") + (changed[place] - ord("0") + draw.randrange(1, 10)) % 10
    return bytes(changed)


DAMAGES: list[Damage] = [emptied, truncated, overwritten, spoiled, misprinted]


def written(output: Path) -> dict[str, bytes]:
    return contents(output) if output.is_dir() else {output.name: output.read_bytes()}


def encode_lines(file: Path, output: Path, pause: float = 0) -> None:
    encode(Hashes(pause=pause), file, output, shard=40, batch_size=10)


def wait_for_a_file(folder: Path, output: Path) -> None:
    """Until the work has begun to write, or is done: a loaded machine takes long to start it."""
    end = time.monotonic() + 10
    while not (any(folder.rglob("*")) or output.is_file()) and time.monotonic() < end:
        time.sleep(0.001)


def outcome(file: Path, output: Path, expected: dict[str, bytes], draw: random.Random) -> str:
    """Kill an encoding, damage one of its files, and give the call again."""
    parts = output.with_name(f"{output.name}.parts")
    child = fork(partial(encode_lines, file, output, 0.002))
    wait_for_a_file(parts if output.suffix else output, output)
    code(child, draw.uniform(0, 0.1))
    folder = output if output.is_dir() else parts
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    if files:
        path = draw.choice(files)
        path.write_bytes(draw.choice(DAMAGES)(path.read_bytes(), draw))
    try:
        encode_lines(file, output)
    except UserError:
        result = "refused"
    else:
        result = "equal" if written(output) == expected else f"another result after {files}"
    for path in (output, folder):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    return result if files else "nothing to damage"


@pytest.mark.parametrize("count", [16, pytest.param(100, marks=pytest.mark.slow)])
def test_damage_after_a_kill_gives_no_other_result(tmp_path: Path, count: int) -> None:
    file = write(tmp_path / "c.txt", LINES)
    draw = random.Random(count)
    outcomes: Counter[str] = Counter()
    for name in KINDS:
        encode_lines(file, tmp_path / name)
        expected = written(tmp_path / name)
        shutil.rmtree(tmp_path / name) if name == "v" else (tmp_path / name).unlink()
        for _ in range(count // len(KINDS)):
            outcomes[outcome(file, tmp_path / name, expected, draw)] += 1
    assert set(outcomes) <= {"equal", "refused", "nothing to damage"}, outcomes
    assert outcomes["equal"] > count / 3, outcomes
    assert outcomes["nothing to damage"] < count / 3, outcomes


@pytest.mark.parametrize("name", [".isotrope", ".lock", ".job.json", ".parts.jsonl"])
@pytest.mark.parametrize("stop", [80, 400])
def test_files_that_a_loss_of_power_emptied_count_as_missing(
    tmp_path: Path, name: str, stop: int
) -> None:
    """Before and after the end of the work."""
    file = write(tmp_path / "c.txt", LINES)
    encode_lines(file, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        encode(Hashes(), file, tmp_path / "v", shard=40, batch_size=10, progress=stop_at(stop))
    (tmp_path / "v" / name).write_bytes(b"")
    encode_lines(file, tmp_path / "v")
    assert written(tmp_path / "v") == written(tmp_path / "whole")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_of_a_finished_folder_is_made_again(tmp_path: Path, damage: Damage) -> None:
    file = write(tmp_path / "c.txt", LINES)
    encode_lines(file, tmp_path / "v")
    expected = written(tmp_path / "v")
    part = tmp_path / "v" / "part-00003.parquet"
    part.write_bytes(damage(part.read_bytes(), random.Random(0)))
    encoder = Hashes()
    encode(encoder, file, tmp_path / "v", shard=40, batch_size=10)
    assert written(tmp_path / "v") == expected
    assert encoder.calls == 41, "this shard, and the first sentence, which shows the dimension"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_is_written_again(tmp_path: Path, damage: Damage) -> None:
    file = write(tmp_path / "c.txt", LINES)
    encode_lines(file, tmp_path / "v")
    expected = written(tmp_path / "v")
    manifest = tmp_path / "v" / "_manifest.json"
    manifest.write_bytes(damage(manifest.read_bytes(), random.Random(0)))
    encode_lines(file, tmp_path / "v")
    assert written(tmp_path / "v") == expected


def test_parts_of_other_work_are_not_taken(tmp_path: Path) -> None:
    """Without the identity, the parts themselves say which work they belong to."""
    file = write(tmp_path / "c.txt", LINES)
    for seed in (1, 0):
        with pytest.raises(KeyboardInterrupt):
            encode(Hashes(seed), file, tmp_path / "v", shard=40, progress=stop_at(80))
        (tmp_path / "v" / ".job.json").write_bytes(b"")
    encode_lines(file, tmp_path / "v")
    encode_lines(file, tmp_path / "whole")
    assert written(tmp_path / "v") == written(tmp_path / "whole")
