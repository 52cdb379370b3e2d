"""One finished quickstart that the tests of this room look at, and never change."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import run

from isotrope.quickstart.docstrings import Docstrings, gather, installed
from packages import build_site


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Docstrings:
    site, stdlib = build_site(tmp_path_factory.mktemp("machine"), packages=24)
    return gather(installed([str(site)], stdlib), limit=240)


@pytest.fixture(scope="session")
def finished(tiny_model: Path, text: Docstrings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quick") / "start"
    run(folder, tiny_model, text)
    return folder
