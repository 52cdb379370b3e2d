"""What every component must keep to: the checks for any (stage, kind). tests/contract runs them on
all there are.
"""

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from helpers.small_bert import build_bert
from isotrope import component, load
from isotrope.components.registry import component_class
from isotrope.contract.context import BuildContext, built
from isotrope.contract.features import KEEP, LAYER_FEATURES, LAYER_TOKENS, POSITIONS
from isotrope.terms.infonce import InfoNCE
from isotrope.types import Batch, Reading, Scores, Views

V, N, D, L = 3, 10, 12, 9
_PLACE = TemporaryDirectory()
# for options without a default
REQUIRED = {"groups": 4, "teacher": "guide", "own": (0, 1), "peer": (2, 1), "size": 16}
# they keep a part of the student out of training, which others share
FREEZING = {"self_guided", "translated"}
# A text is the ids 1 to L.
WORDS = [
    "[PAD]",
    "[CLS]",
    "a",
    "is",
    "not",
    "river",
    "boat",
    "old",
    "new",
    "[SEP]",
    "[MASK]",
    "[UNK]",
]


def words() -> PreTrainedTokenizerFast:
    """A tokenizer of those words."""
    own = Tokenizer(
        WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    own.pre_tokenizer = WhitespaceSplit()
    own.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 9)]
    )
    special = {
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return PreTrainedTokenizerFast(tokenizer_object=own, unk_token="[UNK]", **special)


def parameters(stage: str, kind: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(component_class(stage, kind)).parameters)


def unbuilt(stage: str, kind: str, **options: Any) -> Any:
    """The component with defaults; an option without one must be among those that REQUIRED knows."""
    has = parameters(stage, kind)
    needed = [name for name, each in has.items() if each.default is each.empty]
    known = REQUIRED | options
    if "generator" in has:  # one with the student's words
        options = {"generator": folder()} | options
        known |= options
    assert set(needed) <= set(known), f"{stage}.{kind}: give {set(needed) - set(known)} a default"
    return component(stage, kind, **{name: known[name] for name in {*needed, *options}})


def make(stage: str, kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    known = context()
    if stage == "tokens":
        known = replace(known, tokenizer=words())
    elif kind in FREEZING:
        known = replace(known, student=None)
    return built(unbuilt(stage, kind, **options), known)


@cache
def student() -> SentenceTransformer:
    """A small random BERT of the embeddings' width, without dropout."""
    return load(folder(), "cls", dropout=0.0, device="cpu")


@cache
def folder() -> str:
    """Where it lies, until the process ends."""
    return str(build_bert(Path(_PLACE.name), hidden=D, layers=1))


def context() -> BuildContext:
    return BuildContext.of(student(), teachers={"guide": SimpleNamespace(width=D)})


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).float()


def views_of(stack: Tensor, guide: Tensor | None = None, seed: int = 0) -> Views:
    """A batch with hard negatives and a teacher that finds two sentences alike, so that weights
    remove something.
    """
    if guide is None:
        guide = draw(N, D, seed=2)
        guide[1] = guide[0] + 0.01 * guide[1]
    batch = Batch(torch.arange(N), torch.Generator().manual_seed(seed))
    guides = {"guide": F.normalize(guide, dim=-1).to(stack)}
    return Views(batch, stack, draw(N, 1, D, seed=1).to(stack), guides, readings(stack))


def readings(stack: Tensor, order: Tensor | None = None) -> dict[int, Reading]:
    """What the student read in each pass: `features` with a hidden word, and states that move with
    the embeddings.
    """
    order = torch.arange(N) if order is None else order
    text = {name: value[order] for name, value in features(None).items()}
    read = text | {
        "input_ids": text["input_ids"].index_fill(1, torch.tensor([2]), WORDS.index("[MASK]"))
    }
    places = [draw(N, L, D, seed=number)[order].to(stack) for number in range(len(stack))]
    return {
        number: Reading(text, read, view[:, None] + places[number])
        for number, view in enumerate(stack)
    }


def applied(stage: str, made: Any, views: Views, temperature: float = 0.3) -> Tensor:
    """The loss () that a view step, score step or term leads to."""
    if stage == "views":
        return InfoNCE(temperature)(Scores.from_views(made(views)))
    if stage == "scores":
        return InfoNCE(temperature)(made(Scores.from_views(views)))
    return made(Scores.from_views(views))  # type: ignore[no-any-return]


def features(step: Any) -> dict[str, Tensor]:
    """Token ids of N sentences of two lengths, padded, and what the step asks for besides."""
    mask = (torch.arange(L) < torch.tensor([[L]] * 4 + [[5]] * 6)).long()
    ids = (torch.arange(1, L + 1) * mask).long()
    columns = torch.arange(L).repeat(N, 1)
    asked = {
        KEEP: torch.ones(N, 1, D),
        LAYER_FEATURES: torch.ones(N, 1, D),
        LAYER_TOKENS: mask.float(),
        POSITIONS: columns,
    }
    plain = {"input_ids": ids, "attention_mask": mask, "token_type_ids": 0 * ids}
    return plain | {name: asked[name] for name in getattr(step, "needs", ())}


# --- the checks


def says_what_it_is(stage: str, kind: str) -> None:
    """A docstring with shapes or an equation, a source, and that it is a component."""
    cls = component_class(stage, kind)
    module = sys.modules[cls.__module__]
    assert cls.stage == stage  # type: ignore[attr-defined]
    assert module.__doc__
    assert cls.__doc__
    assert not cls.__doc__.startswith(f"{cls.__name__}("), (
        "a docstring of its own, not the dataclass's"
    )
    if stage != "teachers":
        assert re.search(r"BibTeX:\s+\w+\d{4}\w+", cls.__doc__), "name the paper"
        assert re.search(r"https://|Eq\.|Eqs\.|Sec\.|§", module.__doc__), (
            "say where the equation stands"
        )


def has_shapes_and_gradients(stage: str, kind: str) -> None:
    """Shapes of the stage; it does something; a finite gradient reaches the embeddings, in half
    precision too.
    """
    if stage == "tokens":
        made = make(stage, kind)
        before, after = features(made), made(features(made), torch.Generator().manual_seed(3))
        assert set(after) == set(before)
        assert after["input_ids"].shape == after["attention_mask"].shape
        assert len(after["input_ids"]) == N
        assert (after["attention_mask"].sum(dim=1) > 1).all()
        assert any(not torch.equal(after[name], before[name]) for name in before), (
            "it changes something"
        )
        return
    plain = views_of(draw(V, N, D))
    if stage == "views":
        after = make(stage, kind)(plain)
        assert after.stack.shape[1:] == (N, D)
        assert after.stack.shape[0] % V == 0
        assert after.negatives.shape in ((N, 1, D), (N, 0, D))
    if stage == "scores":
        scores, made = Scores.from_views(plain), make(stage, kind)
        if hasattr(made, "after_step"):  # a queue is filled by then
            made(scores)
            made.after_step(None)
        after = made(scores)
        extra = len(after.extra)
        assert after.extra.shape == (extra, D)
        assert after.cosines.shape[1:] == (N, N + extra)
        assert 1 <= len(after.cosines) < V, "a step may say that a view is no positive"
        assert after.keep.shape == (N, N + extra)
        assert after.keep.diagonal().eq(1).all(), "the positive stays"
        assert after.cosines.abs().max() <= 1 + 1e-5
        changed = not torch.equal(after.keep, scores.keep) or not torch.equal(
            after.cosines, scores.cosines
        )
        assert extra or changed, "it adds candidates, or removes some"
    for half in (False, True):
        stack = draw(V, N, D).requires_grad_()
        given = views_of(stack.bfloat16() if half and stage == "terms" else stack)
        with torch.autocast("cpu", dtype=torch.bfloat16) if half else nullcontext():
            loss = applied(stage, make(stage, kind), given)
        (gradient,) = torch.autograd.grad(loss, stack)
        assert loss.shape == ()
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()
        assert gradient.abs().max() > 0


def has_the_gradient_of_differences(stage: str, kind: str, **options: Any) -> None:
    """Against finite differences, in float64, through the embeddings (the teachers' have no
    gradient), at three points and along one random direction of each.
    """
    made = make(stage, kind, **options)
    made = made.double() if isinstance(made, nn.Module) else made
    for seed in range(3):
        stack = draw(V, N, D, seed=seed).double().requires_grad_()
        assert torch.autograd.gradcheck(
            lambda stack: applied(stage, made, views_of(stack)), stack, fast_mode=True
        )


def does_not_see_the_order_of_sentences(stage: str, kind: str) -> None:
    """The same sentences in another order: the same loss, and the embeddings' rows in that order."""
    order = torch.randperm(N, generator=torch.Generator().manual_seed(4))
    plain = views_of(draw(V, N, D).double())
    guide = plain.teachers["guide"][order]
    other = replace(
        plain,
        stack=plain.stack[:, order],
        negatives=plain.negatives[order],
        teachers={"guide": guide},
        batch=Batch(plain.batch.rows[order], torch.Generator().manual_seed(0)),
        readings=readings(plain.stack[:, order], order),
    )
    made, again = make(stage, kind), make(stage, kind)
    if isinstance(made, nn.Module):
        made, again = made.double(), again.double()
    if stage == "views":
        assert torch.allclose(again(other).stack, made(plain).stack[:, order], rtol=1e-9, atol=1e-9)
    else:
        assert torch.allclose(applied(stage, again, other), applied(stage, made, plain), rtol=1e-9)


def goes_on_from_its_state(stage: str, kind: str) -> None:
    """Saved after two batches and restored elsewhere, the third gives the same, to the last bit.

    What is no module has no state: the same batch gives the same, whatever came before.
    """

    def run(made: Any, number: int) -> Tensor:
        if stage == "tokens":
            after = made(features(made), torch.Generator().manual_seed(number))
            return torch.cat([after[name].flatten().float() for name in after])
        found = applied(stage, made, views_of(draw(V, N, D, seed=number), seed=number)).detach()
        if hasattr(made, "after_step"):
            made.after_step(None)
        return found

    made = make(stage, kind)
    for number in (10, 11):
        run(made, number)
    again = make(stage, kind)
    if isinstance(made, nn.Module):
        again.load_state_dict({name: value.clone() for name, value in made.state_dict().items()})
    copied = deepcopy(made)
    expected = run(made, 12)
    assert torch.equal(run(again, 12), expected)
    assert torch.equal(run(copied, 12), expected)


def stays_finite_where_it_saturates(stage: str, kind: str) -> None:
    """Cosines of 1 and -1, equal sentences, teacher ties, τ = .01: no NaN may reach a weight, in
    bf16 either.
    """
    row = torch.ones(N, D)
    half = torch.cat([row[:5], -row[5:]])
    stacks = {
        "all equal": [row] * V,
        "opposite": [row, -row, row],
        "two clusters": [half, -half.flip(0), half],
    }
    options = {name: 0.01 for name in parameters(stage, kind) if name.endswith("temperature")}
    for case, parts in stacks.items():
        for dtype in (torch.float32, torch.bfloat16):
            stack = torch.stack(parts).to(dtype).requires_grad_()
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
                made = make(stage, kind, **options)
                with torch.autocast("cpu", enabled=False) if stage != "views" else nullcontext():
                    loss = applied(stage, made, views_of(stack, half), 0.01)
            (gradient,) = torch.autograd.grad(loss, stack)
            assert torch.isfinite(loss), case
            assert torch.isfinite(gradient).all(), case


def is_as_good_in_single_precision(stage: str, kind: str) -> None:
    """The value and the gradient of float32 are those of float64."""
    found = []
    for dtype in (torch.float64, torch.float32):
        stack, made = draw(V, N, D).to(dtype).requires_grad_(), make(stage, kind)
        made = made.to(dtype) if isinstance(made, nn.Module) else made
        loss = applied(stage, made, views_of(stack))
        assert loss.dtype == dtype
        found.append((loss.double(), torch.autograd.grad(loss, stack)[0].double()))
    (value, gradient), (single, slope) = found
    assert torch.allclose(single, value, rtol=1e-3)
    assert torch.allclose(slope, gradient, rtol=0, atol=1e-3 * gradient.abs().max().item())


def leaves_its_inputs_alone(stage: str, kind: str) -> None:
    """Other passes, steps and terms read the same tensors."""
    made = make(stage, kind)
    if stage == "tokens":
        given: dict[str, Tensor] = features(made)
        call: Callable[[], Any] = lambda: made(dict(given), torch.Generator().manual_seed(3))  # noqa: E731
    else:
        views = views_of(draw(V, N, D))
        given = {
            "stack": views.stack,
            "negatives": views.negatives,
            "rows": views.batch.rows,
            **views.teachers,
        }
        scores = Scores.from_views(views).with_extra(draw(2, D, seed=9))
        given |= (
            {"cosines": scores.cosines, "keep": scores.keep, "extra": scores.extra}
            if stage != "views"
            else {}
        )
        call = lambda: made(views if stage == "views" else scores)  # noqa: E731
    kept = {name: value.clone() for name, value in given.items()}
    call()
    assert all(torch.equal(value, kept[name]) for name, value in given.items())


def does_not_see_the_scale_of_embeddings(kind: str) -> None:
    """Terms compare directions."""
    made, stack = make("terms", kind), draw(V, N, D).double()
    assert torch.allclose(
        applied("terms", made, views_of(1000 * stack)), applied("terms", made, views_of(stack))
    )


def is_multiplied_by_its_weight(kind: str) -> None:
    """``weight`` of 0.25 is a quarter of the loss, and 0 is nothing."""
    views = views_of(draw(V, N, D).double())
    once, quarter, none = (
        applied("terms", make("terms", kind, weight=w), views) for w in (1.0, 0.25, 0.0)
    )
    assert once != 0
    assert torch.allclose(quarter, once / 4)
    assert none == 0
