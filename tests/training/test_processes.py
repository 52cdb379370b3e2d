"""RANK and WORLD_SIZE that do not fit together are one line, whoever set them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch.distributed as distributed

from isotrope.errors import UserError
from isotrope.training.processes import leave, process_count, process_number, refuse_several

WHOLE = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "here", "MASTER_PORT": "1"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in WHOLE:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "given",
    [
        {"RANK": "1"}, {"RANK": "abc"}, {"RANK": "-1"}, {"RANK": ""}, {"WORLD_SIZE": "0"}, {"WORLD_SIZE": "two"},
        {"WORLD_SIZE": "2"}, WHOLE | {"RANK": "2"}, {k: v for k, v in WHOLE.items() if k != "MASTER_PORT"},
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError, match="unset RANK and WORLD_SIZE, or start with isotrope train --processes N"):
        process_number()


def test_one_process_and_several(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (process_number(), process_count()) == (0, 1)
    refuse_several("compress")
    for name, value in WHOLE.items():
        monkeypatch.setenv(name, value)
    assert (process_number(), process_count()) == (1, 2)
    with pytest.raises(UserError, match="compress needs one process, not 2: start it without a launcher"):
        refuse_several("compress")


@pytest.mark.parametrize("failed", [False, True])
def test_a_group_that_is_left_is_gone(failed: bool, tmp_path: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    leave(failed=failed)
    assert not distributed.is_initialized()
    leave(failed=failed)  # there is nothing left to leave
