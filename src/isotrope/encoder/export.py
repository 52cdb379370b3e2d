"""Save an encoder so that plain sentence-transformers, version 5 or 6, loads it with equal embeddings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from sentence_transformers import SentenceTransformer

# sentence-transformers 6 writes module paths that version 5 does not have; the older names load in both.
CLASSIC = "sentence_transformers.models."


def save(model: SentenceTransformer, folder: Path) -> None:
    """Write ``model`` to ``folder`` (safetensors), whole or not at all: beside it first, then renamed."""
    draft = folder.with_name(folder.name + ".part")
    shutil.rmtree(draft, ignore_errors=True)
    model.save_pretrained(str(draft), create_model_card=False)
    listing = draft / "modules.json"
    modules = json.loads(listing.read_text())
    for module in modules:
        if module["type"].startswith("sentence_transformers."):
            module["type"] = CLASSIC + module["type"].rsplit(".", 1)[-1]
    listing.write_text(json.dumps(modules, indent=2))
    shutil.rmtree(folder, ignore_errors=True)
    draft.rename(folder)
