"""The card of a model: what it says, what it never says, and that it goes on from the card before."""

import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.locate import Base
from isotrope.evaluation.verdict import Verdict
from isotrope.report.card import Card, Data, Step, graph_card, save_card
from isotrope.report.comparison import COMPARED
from isotrope.report.tables import Table

EVIL = 'a|b`c``[x](y)<img src=x>*_\n\x1b[31m\u202e\udcff# {{ 7 * 7 }} --- "'
STEP = Step(
    action="Trained with",
    method="simcse",
    data=Data(name="notes.txt", rows=1234, used=1000, checksum="0a1b"),
    settings=[("train.epochs", "1.0", "SimCSE Appendix A")],
    cites=["gao2021simcse"],
    limits=["In training it saw at most 32 tokens of a text."],
)
VERDICT = Verdict(
    "worse", "tiny with mean pooling", "the new model", "50 graded pairs", "Spearman × 100", (0.7, 0.69), -0.01, -0.02,
    -0.001, 0.01, "Keep tiny.",
)  # fmt: skip
FACTS: dict[str, Any] = {
    "model": "mine", "dimensions": 8, "max_length": 64, "prompt": "", "prompts": {"query": "find: "},
    "largest_difference": 2e-6, "versions": {"torch": "2.13.0"},
}  # fmt: skip
ROWS = [["pairs", "70.00", "69.00", "−1.00", "−2.00 … −0.10", "0.01", "worse"]]
EVIDENCE = Table("", ["", *COMPARED], ROWS, notes=["On 50 pairs.", "By a bootstrap."])


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> SentenceTransformer:
    return load(tiny_model, "mean", device="cpu")


@pytest.fixture
def folder(encoder: SentenceTransformer, tmp_path: Path) -> Path:
    """A saved model with a card."""
    save(encoder, tmp_path / "mine")
    save_card(tmp_path / "mine", Card.of("isotrope/tiny").then(STEP, encoder))
    return tmp_path / "mine"


def test_it_says_what_the_model_is_and_how_it_was_made_and_the_hub_can_read_it(
    folder: Path,
) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    for words in (
        "`notes.txt`",
        "1,000 of 1,234",
        "`0a1b`",
        "| `train.epochs` | `1.0` | SimCSE Appendix A |",
        "a vector of 32 numbers",
        "at most 32 tokens",
        "first 64 tokens",
        "**Not judged.**",
        "`apache-2.0`",
        "@inproceedings{gao2021simcse,",
        "@software{isotrope,",
        f"torch {version('torch')}",
    ):
        assert words in text, words
    found = ModelCard.load(folder / "README.md").data.to_dict()
    assert (
        found.items()
        >= {
            "license": "apache-2.0",
            "base_model": "isotrope/tiny",
            "library_name": "sentence-transformers",
            "pipeline_tag": "sentence-similarity",
        }.items()
    )
    assert {"sentence-transformers", "isotrope"} <= set(found["tags"])
    assert "widget" not in found


def test_its_snippet_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    snippet = re.search(
        r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert snippet is not None
    monkeypatch.chdir(folder.parent)
    exec(compile(snippet[1], "card", "exec"), {})
    assert "(2, 32)" in capsys.readouterr().out


def test_a_verdict_renews_the_card_and_a_further_step_leaves_it(
    folder: Path, encoder: SentenceTransformer
) -> None:
    save_card(folder, Card.of(folder).judged(VERDICT, EVIDENCE))
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "## Is it better than tiny with mean pooling?" in text
    assert (
        "**worse**: 70.00 → 69.00 Spearman × 100, −1.00 (95 % interval −2.00 to −0.10), judged by 50 graded pairs. "
        "Keep tiny. On 50 pairs. By a bootstrap."
    ) in text
    assert "| `pairs` | 70.00 | 69.00 | −1.00 | −2.00 … −0.10 | 0.01 | worse |" in text
    assert "Not judged" not in text
    assert "`notes.txt`" in text
    assert Card.of(folder).verdict == VERDICT
    further = STEP.model_copy(update={"method": "BERT-whitening", "cites": ["su2021whitening"]})
    card = Card.of(folder).then(further, encoder)
    text = card.markdown(folder.parent / "whitened")
    assert card.base.name == "isotrope/tiny"
    assert card.verdict is None
    assert text.index("### 1. Trained with `simcse`") < text.index(
        "### 2. Trained with `BERT-whitening`"
    )
    assert text.index("gao2021simcse") < text.index("su2021whitening")


@pytest.mark.parametrize("record", ["isotrope: 3", "isotrope: {base: {name: x}, steps: [1]}"])
def test_a_damaged_record_is_no_record(folder: Path, record: str) -> None:
    (folder / "README.md").write_text(f"---\nlicense: mit\n{record}\n---\n# x")
    card = Card.of(folder)
    assert (card.base.name, card.base.about, card.steps) == ("mine", {"license": "mit"}, ())


def check_no_markup(text: str, bars: set[int]) -> None:
    """Nothing opens a link or a tag, no template is run, and no cell ends early; snippets are code."""
    assert not re.search("[\x00-\x08\x1b\u202e\ud800-\udfff]", text)
    body = re.sub(r"```python.*?```", "", text.split("\n---\n", 1)[1], flags=re.DOTALL)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", body)).replace(
        version("torch"), ""
    )
    assert not re.search(r"<img|\[x\]\(|49", outside)
    rows = [line.replace(r"\|", "") for line in body.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} <= bars


def test_names_are_never_markup(encoder: SentenceTransformer, tmp_path: Path) -> None:
    """The card is read back whole, names have no control characters, and nothing opens a link or a
    tag.
    """
    evil = Step(
        action="Trained with",
        method=EVIL,
        data=Data(name=EVIL, rows=1, used=1, checksum=EVIL),
        settings=[(EVIL, EVIL, EVIL)],
        limits=[EVIL],
    )
    verdict = replace(VERDICT, before=EVIL, after=EVIL, judge=EVIL, advice=EVIL)
    card = Card.of("isotrope/tiny").then(evil, encoder)
    save_card(tmp_path, card.judged(verdict, Table("", ["", EVIL], [[EVIL, EVIL]], notes=[EVIL])))
    check_no_markup((tmp_path / "README.md").read_text(encoding="utf-8"), bars={3, 4})
    evil_facts = {"model": EVIL, "prompts": {EVIL: EVIL}, "prompt": EVIL}
    check_no_markup(graph_card(FACTS | evil_facts, Card(base=Base(name=EVIL))), bars={3})
    assert Card.of(tmp_path / "none").steps == ()
    (tmp_path / "config.json").write_text("{}")  # so that the folder counts as a model
    assert len(Card.of(tmp_path).steps) == 1


def test_paths_are_not_told(tmp_path: Path) -> None:
    paths: list[Any] = [tmp_path / f"{name}.txt" for name in "abcde"]
    assert Data.of(paths, 1, 1, "x").name == "a.txt, b.txt, c.txt and 2 more"
    assert str(tmp_path) not in Card.of(tmp_path / "model").markdown(tmp_path / "new")


BASE = Base(name="their/model", hub="their/model", about={"license": "mit", "language": "en"})


def test_the_card_of_a_graph_says_what_the_card_of_the_model_says() -> None:
    text = graph_card(FACTS, Card(base=BASE, steps=[STEP], max_length=64).judged(VERDICT, EVIDENCE))
    head = yaml.safe_load(text.split("---\n")[1])
    assert {key: head[key] for key in ("license", "language", "base_model", "library_name")} == {
        "license": "mit",
        "language": "en",
        "base_model": "their/model",
        "library_name": "onnx",
    }
    for words in (
        "`notes.txt`",
        "**worse**: 70.00",
        STEP.limits[0],
        "first 64 tokens",
        "@inproceedings{gao2021simcse,",
        "@software{isotrope,",
        "licence of the base model | `mit`",
    ):
        assert words in text, words


def test_the_card_of_a_graph_says_no_more_than_is_known() -> None:
    """A model as it came is neither better nor trained; a default prompt is in the snippet."""
    text = graph_card(FACTS, Card(base=BASE))
    for words in (
        "encode_batch(texts)",
        "licence of the base model | `mit`",
        "2e-06 of a vector's length",
        "| prompt `query` | `'find: '`: put it before each text |",
    ):
        assert words in text, words
    for words in ("Is it better", "licence of the text", "\n\n\n#"):
        assert words not in text, words
    text = graph_card(FACTS | {"prompt": "find: "}, Card(base=BASE))
    assert "encode_batch(['find: ' + text for text in texts])" in text
    assert "as the snippet does" in text
    assert "{folder}/model.onnx" in text
