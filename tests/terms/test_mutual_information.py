"""IS-BERT's bound against loops; windows do not see padding; gradients reach the student; what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from conftest import sentences
from drawn import draw
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.errors import UserError
from isotrope.terms.mutual_information import MutualInformation, mutual_information
from oracle import losses as oracle


def objective(model: Path, size: int | None = None) -> Objective:
    torch.manual_seed(0)
    student = load(model, "mean", dropout=0.0, device="cpu")
    terms = {"mutual_information": MutualInformation(channels=8)}
    return Objective(student, terms, passes=1, mini_batch_size=size).train()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_equals_the_loops(dtype: torch.dtype, tolerance: float) -> None:
    products, of = draw(7, 3, dtype=dtype), [0, 0, 0, 1, 2, 2, 2]
    own = torch.tensor(of)[:, None] == torch.arange(3)
    found = sum(part.mean() for part in mutual_information(products, own))
    assert float(found) == pytest.approx(oracle.mutual_information(products, of), rel=tolerance)
    assert torch.autograd.gradcheck(lambda x: torch.cat(mutual_information(x, own)), draw(7, 3).requires_grad_())


def test_the_whole_term_by_hand(tiny_model: Path) -> None:
    """Sentence by sentence, without padding: windows by torch's own convolution, their mean, all products."""
    made = objective(tiny_model)
    text = sentences(4)
    found = made([made.model.preprocess(text)])["mutual_information"]
    windows = made.terms["mutual_information"].windows
    local = []
    for sentence in text:
        states = made.model(made.model.preprocess([sentence]))["token_embeddings"][0].T  # (H, L)
        rows = [F.conv1d(states, w.weight, w.bias, padding=w.kernel_size[0] // 2) for w in windows]
        local.append(torch.cat(rows).T)
    whole = torch.stack([rows.mean(dim=0) for rows in local])
    of = [number for number, rows in enumerate(local) for _ in rows]
    assert found.item() == pytest.approx(oracle.mutual_information(torch.cat(local) @ whole.T, of), rel=1e-4)


def test_gradient_caching_gives_the_same_gradients(tiny_model: Path) -> None:
    found = []
    for size in (None, 3):
        made = objective(tiny_model, size)
        made([made.model.preprocess(sentences(8))])["mutual_information"].backward()
        found.append({name: p.grad for name, p in made.named_parameters() if p.grad is not None})
    assert {name.split(".")[0] for name in found[0]} == {"model", "components"}
    assert all(torch.allclose(gradient, found[1][name], atol=1e-6) for name, gradient in found[0].items())


def test_what_does_not_fit_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError, match="widths = \\[2\\] is not possible: choose odd numbers"):
        component("terms", "mutual_information", widths=[2]).build(BuildContext(width=32))
    student = load(tiny_model, "mean", device="cpu")
    made = Objective(student, {"mi": MutualInformation()}, passes=1, context=BuildContext(width=8)).train()
    with pytest.raises(UserError, match="this model has others"):
        made([student.preprocess(sentences(4))])
