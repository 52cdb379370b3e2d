"""The objective as a sentence-transformers loss: columns, passes, steps, state, row ids,
dimensions.
"""

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor, nn

from helpers.refusals import refused
from helpers.small_runs import script
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.contract.distributed import mean_of_all
from isotrope.scores.hard_negatives import HardNegatives
from isotrope.terms.infonce import InfoNCE
from isotrope.training.trainer import ObjectiveState
from isotrope.types import Batch, Scores, Views


def student(folder: Path, dropout: float = 0.1) -> SentenceTransformer:
    return load(folder, "mean", dropout=dropout, device="cpu")


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [model.preprocess(text) for text in texts]


def test_equals_sentence_transformers_own_contrast(tiny_model: Path) -> None:
    """Without dropout and head, on text + positive + negative, it is MultipleNegativesRankingLoss
    at scale 20.
    """
    model = student(tiny_model, dropout=0.0).train()
    text = sentences(24)
    features = columns(model, text[:8], text[8:16], text[16:])
    ours = Objective(model, {"infonce": InfoNCE()}, scores=[HardNegatives()])(features, None)[
        "infonce"
    ]
    theirs = MultipleNegativesRankingLoss(model, scale=20.0)(
        columns(model, text[:8], text[8:16], text[16:]), None
    )
    assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)


def test_views_are_passes_with_their_own_dropout(tiny_model: Path) -> None:
    model = student(tiny_model).train()
    objective = Objective(model, {"infonce": InfoNCE()}, passes=3)
    views = objective.encode(columns(model, sentences(6)), None)
    assert views.stack.shape == (3, 6, 32)
    assert not torch.equal(views.stack[0], views.stack[1])
    assert not torch.equal(views.stack[1], views.stack[2])
    model.eval()
    calm = objective.encode(columns(model, sentences(6)), None)
    assert torch.allclose(calm.stack[0], calm.stack[2], atol=1e-6)
    expected = model.encode(sentences(6), convert_to_tensor=True)
    assert torch.allclose(calm.stack[0], expected, atol=1e-5)


def test_teachers_get_row_ids_and_give_lists(tiny_model: Path) -> None:
    seen = []

    def teacher(batch: Batch) -> Tensor:
        seen.append(batch.rows)
        return torch.eye(4)[batch.rows % 4]

    class Peek:
        def __call__(self, scores):
            return scores.teacher("guide").sum() * 0 + scores.pairs.sum()

    model = student(tiny_model).train()
    objective = Objective(model, {"peek": Peek()}, teachers={"guide": teacher})
    with refused("no-row-ids"):
        objective(columns(model, sentences(3)), None)
    objective(columns(model, sentences(3)), torch.tensor([5, 2, 9]))
    assert seen[0].tolist() == [5, 2, 9]


def test_random_steps_are_a_function_of_seed_and_step(tiny_model: Path) -> None:
    drawn: list[list[float]] = []

    class Draw:
        def __call__(self, views: Views) -> Views:
            drawn.append(torch.rand(2, generator=views.batch.generator).tolist())
            return views

    model = student(tiny_model).train()
    features = columns(model, sentences(4))
    first = Objective(model, {"infonce": InfoNCE()}, views=[Draw()], seed=3)
    for _ in range(2):
        first(features, None)
    again = Objective(model, {"infonce": InfoNCE()}, views=[Draw()], seed=3)
    again.load_state_dict(first.state_dict())
    again(features, None)
    first(features, None)
    assert drawn[0] != drawn[1] != drawn[2]
    assert drawn[2] == drawn[3]


class Queue(nn.Module):
    """The last batch's anchors as further negatives: a score step with a state."""

    stage = "scores"
    keys: Tensor  # (K, D) of the last batch; before the first, none

    def __init__(self) -> None:
        super().__init__()
        self.told = 0

    def build(self, context: BuildContext) -> "Queue":
        made = Queue()
        made.register_buffer("keys", torch.zeros(4, context.needed("width")))
        return made

    def forward(self, scores: Scores) -> Scores:
        after = scores.with_extra(self.keys.clone())
        self.keys.copy_(scores.views.stack[0, :4].detach())
        return after

    def after_step(self, objective: Objective) -> None:
        assert self in objective.parts
        self.told += 1


def test_each_width_has_its_own_state(tiny_model: Path) -> None:
    """Matryoshka with a queue; before, the second width met the first one's keys: a RuntimeError."""
    model = student(tiny_model).train()
    ours = Objective(model, {"infonce": InfoNCE()}, scores=[Queue()], dims=[8, 32])
    batches = [columns(model, sentences(6, seed)) for seed in range(3)]
    for batch in batches[:2]:
        losses = ours(batch, None)
    assert [tuple(value.shape) for value in ours.components.buffers()] == [(4, 8), (4, 32)]
    assert all(value.abs().sum() > 0 for value in ours.components.buffers())
    sum(losses.values()).backward()
    again = Objective(model, {"infonce": InfoNCE()}, scores=[Queue()], dims=[8, 32])
    again.load_state_dict(ours.state_dict())
    model.eval()  # without dropout, so that the two can be compared
    first, second = ours(batches[2], None), again(batches[2], None)
    assert first == second


def test_components_hear_of_each_optimizer_step(tiny_model: Path, tmp_path: Path) -> None:
    """Once a step of the optimizer, not once a batch."""
    model = student(tiny_model)
    objective = Objective(model, {"infonce": InfoNCE()}, scores=[Queue()])
    table, callbacks = {"text": sentences(64)}, [ObjectiveState(objective)]
    script(
        objective, tmp_path, table, callbacks, max_steps=3, gradient_accumulation_steps=2
    ).train()
    assert objective.step == 6
    assert objective.scores[0].told == 3


class Longest:
    """A term that reads the states of tokens: the mean over sentences of the longest state."""

    stage, one_view, token_states = "terms", True, True

    def __call__(self, scores: Scores) -> Tensor:
        reading = scores.views.readings[0]
        assert reading.states is not None
        lengths = reading.states.norm(dim=-1) * reading.read["attention_mask"]  # (n, L)
        return mean_of_all(lengths.max(dim=1).values)


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("packed", [False, True])
def test_a_component_that_asks_gets_the_states_of_tokens(
    tiny_model: Path, packed: bool, size: int | None
) -> None:
    """Those of its pass, with gradient, in parts too; of packed encoders too. Nobody else has them."""
    plain, model = (
        load(tiny_model, "mean", dropout=0.0, device="cpu", packed=each) for each in (False, packed)
    )
    delete = component("tokens", "delete")
    terms = {"infonce": InfoNCE(), "longest": Longest()}
    objective = Objective(model, terms, tokens=[(delete, [1])], mini_batch_size=size).train()
    text = model.preprocess(sentences(5))
    views = objective.encode([dict(text)], None)
    assert [*views.readings] == [0, 1]
    for reading in views.readings.values():
        assert torch.equal(reading.text["input_ids"], text["input_ids"])
        asked = {key: value for key, value in reading.read.items() if key != "token_type_ids"}
        expected = plain(dict(asked))["token_embeddings"]
        real = reading.read["attention_mask"].bool()
        assert torch.allclose(reading.states[real], expected[real], atol=1e-5)
    assert views.readings[1].read["attention_mask"].sum() < text["attention_mask"].sum(), (
        "the damaged text"
    )
    loss = objective.loss(views, [], objective.terms)["longest"]
    whole = Objective(plain, terms).train()
    other = whole.loss(whole.encode([dict(text)], None), [], whole.terms)["longest"]
    for value in (loss, other):
        value.backward()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert (mine.grad is None and theirs.grad is None) or torch.allclose(
            mine.grad, theirs.grad, atol=1e-5
        )
    assert (
        Objective(model, {"infonce": InfoNCE()}).encode([dict(text)], None).readings[0].states
        is None
    )


def test_positives_are_read_in_their_own_passes_and_a_peers_pass_not_by_the_student(
    tiny_model: Path,
) -> None:
    model = student(tiny_model)
    peers = [(component("peers", "moving_average"), [1])]
    objective = Objective(model, {"infonce": InfoNCE()}, peers=peers, passes=3)
    assert [*objective.encode(columns(model, sentences(4)), None).readings] == [0, 2]
    text = columns(model, sentences(4), sentences(4, seed=1), sentences(4, seed=2))
    readings = Objective(model, {"infonce": InfoNCE()}, passes=3).encode(text, None).readings
    expected = [text[0], text[1], text[1]]
    assert all(
        torch.equal(readings[n].text["input_ids"], one["input_ids"])
        for n, one in enumerate(expected)
    )
