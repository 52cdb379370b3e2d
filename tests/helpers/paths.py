"""Where the project is, and where its data are."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ISOTROPE_DATA") or ROOT.parent / "shared" / "data")
