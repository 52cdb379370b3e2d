"""The notebooks of ``examples/`` run from top to bottom, here on small settings."""

import json
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import ROOT
from helpers.words import sentences

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def is_parameters(cell: dict[str, Any]) -> bool:
    return "parameters" in cell["metadata"].get("tags", [])


def run(name: str, **parameters: Any) -> dict[str, Any]:
    """Run a notebook in this process -> its variables. ``parameters`` replace those of its first
    cell.
    """
    variables: dict[str, Any] = {"__name__": "notebook"}
    for cell in code_cells(ROOT / "examples" / name):
        exec(compile("".join(cell["source"]), name, "exec"), variables)
        if is_parameters(cell):
            assert parameters.keys() <= variables.keys(), "the cell has no such parameter"
            variables |= parameters
    return variables


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of the test's own, where a notebook writes."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_a_notebook_begins_with_its_settings_and_holds_no_output(notebook: Path) -> None:
    first, *others = code_cells(notebook)
    assert is_parameters(first)
    assert not any(map(is_parameters, others))
    assert all(cell["outputs"] == [] for cell in (first, *others))


def test_a_better_model_for_my_documents(tiny_model: Path) -> None:
    documents = [" ".join(sentences(6, seed=i)) for i in range(140)]
    variables = run("better_model.ipynb", MODEL=str(tiny_model), DOCUMENTS=documents, MINUTES=0.3)
    assert variables["result"].verdict.word in ("better", "no difference found")
    assert Path("better.html").is_file()
    assert variables["query_vectors"].shape == (1, 32)


def test_a_method_from_a_paper(tiny_model: Path, pairs_file: Path) -> None:
    settings = ["train.batch_size=16", "train.epochs=1"]
    variables = run(
        "method_from_a_paper.ipynb",
        MODEL=str(tiny_model),
        TEXTS=sentences(64),
        PAIRS=pairs_file,
        SETTINGS=settings,
    )
    for method in ("simcse", "rankcse"):
        assert str(variables[method].verdict)


def test_a_component_of_my_own(tiny_model: Path) -> None:
    variables = run("own_component.ipynb", MODEL=str(tiny_model), TEXTS=sentences(64), STEPS=2)
    assert variables["trainer"].state.global_step == 2
