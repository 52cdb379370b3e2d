"""The card of a model: what it says, what it never says, and that it goes on from the card before."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard
from sentence_transformers import SentenceTransformer

from isotrope import load
from isotrope.cards.card import Card, Data, Step, save_card
from isotrope.cards.verdict import COMPARED, Judgement
from isotrope.encoder import save

EVIL = 'a|b`c``[x](y)<img src=x>*_\n\x1b[31m\u202e\udcff# {{ 7 * 7 }} --- "'
STEP = Step(
    action="Trained with",
    method="simcse",
    data=Data(name="notes.txt", rows=1234, used=1000, checksum="0a1b"),
    settings=[("train.epochs", "1.0", "SimCSE Appendix A")],
    cites=["gao2021simcse"],
    limits=["In training it saw at most 32 tokens of a text."],
)
VERDICT = Judgement(
    word="worse", advice="keep the old one", how="On 50 pairs.", header=["", *COMPARED],
    rows=[["pairs", "1.00", "0.00", "−1.00", "−2.00 … −0.10", "0.01", "worse"]],
)  # fmt: skip


@pytest.fixture(scope="module")
def encoder(tiny_model: Path) -> SentenceTransformer:
    return load(tiny_model, "mean", device="cpu")


@pytest.fixture
def folder(encoder: SentenceTransformer, tmp_path: Path) -> Path:
    """A saved model with a card."""
    save(encoder, tmp_path / "mine")
    save_card(tmp_path / "mine", Card.of("isotrope/tiny").then(STEP, encoder))
    return tmp_path / "mine"


def test_it_says_what_the_model_is_and_how_it_was_made(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    for words in ("`notes.txt`", "1,000 of 1,234", "`0a1b`", "| `train.epochs` | `1.0` | SimCSE Appendix A |",
                  "a vector of 32 numbers", "at most 32 tokens", "first 64 tokens", "**Not judged.**", "`apache-2.0`",
                  "@inproceedings{gao2021simcse,", "@software{isotrope,", f"torch {version('torch')}"):  # fmt: skip
        assert words in text, words


def test_its_head_is_what_the_hub_reads(folder: Path) -> None:
    found = ModelCard.load(folder / "README.md").data.to_dict()
    assert found["license"] == "apache-2.0"
    assert found["base_model"] == "isotrope/tiny"
    assert found["library_name"] == "sentence-transformers"
    assert found["pipeline_tag"] == "sentence-similarity"
    assert {"sentence-transformers", "isotrope"} <= set(found["tags"])
    assert "widget" not in found


def test_its_snippet_runs(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    snippet = re.search(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert snippet is not None
    monkeypatch.chdir(folder.parent)
    exec(compile(snippet[1], "card", "exec"), {})
    assert "(2, 32)" in capsys.readouterr().out


def judge(folder: Path, verdict: Judgement) -> None:
    save_card(folder, Card.of(folder).model_copy(update={"verdict": verdict}))


def test_a_verdict_renews_the_card(folder: Path) -> None:
    judge(folder, VERDICT)
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "**worse**: keep the old one. On 50 pairs." in text
    assert "| `pairs` | 1.00 | 0.00 | −1.00 | −2.00 … −0.10 | 0.01 | worse |" in text
    assert "Not judged" not in text
    assert "`notes.txt`" in text


def test_a_further_step_goes_on_from_the_card_before_and_leaves_its_verdict(
    folder: Path, encoder: SentenceTransformer
) -> None:
    judge(folder, VERDICT)
    further = STEP.model_copy(update={"method": "BERT-whitening", "cites": ["su2021whitening"]})
    card = Card.of(folder).then(further, encoder)
    text = card.markdown(folder.parent / "whitened")
    assert card.base.name == "isotrope/tiny"
    assert card.verdict is None
    assert text.index("### 1. Trained with `simcse`") < text.index("### 2. Trained with `BERT-whitening`")
    assert text.index("gao2021simcse") < text.index("su2021whitening")


@pytest.mark.parametrize("record", ["isotrope: 3", "isotrope: {base: {}}", "isotrope: {base: {name: x}, steps: [1]}"])
def test_a_damaged_record_is_no_record(folder: Path, record: str) -> None:
    (folder / "README.md").write_text(f"---\nlicense: mit\n{record}\n---\n# x")
    card = Card.of(folder)
    assert (card.base.name, card.base.about, card.steps) == ("mine", {"license": "mit"}, ())


def test_names_are_never_markup(encoder: SentenceTransformer, tmp_path: Path) -> None:
    """The card is read back whole, names have no control characters, and nothing opens a link or a tag."""
    evil = Step(action="Trained with", method=EVIL, data=Data(name=EVIL, rows=1, used=1, checksum=EVIL),
                settings=[(EVIL, EVIL, EVIL)], limits=[EVIL])  # fmt: skip
    verdict = Judgement(word=EVIL, advice=EVIL, how=EVIL, header=["", EVIL], rows=[[EVIL, EVIL]])
    card = Card.of("isotrope/tiny").then(evil, encoder)
    save_card(tmp_path, card.model_copy(update={"verdict": verdict}))
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x1b\u202e\ud800-\udfff]", text)
    body = text.split("\n---\n", 1)[1]
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", re.sub(r"\\.", "", body))
    assert "<img" not in outside
    assert "[x](" not in outside
    assert "49" not in outside.replace(version("torch"), "")
    rows = [re.sub(r"\\\|", "", line) for line in body.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} <= {3, 4}
    assert Card.of(tmp_path / "none").steps == ()
    (tmp_path / "config.json").write_text("{}")  # so that the folder counts as a model
    assert len(Card.of(tmp_path).steps) == 1


def test_paths_are_not_told(tmp_path: Path) -> None:
    paths: list[Any] = [tmp_path / f"{name}.txt" for name in "abcde"]
    assert Data.of(paths, 1, 1, "x").name == "a.txt, b.txt, c.txt and 2 more"
    assert str(tmp_path) not in Card.of(tmp_path / "model").markdown(tmp_path / "new")
