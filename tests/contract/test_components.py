"""Every component that a room holds, those in ``released/`` among them, held to one contract."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from helpers import component_contract as contract
from helpers.refusals import refused
from isotrope import component, load
from isotrope.components.registry import STAGES, kinds
from isotrope.contract.context import BuildContext, built
from isotrope.text import read_text
from isotrope.types import Batch, Scores

EVERY = [(stage, kind) for stage in STAGES for kind in kinds(stage)]
DATA = [each for each in EVERY if each[0] not in ("peers", "teachers")]
SMOOTH = [each for each in EVERY if each[0] in ("views", "scores", "terms")]
# The ascent follows the anchors without a gradient; test_noise looks at what it moves.
HELD = {"noise": {"steps": 0}, "released.against_batch": {"steps": 0}, "vascl": {"steps": 0}}
# terms that see noise and queues
CANDIDATES = {"infonce", "arc", "multi_positive_inside", "released.softmax_bce"}
# Terms with models of their own within.
MODELS = {"tsdae", "diffcse", "mutual_information", "infocse", "masked_words", "paser"}
# Terms of dot products, steps and layers, or behind a head: they see how long embeddings are.
LENGTHS = {"ct", "vascl", "self_guided", "translated", *MODELS}
# Drop a part of their gradients, as the released code and MixCSE do: they are not those of their
# values.
PARTIAL = {("views", "released.detach"), ("scores", "mixed")}
CHECKS: dict[Callable[[str, str], None], list[tuple[str, str]]] = {
    contract.says_what_it_is: EVERY,
    contract.has_shapes_and_gradients: DATA,
    contract.goes_on_from_its_state: DATA,
    contract.leaves_its_inputs_alone: DATA,
    contract.does_not_see_the_order_of_sentences: SMOOTH,
    contract.stays_finite_where_it_saturates: SMOOTH,
    contract.is_as_good_in_single_precision: SMOOTH,
}


@pytest.mark.parametrize(
    ("check", "stage", "kind"),
    [
        pytest.param(check, *each, id="-".join([check.__name__, *each]))
        for check in CHECKS
        for each in CHECKS[check]
    ],
)
def test_every_component(check: Callable[[str, str], None], stage: str, kind: str) -> None:
    check(stage, kind)


@pytest.mark.parametrize(("stage", "kind"), [each for each in SMOOTH if each not in PARTIAL])
def test_gradient_is_that_of_finite_differences(stage: str, kind: str) -> None:
    contract.has_the_gradient_of_differences(stage, kind, **HELD.get(kind, {}))


@pytest.mark.parametrize("kind", kinds("terms"))
def test_terms_compare_directions_and_have_a_weight(kind: str) -> None:
    if kind not in LENGTHS:
        contract.does_not_see_the_scale_of_embeddings(kind)
    contract.is_multiplied_by_its_weight(kind)


@pytest.mark.parametrize("kind", sorted(set(kinds("terms")) - CANDIDATES))
def test_extra_candidates_stay_out_of_the_lists(kind: str) -> None:
    """Noise has no place in a teacher's list, which sees sentences alone."""
    made, plain = (
        contract.make("terms", kind),
        Scores.from_views(contract.views_of(contract.draw(3, 10, 12))),
    )
    assert made(plain.with_extra(contract.draw(3, 12, seed=7))).item() == made(plain).item()


@pytest.mark.parametrize(
    "kind",
    ["consistency", "released.clamped", "listnet", "listmle", "released.floored", "distillation"],
)
def test_is_the_mean_over_positives(kind: str) -> None:
    made, views = contract.make("terms", kind), contract.views_of(contract.draw(3, 10, 12).double())
    each = [made(Scores.from_views(views.with_stack(views.stack[[0, p]]))).item() for p in (1, 2)]
    assert made(Scores.from_views(views)).item() == pytest.approx(sum(each) / 2, rel=1e-12)


@pytest.mark.parametrize("kind", ["mlp", "projector", "branches", "sgw"])
def test_the_width_comes_from_the_context(kind: str) -> None:
    made = contract.unbuilt("views", kind)
    assert 8 in {
        size
        for value in built(made, BuildContext(width=8)).state_dict().values()
        for size in value.shape
    }
    assert not list(made.parameters()), "building leaves the settings as they are"
    with refused("missing-context"):
        built(made, BuildContext())


@pytest.mark.parametrize("kind", kinds("peers"))
def test_a_peer_reads_tokens_and_goes_on_from_its_state(kind: str, tiny_model: Path) -> None:
    student = load(tiny_model, "mean", dropout=0.0, device="cpu")
    made, again = (component("peers", kind).build(BuildContext.of(student)) for _ in range(2))
    features = student.preprocess(["The river runs to the sea.", "A boat."])
    before = made(dict(features))
    assert before.shape == (2, 32)
    assert torch.allclose(
        before, student.encode(["The river runs to the sea.", "A boat."], convert_to_tensor=True)
    )
    with torch.no_grad():
        for weight in made.parameters():
            weight.mul_(1.5)
    again.load_state_dict(made.state_dict())
    assert torch.equal(again(dict(features)), made(dict(features)))
    assert not torch.equal(made(dict(features)), before), (
        "a copy of the student: none of its weights are shared"
    )
    assert torch.equal(made(dict(features), 1), made(dict(features)))


@pytest.mark.parametrize("kind", kinds("teachers"))
def test_a_teacher_gives_unit_rows_without_gradient(
    kind: str, tiny_model: Path, corpus_file: Path, tmp_path: Path
) -> None:
    corpus, student = read_text(corpus_file).texts(), load(tiny_model, "cls", device="cpu")
    models = {"model": str(tiny_model), "models": [str(tiny_model)]}
    options = {
        name: value
        for name, value in models.items()
        if name in contract.parameters("teachers", kind)
    }
    taught = component("teachers", kind, **options).build(BuildContext.of(student, corpus=corpus))
    rows = taught(Batch(torch.tensor([4, 0, 4]), torch.Generator()))
    assert rows.shape[0] == 3
    assert rows.shape[1] == getattr(taught, "width", rows.shape[1])  # BM25 has a column a word
    assert not options or taught.width == 32
    assert rows.dtype == torch.float32
    assert not rows.requires_grad
    assert not isinstance(taught, nn.Module)
    assert torch.allclose(rows.norm(dim=-1), torch.ones(3), atol=1e-5)
    assert torch.equal(rows[0], rows[2])
