"""Components by name: a new file or a third party's class counts too, if it says that it is a component."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

import component_contract as contract
import isotrope.terms
from conftest import sentences
from isotrope import component, load
from isotrope.components.registry import kinds
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.preset.preset import build_objective, check_third_parties, open_teachers, read_preset
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.terms.infonce import InfoNCE


def test_components_by_name() -> None:
    assert component("terms", "infonce", temperature=0.1) == InfoNCE(temperature=0.1)
    with pytest.raises(UserError, match=r"terms\.infonce\.temperature = 0"):
        component("terms", "infonce", temperature=0)
    with pytest.raises(UserError, match=r"unknown key.*temperature, weight"):
        component("terms", "infonce", tau=1)
    with pytest.raises(UserError, match="no kind 'nope'"):
        component("terms", "nope")
    with pytest.raises(UserError, match="stage 'loss'"):
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


def test_a_new_file_is_a_component(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    """One file in ``terms/``, and nothing else: found, checked as the others, and used from a preset."""
    (tmp_path / "margin.py").write_text(MARGIN)
    monkeypatch.setattr(isotrope.terms, "__path__", [*isotrope.terms.__path__, str(tmp_path)])
    try:
        assert "margin" in kinds("terms")
        for check in (
            contract.says_what_it_is,
            contract.has_shapes_and_gradients,
            contract.has_the_gradient_of_differences,
        ):
            check("terms", "margin")
        preset = tmp_path / "mine.toml"
        preset.write_text('extends = "simcse"\n[terms.margin]\nlead = 1.5\n[terms.second]\nkind = "margin"\n')
        model = load(tiny_model, "mean", dropout=0.1, device="cpu").train()
        objective = build_objective(read_preset(str(preset)), model)
        losses = objective([model.preprocess(sentences(6))], None)
        assert list(losses) == ["infonce", "margin", "second"]
        assert losses["second"].item() == pytest.approx(losses["margin"].item() + 0.5, abs=1e-6)
        with pytest.raises(UserError, match=r"terms\.margin\.lead = -1"):
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


def test_a_third_partys_components(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_model: Path) -> None:
    """``module:Class`` in every stage that a preset has, with options checked, ``dim`` given, and weights trained."""
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
    assert scale.grad is not None
    assert scale.grad.abs().max() > 0
    with pytest.raises(UserError, match=r"views\.scale\.start = 'much'"):
        check_third_parties(read_preset(str(preset), ["views.scale.start=much"]))
    with pytest.raises(UserError, match=r"terms\.plain\.weight is an unknown key"):
        check_third_parties(read_preset(str(preset), ["terms.plain.weight=2"]))
    for kind, said in (
        ("thirdparty:Nope", "Nope"),
        ("nowhere:Nope", "nowhere"),
        ("thirdparty:function", "not a class"),
        ("subprocess:Popen", 'its class must declare stage = "terms"'),
    ):
        with pytest.raises(UserError, match=said):
            check_third_parties(read_preset(str(preset), [f"terms.plain.kind={kind}"]))
