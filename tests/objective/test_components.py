"""Every component that a folder holds, held to one standard; a new file or a third party's counts too."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import isotrope.terms
from conftest import sentences
from isotrope import component, load
from isotrope.encoder.features import KEEP
from isotrope.errors import UserError
from isotrope.objective.preset import build_objective, open_teachers, read_preset
from isotrope.objective.registry import STAGES, component_class, kinds
from isotrope.teachers import Context
from isotrope.terms.infonce import InfoNCE
from isotrope.text.corpus import open_corpus
from isotrope.types import Batch, Scores, Views

V, N, D, L = 3, 10, 12, 9
REQUIRED = {"dim": D, "groups": 4, "teacher": "guide"}  # for options without a default
EVERY = [(stage, kind) for stage in STAGES for kind in kinds(stage)]


def build(stage: str, kind: str, **more: Any) -> Any:
    """The component with defaults; an option without one must be among those that REQUIRED knows."""
    parameters = inspect.signature(component_class(stage, kind)).parameters.values()
    needed = [p.name for p in parameters if p.default is p.empty]
    known = REQUIRED | more
    assert set(needed) <= set(known), f"{stage}.{kind}: give {set(needed) - set(known)} a default"
    return component(stage, kind, **{name: known[name] for name in needed})


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def views(stack: Tensor) -> Views:
    batch = Batch(torch.arange(N), torch.Generator().manual_seed(0))
    guide = F.normalize(draw(N, D, seed=2), dim=-1)
    guide[1] = guide[0]  # so that weights remove something
    return Views(batch, stack, draw(N, 1, D, seed=1), {"guide": guide})


def finite_gradient(loss: Tensor, stack: Tensor) -> None:
    assert loss.shape == ()
    (gradient,) = torch.autograd.grad(loss, stack)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient).all()
    assert gradient.abs().max() > 0


def check_tokens(kind: str) -> None:
    mask = (torch.arange(L) < torch.tensor([[L]] * 4 + [[5]] * 6)).long()
    ids = (torch.arange(1, L + 1) * mask).long()
    features = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids, KEEP: torch.ones(N, 1, D)}
    kept = {name: value.clone() for name, value in features.items()}
    after = build("tokens", kind)(dict(features), torch.Generator().manual_seed(3))
    assert set(after) == set(features)
    assert after["input_ids"].shape == after["attention_mask"].shape
    assert len(after["input_ids"]) == N
    assert (after["attention_mask"].sum(dim=1) > 1).all()
    assert any(not torch.equal(after[name], features[name]) for name in features), "it changes something"
    assert all(torch.equal(features[name], kept[name]) for name in kept), "the other passes read the same features"


def check_views(kind: str) -> None:
    stack = draw(V, N, D).requires_grad_()
    after = build("views", kind)(views(stack))
    assert after.stack.shape[1:] == (N, D)
    assert after.stack.shape[0] % V == 0
    assert after.negatives.shape == (N, 1, D)
    finite_gradient(InfoNCE()(Scores.from_views(after)), stack)


def check_scores(kind: str) -> None:
    stack = draw(V, N, D).requires_grad_()
    plain = Scores.from_views(views(stack))
    after = build("scores", kind)(plain)
    extra = len(after.extra)
    assert after.extra.shape == (extra, D)
    assert after.cosines.shape == (V - 1, N, N + extra)
    assert after.keep.shape == (N, N + extra)
    assert after.keep.diagonal().eq(1).all(), "the positive stays"
    assert after.cosines.abs().max() <= 1 + 1e-5
    assert extra or not torch.equal(after.keep, plain.keep), "it adds candidates, or removes some"
    finite_gradient(InfoNCE()(after), stack)


def check_terms(kind: str) -> None:
    stack = draw(V, N, D).requires_grad_()
    finite_gradient(build("terms", kind)(Scores.from_views(views(stack))), stack)
    again = draw(V, N, D).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        finite_gradient(build("terms", kind)(Scores.from_views(views(again.bfloat16()))), again)


CHECKS = {"tokens": check_tokens, "views": check_views, "scores": check_scores, "terms": check_terms}


@pytest.mark.parametrize(("stage", "kind"), EVERY)
def test_a_component_says_what_it_is(stage: str, kind: str) -> None:
    """A docstring with shapes or an equation, a source, and keys that TOML can give."""
    cls = component_class(stage, kind)
    module = sys.modules[cls.__module__]
    assert module.__doc__
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}("), "a docstring of its own, not the dataclass's"
    if stage != "teachers":
        assert re.search(r"BibTeX:\s+\w+\d{4}\w+", cls.__doc__), "name the paper"
        assert re.search(r"https://|Eq\.|Eqs\.|Sec\.|§", module.__doc__), "say where the equation stands"


@pytest.mark.parametrize(("stage", "kind"), [each for each in EVERY if each[0] != "teachers"])
def test_a_component_keeps_shapes_and_gradients(stage: str, kind: str) -> None:
    CHECKS[stage](kind)


@pytest.mark.parametrize("kind", kinds("teachers"))
def test_a_teacher_gives_unit_rows_without_gradient(
    kind: str, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    corpus, student = open_corpus(corpus_file, cache=tmp_path), load(tiny_model, "cls", device="cpu")
    taught = build("teachers", kind, model=str(tiny_model), models=[str(tiny_model)]).open(Context(corpus, student))
    rows = taught(Batch(torch.tensor([4, 0, 4]), torch.Generator()))
    assert rows.shape == (3, 32)
    assert rows.dtype == torch.float32
    assert not rows.requires_grad
    assert not isinstance(taught, nn.Module)
    assert torch.allclose(rows.norm(dim=-1), torch.ones(3), atol=1e-5)
    assert torch.equal(rows[0], rows[2])


def gradcheck(stage: str, kind: str, **options: Any) -> bool:
    """Against finite differences, in float64, through the embeddings (the teachers' have no gradient)."""
    made = build(stage, kind)
    if options:
        made = component(stage, kind, **options)
    made = made.double() if isinstance(made, nn.Module) else made

    def loss(stack: Tensor) -> Tensor:
        given = views(stack)
        given = replace(given, teachers={name: rows.double() for name, rows in given.teachers.items()})
        given = replace(given, negatives=given.negatives.double())
        if stage == "views":
            return InfoNCE(0.3)(Scores.from_views(made(given)))
        if stage == "scores":
            return InfoNCE(0.3)(made(Scores.from_views(given)))
        return made(Scores.from_views(given))  # type: ignore[no-any-return]

    return torch.autograd.gradcheck(loss, draw(V, N, D).double().requires_grad_())


@pytest.mark.parametrize(("stage", "kind"), [each for each in EVERY if each[0] in ("views", "scores", "terms")])
def test_a_gradient_is_that_of_finite_differences(stage: str, kind: str) -> None:
    # What the ascent moves is held (test_noise looks at it there): it follows the anchors without a gradient.
    assert gradcheck(stage, kind, **({"steps": 0} if kind == "noise" else {}))


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
        test_a_component_says_what_it_is("terms", "margin")
        check_terms("margin")
        assert gradcheck("terms", "margin")
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
    def __init__(self, dim: int, start: float = 1.0) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.full((dim,), start))

    def forward(self, views):
        return views.with_stack(views.stack * self.scale)


class Plain:
    """No options, not even a constructor."""

    def __call__(self, scores):
        return InfoNCE()(scores)


class Table:
    def __init__(self, size: int = 4) -> None:
        self.size = size

    def open(self, context):
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
    teachers = open_teachers(recipe, Context(None, model))  # type: ignore[arg-type]
    objective = build_objective(recipe, model, teachers=teachers)
    losses = objective([model.preprocess(sentences(6))], torch.arange(6))
    sum(losses.values()).backward()
    assert list(losses) == ["plain", "rank"]
    scale = dict(objective.named_parameters())["components.0.scale"]
    assert scale.detach().eq(2).all()
    assert scale.grad is not None
    assert scale.grad.abs().max() > 0
    with pytest.raises(UserError, match=r"views\.scale\.start = 'much'"):
        read_preset(str(preset), ["views.scale.start=much"])
    with pytest.raises(UserError, match=r"terms\.plain\.weight is an unknown key"):
        read_preset(str(preset), ["terms.plain.weight=2"])
    for kind, said in (
        ("thirdparty:Nope", "Nope"),
        ("nowhere:Nope", "nowhere"),
        ("thirdparty:function", "not a class"),
    ):
        with pytest.raises(UserError, match=said):
            read_preset(str(preset), [f"terms.plain.kind={kind}"])
