"""Several processes: own draws for own sentences, one full batch for all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope.objective.objective
import isotrope.objective.passes
from conftest import ROOT, sentences
from isotrope import Objective, component, load
from isotrope.contract.distributed import mean_of_all
from isotrope.terms.infonce import InfoNCE
from small_runs import torchrun


def student(folder: Path, dropout: float = 0.1) -> SentenceTransformer:
    return load(folder, "mean", dropout=dropout, device="cpu")


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [model.preprocess(text) for text in texts]


def test_token_steps_draw_anew_on_every_process(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank has sentences of its own, as it has dropout of its own; what all ranks compute stays the same."""
    model = student(tiny_model, dropout=0.0).eval()
    shuffle = component("tokens", "shuffle")
    seen = []
    for number in (0, 1, 0):
        monkeypatch.setattr(isotrope.objective.objective, "process_rank", lambda number=number: number)
        objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(shuffle, [1])], seed=3)
        views = objective.encode(columns(model, sentences(6)), None)
        seen.append((views.stack[1], torch.rand(3, generator=views.batch.generator)))
    assert not torch.allclose(seen[0][0], seen[1][0], atol=1e-3)
    assert torch.equal(seen[0][0], seen[2][0])
    assert torch.equal(seen[0][1], seen[1][1])


def test_random_views_stay_in_step_where_the_ranks_texts_have_other_widths(tiny_model: Path, tmp_path: Path) -> None:
    """Token steps draw for each rank's own (N, L); shuffled whitening, which all ranks share, must not notice."""
    text = sentences(128)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:64], text[64:], strict=True))
    table.write_text("\n".join(lines))
    more = ["views.sgw.groups=16", 'views.order=["sgw", "mlp"]', "tokens.shuffle.on=[1]"]
    arguments = (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / "two", 8, 0.1)
    torchrun(*map(str, arguments), *more, processes=2)
    first, second = (load_file(tmp_path / f"two-{rank}.safetensors") for rank in (0, 1))
    assert "components.0.statistics.covariance" in first
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_the_mean_of_all_counts_values_and_not_processes() -> None:
    values = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    mean_of_all(values).backward()
    assert mean_of_all(values).item() == 3
    assert torch.allclose(values.grad, torch.full((3,), 1 / 3))
    assert mean_of_all(torch.zeros(0)).item() == 0


@pytest.mark.slow
def test_terms_on_tokens_with_two_processes_equal_one_of_twice_the_batch(tiny_model: Path, tmp_path: Path) -> None:
    """20 steps of a contrast behind a head, and of terms on the words, which read their own process's sentences."""
    text = sentences(640)
    table = tmp_path / "pairs.jsonl"
    lines = (json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True))
    table.write_text("\n".join(lines))
    for name, processes, batch in (("two", 2, 8), ("one", 1, 16)):
        arguments = (ROOT / "tests" / "ranks.py", table, tiny_model, tmp_path / name, batch, 0.0)
        more = ("terms.tsdae.weight=1", f"terms.diffcse.generator={tiny_model}", "terms.diffcse.weight=1")
        more += ("terms.mutual_information.channels=8", "terms.infocse.weight=1", "terms.masked_words.weight=1")
        more += ("tokens.third.kind=token_batches:EveryThird", "tokens.third.on=[0, 1]", "terms.paser.layers=1")
        torchrun(*map(str, arguments), *more, processes=processes)
    one, *two = (load_file(tmp_path / f"{name}.safetensors") for name in ("one-0", "two-0", "two-1"))
    assert any("decoder" in name for name in one)
    assert any("learnt" in name for name in one)
    for name, value in one.items():
        assert torch.equal(two[0][name], two[1][name]), name
        # Attention does not see the bias of keys: its gradient is rounding, which Adam makes as large as any.
        parts = [slice(0, 32), slice(64, 96)] if "in_proj_bias" in name else [] if "key.bias" in name else [...]
        assert all(torch.allclose(value[p].float(), two[0][name][p].float(), atol=1e-5) for p in parts), name
