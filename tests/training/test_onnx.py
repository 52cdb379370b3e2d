"""A model as an ONNX graph: the same vectors without torch, or nothing is written."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from typer.testing import CliRunner

from helpers.refusals import refused
from helpers.words import sentences
from isotrope import load
from isotrope.cli.main import app
from isotrope.encoder import save
from isotrope.post.ranking_map import with_map
from isotrope.training import onnx

pytest.importorskip("onnxruntime")
# one token, some, and more than the model reads
TEXT = ["a", *sentences(5), " ".join(sentences(40))]


@pytest.fixture(scope="module")
def source(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved model with everything that a graph has to hold: an average of layers, normalisation,
    a prompt.
    """
    encoder = load(tiny_model, "first_last", normalize=True, max_length=40, device="cpu")
    encoder.prompts, encoder.default_prompt_name = {"query": "the river "}, "query"
    card = "---\nlicense: cc0-1.0\n---\n# mine"
    save(encoder, folder := tmp_path_factory.mktemp("source") / "model", card=card)
    return folder


@pytest.fixture(scope="module")
def exported(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("onnx") / "graph"
    done = CliRunner().invoke(app, ["export", str(source), "--output", str(folder)])
    assert done.exit_code == 0, done.output
    return folder


def test_the_snippet_of_the_card_gives_the_same_vectors_without_torch(
    exported: Path, source: Path
) -> None:
    snippet = (exported / "README.md").read_text().split("```python\n")[1].split("```")[0]
    without = "import sys\nsys.modules |= dict.fromkeys(['torch', 'transformers', 'sentence_transformers'])\n"
    asked = f"import json\nprint(json.dumps(encode(json.loads({json.dumps(TEXT)!r})).tolist()))\n"
    script = without + snippet.replace("path/to/this/folder", str(exported)) + asked
    expected = load(source, device="cpu").encode(TEXT)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    first, found = done.stdout.splitlines()
    assert first == "(2, 32)"
    cosines = (np.array(json.loads(found)) * expected).sum(1)
    assert cosines.min() > 1 - 1e-6


def test_the_route_of_queries_is_a_graph_of_its_own(tiny_model: Path, tmp_path: Path) -> None:
    """As a query map makes it, behind a prompt. Without a role, the map would be lost."""
    model = load(tiny_model, normalize=True, device="cpu")
    model.prompts = {"query": "the river "}
    mapped = with_map(model, 0.1 * np.random.default_rng(0).normal(size=(32, 32)))
    save(mapped, tmp_path / "map")
    for role, problem in (
        (None, "two-routes"),
        ("queries", "unknown-name"),
    ):
        with refused(problem):
            onnx.export_onnx(tmp_path / "map", tmp_path / "none", role=role)
    folder = onnx.export_onnx(tmp_path / "map", tmp_path / "query", role="query")
    assert "| for | queries |" in (folder / "README.md").read_text()
    found = onnx.run_onnx(
        folder / onnx.GRAPH, TEXT, json.loads((folder / "export.json").read_text())["prompt"]
    )
    np.testing.assert_allclose(found, mapped.encode_query(TEXT), atol=1e-5)


def test_the_folder_says_what_it_is(exported: Path, source: Path) -> None:
    facts = json.loads((exported / "export.json").read_text())
    assert (facts["max_length"], facts["dimensions"]) == (40, 32)
    card = (exported / "README.md").read_text()
    assert card.count("license: cc0-1.0") == 2, "in the head, and in the record"
    assert str(source.parent) not in card


def test_a_graph_that_gives_other_vectors_is_not_kept(
    exported: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        onnx, "_write_graph", lambda *given: shutil.copy(exported / onnx.GRAPH, given[-1])
    )
    with refused("graph-differs"):
        onnx.export_onnx(source, tmp_path / "out", pooling="cls")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_one_line_before_any_work(
    source: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(onnx, "_write_graph")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("keep me")
    with refused("folder-is-not-ours"):
        onnx.export_onnx(source, tmp_path / "mine")
    words = StaticEmbedding(load(tiny_model).tokenizer.backend_tokenizer, embedding_dim=32)
    static = SentenceTransformer(modules=[words], device="cpu")
    monkeypatch.setattr(onnx, "load", lambda *_, **__: static)
    with refused("no-graph"):
        onnx.export_onnx("static", tmp_path / "out")
    encoder = load(tiny_model, "mean", device="cpu")
    encoder[1].include_prompt = False
    monkeypatch.setattr(onnx, "load", lambda *_, **__: encoder)
    with refused("no-graph"):
        onnx.export_onnx("prompted", tmp_path / "out")
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with refused("package-missing", "onnxscript"):
        onnx.export_onnx(source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
