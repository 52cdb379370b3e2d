"""What a run ran on: versions and devices, nothing of the machine's owner."""

from __future__ import annotations

import getpass
import json
import os
import platform
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from isotrope.training import environment as module
from isotrope.training.environment import PACKAGES, environment


def test_versions_are_those_that_are_installed() -> None:
    found = environment()
    assert found["packages"] == {package: version(package) for package in PACKAGES}
    assert found["python"] == platform.python_version()
    assert found["threads"] == torch.get_num_threads()
    assert json.loads(json.dumps(found)) == found


def test_a_package_that_is_missing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGES", (*PACKAGES, "no-such-package-of-isotrope"))
    assert environment()["packages"]["no-such-package-of-isotrope"] is None


def test_no_path_and_no_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "my-own-machine")
    monkeypatch.setattr(getpass, "getuser", lambda: "somebody")
    monkeypatch.setenv("ISOTROPE_DATA", "/somewhere/of/mine")
    text = json.dumps(environment())
    for secret in ("my-own-machine", "somebody", "/somewhere", f"{Path.home()}{os.sep}", f"{Path.cwd()}{os.sep}"):
        assert secret == "//" or secret not in text


@pytest.mark.parametrize(("given", "expected"), [(None, 1), ("4", 4)])
def test_processes_are_those_of_the_launcher(given: str | None, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if given:
        monkeypatch.setenv("WORLD_SIZE", given)
    assert environment()["processes"] == expected
