"""How many threads the command line uses, and how they wait."""

import os
import subprocess
import sys

import pytest
import torch

from isotrope.console import threads


@pytest.fixture(autouse=True)
def _number_as_before(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.delenv(threads.NUMBER, raising=False)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_no_more_threads_than_the_container_may_use_but_the_users_own_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    torch.set_num_threads(4)
    threads.limit_threads()
    told = "2 threads of the processor, for 2 usable cores (OMP_NUM_THREADS sets another number)"
    assert threads.threads_line() == told
    monkeypatch.setenv(threads.NUMBER, "3")
    torch.set_num_threads(3)
    threads.limit_threads()
    assert threads.threads_line() == "3 threads of the processor, as OMP_NUM_THREADS says"


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux")
def test_usable_cores_are_those_of_the_affinity() -> None:
    code = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    code += "from isotrope.console.threads import usable_cores; print(usable_cores())"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"
    )


def test_threads_sleep_while_they_wait_unless_the_user_wants_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Busy waiting makes a step four times as long on shared cores. It must be said before torch is
    loaded.
    """
    code = "import os, sys; from isotrope.cli import main; main._quieten_libraries()\n"
    code += "print(os.environ['OMP_WAIT_POLICY'], 'torch' in sys.modules)"
    for given, expected in ((None, "PASSIVE"), ("active", "active")):
        environment = {key: value for key, value in os.environ.items() if key != "OMP_WAIT_POLICY"}
        environment |= {"OMP_WAIT_POLICY": given} if given else {}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment
        )
        assert done.stdout == f"{expected} False\n", done.stderr
