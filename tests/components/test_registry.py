"""Components by name, those of third parties too; what they cite; the card of a user's own script."""

import sys
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer, SentenceTransformerModelCardData

import isotrope.terms
from helpers import component_contract as contract
from helpers.paths import ROOT
from helpers.refusals import refused
from helpers.small_runs import script
from helpers.words import sentences
from isotrope import Objective, ObjectiveState, component, load
from isotrope.components.citations import ObjectiveCardData, bibtex, cited_keys, entries, introduce
from isotrope.components.registry import READING, STAGES, component_class, kinds
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.post.names import STEPS
from isotrope.preset.preset import build_objective, check_runnable, open_teachers, read_preset
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.terms.infonce import InfoNCE


def test_components_by_name() -> None:
    assert component("terms", "infonce", temperature=0.1) == InfoNCE(temperature=0.1)
    with refused("impossible-value", "terms.infonce.temperature"):
        component("terms", "infonce", temperature=0)
    with refused("unknown-key"):
        component("terms", "infonce", tau=1)
    with refused("unknown-kind", "nope"):
        component("terms", "nope")
    with refused("unknown-name", "loss"):
        component("loss", "infonce")
    assert component("scores", "isotrope.scores.hard_negatives:HardNegatives") == HardNegatives()


MARGIN = '''
"""A hinge on the positive's lead over the mean candidate (a test's own; Sec. 0)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from isotrope.types import AboveZero, Scores


def margin(cosines: Tensor, lead: float) -> Tensor:
    """(P, N, M) -> ()."""
    return (lead + cosines.mean(dim=-1) - cosines.diagonal(dim1=-2, dim2=-1)).relu().mean()


@dataclass(frozen=True)
class Margin:
    """The positive leads. BibTeX: nobody2026margin."""

    stage = "terms"
    lead: AboveZero = 2.0

    def __call__(self, scores: Scores) -> Tensor:
        return margin(scores.cosines, self.lead)
'''


def test_a_new_file_and_its_line_are_a_component(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    """One file in ``terms/`` and its line in ``terms/__init__.py``: found, checked as the others,
    and used from a preset.
    """
    (tmp_path / "margin.py").write_text(MARGIN)
    monkeypatch.setattr(isotrope.terms, "__path__", [*isotrope.terms.__path__, str(tmp_path)])
    monkeypatch.setitem(isotrope.terms.COMPONENTS, "Margin", "margin")
    try:
        assert "margin" in kinds("terms")
        for check in (
            contract.says_what_it_is,
            contract.has_shapes_and_gradients,
            contract.has_the_gradient_of_differences,
        ):
            check("terms", "margin")
        preset = tmp_path / "mine.toml"
        preset.write_text(
            'extends = "simcse"\n[terms.margin]\nlead = 1.5\n[terms.second]\nkind = "margin"\n'
        )
        model = load(tiny_model, "mean", dropout=0.1, device="cpu").train()
        objective = build_objective(read_preset(str(preset)), model)
        losses = objective([model.preprocess(sentences(6))], None)
        assert list(losses) == ["infonce", "margin", "second"]
        assert losses["second"].item() == pytest.approx(losses["margin"].item() + 0.5, abs=1e-6)
        with refused("impossible-value", "terms.margin.lead"):
            read_preset(str(preset), ["terms.margin.lead=-1"])
    finally:
        sys.modules.pop("isotrope.terms.margin", None)


THIRD = '''
import torch
from torch import nn

from isotrope.terms.infonce import InfoNCE


class Scale(nn.Module):
    stage = "views"

    def __init__(self, start: float = 1.0) -> None:
        super().__init__()
        self.start = start

    def build(self, context):
        self.scale = nn.Parameter(torch.full((context.needed("width"),), self.start))
        return self

    def forward(self, views):
        return views.with_stack(views.stack * self.scale)


class Plain:
    """No options, not even a constructor."""

    stage = "terms"

    def __call__(self, scores):
        return InfoNCE()(scores)


class Table:
    stage = "teachers"

    def __init__(self, size: int = 4) -> None:
        self.size = size

    def build(self, context):
        return lambda batch: torch.eye(self.size)[batch.rows % self.size]


def function(scores):
    return scores.cosines.sum()
'''


def test_a_third_partys_components(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path
) -> None:
    """``module:Class`` in every stage that a preset has, with options checked, ``dim`` given, and
    weights trained.
    """
    (tmp_path / "thirdparty.py").write_text(THIRD)
    monkeypatch.syspath_prepend(tmp_path)
    preset = tmp_path / "mine.toml"
    preset.write_text(
        '[encoder]\nbackbone = "isotrope/tiny"\n[views.scale]\nkind = "thirdparty:Scale"\nstart = 2.0\n'
        '[terms.plain]\nkind = "thirdparty:Plain"\n[terms.rank]\nkind = "listmle"\nteacher = "table"\n'
        '[teachers.table]\nkind = "thirdparty:Table"\nsize = 3\n'
    )
    recipe = read_preset(str(preset))
    model = load(tiny_model, "mean", dropout=0.1, device="cpu").train()
    teachers = open_teachers(recipe, BuildContext.of(model))
    objective = build_objective(recipe, model, teachers=teachers)
    losses = objective([model.preprocess(sentences(6))], torch.arange(6))
    sum(losses.values()).backward()
    assert list(losses) == ["plain", "rank"]
    scale = dict(objective.named_parameters())["components.0.scale"]
    assert scale.detach().eq(2).all()
    assert scale.grad.abs().max() > 0
    with refused("impossible-value", "views.scale.start"):
        check_runnable(read_preset(str(preset), ["views.scale.start=much"]))
    with refused("unknown-key", "terms.plain.weight"):
        check_runnable(read_preset(str(preset), ["terms.plain.weight=2"]))
    for kind, said in (
        ("thirdparty:Nope", "Nope"),
        ("nowhere:Nope", "nowhere"),
        ("thirdparty:function", "not a class"),
        ("subprocess:Popen", 'its class must declare stage = "terms"'),
    ):
        with pytest.raises(UserError, match=said):
            check_runnable(read_preset(str(preset), [f"terms.plain.kind={kind}"]))


def test_every_component_and_post_step_names_papers_that_have_an_entry() -> None:
    parts = [component_class(stage, kind) for stage in (*STAGES, READING) for kind in kinds(stage)]
    keys = cited_keys([*parts, *STEPS.values()])
    assert len(keys) > 8
    assert set(keys) <= set(entries())


def test_each_paper_once_and_isotrope_last() -> None:
    class One:
        """A method. BibTeX: gao2021simcse. And, with a line break, a third party's. BibTeX:
        nobody2026x."""

    assert cited_keys([One, One, int]) == ["gao2021simcse", "nobody2026x"]
    found = [
        line.partition("{")[2]
        for line in bibtex(cited_keys([One, One])).splitlines()
        if line.startswith("@")
    ]
    assert found == ["gao2021simcse,", "isotrope,"]


def test_every_entry_is_whole() -> None:
    for key, entry in entries().items():
        assert entry.startswith("@")
        assert entry.count("{") == entry.count("}")
        assert f"{{{key}," in entry
        assert "author = {" in entry
        assert key == "isotrope" or ("year = {" in entry and "url = {https://" in entry)


def test_the_papers_of_the_project_s_own_citation_are_there() -> None:
    ours = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for key in ("gao2021simcse", "zhou2022dclr", "liu2023rankcse", "zhuo2023whitenedcse"):
        address = entries()[key].partition("url = {")[2].partition("}")[0]
        assert address in ours


def objective(model: SentenceTransformer, dims: list[int] | None = None) -> Objective:
    return Objective(
        model,
        {"contrast": component("terms", "infonce", temperature=0.07)},
        tokens=[(component("tokens", "shuffle"), [1])],
        dims=dims or [],
    )


def test_a_users_own_script_has_a_good_card_with_no_text_of_the_data(
    tiny_model: Path, tmp_path: Path
) -> None:
    """The card of a checkpoint and that of the model, by the real trainer."""
    model = SentenceTransformer(str(tiny_model), device="cpu")
    loss = objective(model)
    table = {"text": sentences(64)}
    script(
        loss,
        tmp_path,
        table,
        [ObjectiveState(loss)],
        max_steps=2,
        save_strategy="steps",
        save_steps=2,
    ).train()
    model.save_pretrained(str(tmp_path / "model"))
    for name in ("checkpoint-2", "model"):
        card = (tmp_path / name / "README.md").read_text()
        for words in (
            f"# {tiny_model.name}, trained with isotrope",
            "- isotrope",
            "- loss:Objective",
            "Size: 64 training samples",
            '"temperature": 0.07',
            '"kind": "Shuffle"',
            "gao2021simcse",
            "yan2021consert",
            "@software{isotrope,",
        ):
            assert words in card, words
        assert not [words for words in (*sentences(64), "loss:method", "widget") if words in card]


def test_the_shipped_model_gives_its_name_and_licence() -> None:
    model = load("isotrope/tiny", dropout=0.1, device="cpu")
    loss = objective(model, dims=[64, 256])
    data = model.model_card_data
    assert (data.base_model, data.license, data.language) == ("isotrope/tiny", "apache-2.0", "en")
    assert "kusupati2022matryoshka" in loss.citation
    assert loss.get_config_dict()["dims"] == [64, 256]


def test_what_a_user_wrote_stays(tiny_model: Path) -> None:
    theirs = SentenceTransformerModelCardData(license="mit", model_name="Mine", tags=["x"])
    model = SentenceTransformer(str(tiny_model), device="cpu", model_card_data=theirs)
    introduce(model)
    data = model.model_card_data
    assert isinstance(data, ObjectiveCardData)
    assert (data.license, data.model_name, data.tags[0]) == ("mit", "Mine", "x")
    introduce(model)
    assert model.model_card_data is data
