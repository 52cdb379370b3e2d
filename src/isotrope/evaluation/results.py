"""The types of what evaluations give."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Result: TypeAlias = dict[str, Any]  # of one task: fractions and counts, ready for JSON
Results: TypeAlias = dict[str, Any]  # task -> its result
Indices: TypeAlias = npt.NDArray[np.int64]  # rows of something: (N,)
