"""Students of one vector a token: model2vec's, ours before its training, and ours after it.

    python benchmarks/static_peer.py make WORK              # needs: pip install "model2vec[distill]", best in a venv
    python benchmarks/static_peer.py measure WORK DATA      # docs/results/compress/static.json

Their teacher is all-MiniLM-L6-v2, and all have 256 dimensions. Ours is trained on the text of the study `compress`,
with its settings: 20,000 sentences of Wikipedia, three epochs. STS and search are measured as in benchmarks/small.py.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

RESULT = Path(__file__).resolve().parent.parent / "docs" / "results" / "compress" / "static.json"
TEACHER, TEXT, SENTENCES = "isotrope/minilm", "wiki/wiki_train_00.txt.xz", 20_000
PEER = "model2vec"


def make(work: Path) -> None:
    """model2vec's student, with its own defaults; sentence-transformers reads its folder."""
    from importlib.metadata import version

    from model2vec.distill import distill

    from isotrope.encoder.locate import locate

    distill(str(locate(TEACHER)), pca_dims=256).save_pretrained(work / PEER)
    (work / "version.json").write_text(json.dumps(version(PEER)), encoding="utf-8")


def measure(work: Path, data: Path) -> None:
    """Train ours, and measure all three; benchmarks/small.py has measured the teacher."""
    import isotrope
    from isotrope.encoder.student import student_of
    from isotrope.training.processes import environment
    from small import searched, similar

    run = isotrope.compress(
        TEACHER, data / TEXT, student="static", output=work / "ours", sentences=SENTENCES, dev="none",
        overrides=("teachers.teacher.precision=bf16",),
    )  # fmt: skip
    models = {
        PEER: isotrope.load(work / PEER).float(),  # its file has 16 bits
        "static, before training": student_of(isotrope.load(TEACHER), "static"),
        "static": isotrope.load(run.folder / "model"),
    }
    teacher = json.loads((RESULT.parent / "small.json").read_text(encoding="utf-8"))["models"][TEACHER]
    found: dict[str, Any] = {"teacher": teacher}
    found |= {name: similar(model, data) | searched(model, data) for name, model in models.items()}
    version = json.loads((work / "version.json").read_text(encoding="utf-8"))
    record = {"models": found, PEER: version, "environment": environment()}
    RESULT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Make the peer's student, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["make", "measure"])
    parser.add_argument("work", type=Path, help="a folder for the models")
    parser.add_argument("data", type=Path, nargs="?", help="the data folder, to measure")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    if given.what == "make":
        make(given.work)
    else:
        measure(given.work, given.data)


if __name__ == "__main__":
    main()
