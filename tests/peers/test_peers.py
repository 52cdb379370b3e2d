"""Second encoders: frozen inner layers against transformers itself, a moving average, and one that
is trained.
"""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel

from helpers.refusals import refused
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.peers.layers import spread
from isotrope.terms.ct import CT
from isotrope.terms.infonce import InfoNCE


def with_layers(
    folder: Path, count: int = 3, on: tuple[int, ...] = (1, 2, 3), **options: object
) -> Objective:
    model = load(folder, "cls", dropout=0.1, device="cpu").train()
    peers = [(component("peers", "layers", count=count), on)]
    return Objective(model, {"infonce": InfoNCE()}, peers=peers, passes=4, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [None, 4])
def test_views_are_the_means_of_the_layers_before_training(
    tiny_model: Path, size: int | None
) -> None:
    made = with_layers(tiny_model, mini_batch_size=size)
    with torch.no_grad():
        for weight in made.model.parameters():
            weight.mul_(1.1)  # the student moves on, the layers stay
    batch = made.model.preprocess(sentences(5))
    stack = made.encode([dict(batch)], None).stack
    plain = AutoModel.from_pretrained(tiny_model).eval()
    states, mask = (
        plain(**batch, output_hidden_states=True).hidden_states,
        batch["attention_mask"][..., None],
    )
    for layer, view in zip(states, stack[1:], strict=True):
        assert torch.allclose(view, (layer * mask).sum(dim=1) / mask.sum(dim=1), atol=1e-5)
    assert not torch.allclose(stack[0], states[-1][:, 0], atol=1e-2)
    stack.sum().backward()
    (peer, _), *_ = made.peers
    assert all(weight.grad is None for weight in peer.parameters())


def test_layers_are_spread_evenly() -> None:
    assert [spread(13, count) for count in (1, 2, 5)] == [[12], [0, 12], [0, 3, 6, 9, 12]]
    assert spread(5, 5) == [0, 1, 2, 3, 4]


def test_layers_that_do_not_fit_are_refused(tiny_model: Path) -> None:
    with refused("too-many-layers"):
        with_layers(tiny_model, count=4)
    made = with_layers(tiny_model, on=(1, 2))
    batch = made.model.preprocess(sentences(6))
    with refused("not-copies"):
        made.encode([dict(batch)], None)


def averaging(folder: Path, drop: float = 0.0, **options: object) -> Objective:
    model = load(folder, "mean", dropout=drop, device="cpu").train()
    return Objective(
        model,
        {"infonce": InfoNCE()},
        peers=[(component("peers", "moving_average", **options), [1])],
    )


def test_it_follows_the_student_and_gets_no_gradient(tiny_model: Path) -> None:
    objective = averaging(tiny_model, decay=0.75)
    model = objective.model
    (peer, _), *_ = objective.peers
    start = {name: value.clone() for name, value in peer.encoder.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.linspace(-1, 1, weight.numel()).view_as(weight))
    columns = [model.preprocess(sentences(5))]
    objective.encode(columns, None).stack.sum().backward()
    assert all(weight.grad is None for weight in peer.parameters())
    assert any(weight.grad is not None for weight in model.parameters())
    objective.after_step()
    student = model.state_dict()
    for name, value in peer.encoder.state_dict().items():
        expected = 0.75 * start[name] + 0.25 * student[name] if value.is_floating_point() else value
        assert torch.allclose(value, expected, atol=1e-6), name


def test_it_has_dropout_only_if_asked(tiny_model: Path) -> None:
    for dropout in (False, True):
        objective = averaging(tiny_model, 0.1, dropout=dropout).eval().train()
        columns = [objective.model.preprocess(sentences(5))]
        first, second = (objective.encode([dict(columns[0])], None).stack[1] for _ in range(2))
        assert torch.equal(first, second) is not dropout


@pytest.mark.parametrize(("dropout", "negatives"), [(0.0, 3), (0.1, None)])
def test_both_encoders_learn_and_part(
    tiny_model: Path, dropout: float, negatives: int | None
) -> None:
    """Also without dropout, where they agree on every sentence at first, and pairs are not
    symmetric.
    """
    model = load(tiny_model, "mean", dropout=dropout, device="cpu").train()
    objective = Objective(
        model, {"ct": CT(negatives)}, peers=[(component("peers", "trained"), [1])]
    )
    (peer, _), *_ = objective.peers
    assert all(
        torch.equal(a, b) for a, b in zip(peer.parameters(), model.parameters(), strict=True)
    )
    optimizer = torch.optim.SGD(objective.parameters(), lr=0.1)
    text, losses = [model.preprocess(sentences(8))], []
    for _ in range(8):
        torch.manual_seed(0)
        optimizer.zero_grad()
        loss = objective([dict(text[0])])["ct"]
        loss.backward()
        assert any(weight.grad is not None for weight in peer.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert any(
        not torch.equal(a, b) for a, b in zip(peer.parameters(), model.parameters(), strict=True)
    )


def test_it_has_the_students_dropout_from_the_start(tiny_model: Path) -> None:
    """Also in a script whose trainer sets the student to training mode alone."""
    model = load(tiny_model, "mean", dropout=0.1, device="cpu").eval()
    objective = Objective(model, {"ct": CT()}, peers=[(component("peers", "trained"), [1])])
    text = model.preprocess(sentences(4))
    first, second = (objective.encode([dict(text)], None).stack for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


def test_gradient_caching_gives_both_encoders_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        model = load(tiny_model, "mean", dropout=0.0, device="cpu").train()
        peers = [
            (component("peers", kind), [number])
            for number, kind in enumerate(("trained", "moving_average"), 1)
        ]
        objective = Objective(model, {"ct": CT()}, peers=peers, passes=3, mini_batch_size=size)
        loss = objective([model.preprocess(sentences(8))])["ct"]
        loss.backward()
        found.append(
            {name: p.grad for name, p in objective.named_parameters() if p.grad is not None}
        )
    assert found[0].keys() == found[1].keys()
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], atol=1e-6), name
