"""Every long command, killed at random moments and given again: the same bytes as undisturbed, or a
clear refusal.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import ROOT

COMMANDS = (
    "train",
    "teacher",
    "encode file",
    "encode parts",
    "whiten",
    "improve",
    "study",
    "evaluate",
)


def kill(folder: Path, commands: str, share: float, data: Path | None) -> dict[str, list[str]]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    }
    environment |= {"OMP_NUM_THREADS": "1"} | ({"ISOTROPE_DATA": str(data)} if data else {})
    command = [
        sys.executable,
        str(ROOT / "tests" / "helpers" / "kills.py"),
        str(folder),
        commands,
        str(share),
    ]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


@pytest.mark.slow
def test_a_killed_command_goes_on(tmp_path: Path) -> None:
    """A few kills of those that have no such test of their own."""
    assert kill(tmp_path, "teacher,whiten", 0.2, None) == {"teacher": [], "whiten": []}


@pytest.mark.slow
def test_seventy_kills(tmp_path: Path, data: Path) -> None:
    told = kill(tmp_path, "all", 1.0, data)
    assert set(told) == set(COMMANDS)
    assert not any(told.values()), told
