"""How much memory a model needs, told by a process of its own."""

from pathlib import Path

import numpy as np
import pytest

from conftest import sentences
from isotrope.compression.cost import peak_memory
from isotrope.compression.memory import encode_alone, growth


def test_growth_is_what_the_work_holds_at_its_peak() -> None:
    """Also of what is given back before its end."""
    size = 200 * 2**20
    found = growth(lambda: np.ones(size // 8).sum())
    assert 0.8 * size < found < 1.5 * size
    assert growth(lambda: None) < 0.1 * size


def test_a_model_is_loaded_and_encodes(tiny_model: Path) -> None:
    assert growth(lambda: encode_alone(str(tiny_model), sentences(4))) >= 0


@pytest.mark.slow
def test_a_new_process_tells_its_growth(tiny_model: Path) -> None:
    found = peak_memory(str(tiny_model), sentences(4))
    assert found is not None
    assert 0 < found < 2**31
