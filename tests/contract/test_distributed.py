"""Several processes: own draws for own sentences, one full batch for all."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope.objective.objective
import isotrope.objective.passes
from helpers.paths import ROOT
from helpers.small_runs import torchrun
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.contract.distributed import mean_of_all
from isotrope.terms.infonce import InfoNCE


def student(folder: Path, dropout: float = 0.1) -> SentenceTransformer:
    return load(folder, "mean", dropout=dropout, device="cpu")


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [model.preprocess(text) for text in texts]


def test_token_steps_draw_anew_on_every_process(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank has sentences of its own, as it has dropout of its own; what all ranks compute
    stays the same.
    """
    model = student(tiny_model, dropout=0.0).eval()
    shuffle = component("tokens", "shuffle")
    seen = []
    for number in (0, 1, 0):
        monkeypatch.setattr(
            isotrope.objective.objective, "process_rank", lambda number=number: number
        )
        objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(shuffle, [1])], seed=3)
        views = objective.encode(columns(model, sentences(6)), None)
        seen.append((views.stack[1], torch.rand(3, generator=views.batch.generator)))
    assert not torch.allclose(seen[0][0], seen[1][0], atol=1e-3)
    assert torch.equal(seen[0][0], seen[2][0])
    assert torch.equal(seen[0][1], seen[1][1])


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """320 rows of a text and a positive."""
    text, table = sentences(640), tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    lines = (
        json.dumps({"text": a, "positive": b}) for a, b in zip(text[:320], text[320:], strict=True)
    )
    table.write_text("\n".join(lines))
    return table


def trained(
    pairs: Path, model: Path, output: Path, batch: int, dropout: float, *more: str, processes: int
) -> Any:
    """The objective of every process after a training."""
    torchrun(
        *map(
            str,
            (ROOT / "tests" / "helpers" / "ranks.py", pairs, model, output, batch, dropout, *more),
        ),
        processes=processes,
    )
    return [load_file(f"{output}-{rank}.safetensors") for rank in range(processes)]


@pytest.mark.slow
def test_random_views_stay_in_step_where_the_ranks_texts_have_other_widths(
    tiny_model: Path, pairs: Path, tmp_path: Path
) -> None:
    """Token steps draw for each rank's own (N, L); shuffled whitening, which all ranks share, must
    not notice.
    """
    more = ["views.sgw.groups=16", 'views.order=["sgw", "mlp"]', "tokens.shuffle.on=[1]"]
    first, second = trained(pairs, tiny_model, tmp_path / "two", 40, 0.1, *more, processes=2)
    assert "components.0.statistics.covariance" in first
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_the_mean_of_all_counts_values_and_not_processes() -> None:
    values = torch.tensor([1.0, 2.0, 6.0], requires_grad=True)
    mean_of_all(values).backward()
    assert mean_of_all(values).item() == 3
    assert torch.allclose(values.grad, torch.full((3,), 1 / 3))
    assert mean_of_all(torch.zeros(0)).item() == 0


# settings, part of the name of a weight that must be there, sentences that two processes encode at
# a time
TOGETHER = {
    "terms on tokens": (
        "terms.tsdae.weight=1 terms.diffcse.generator={model} terms.diffcse.weight=1 terms.infocse.weight=1 "
        "terms.mutual_information.channels=8 terms.masked_words.weight=1 terms.paser.layers=1 "
        "tokens.third.kind=token_batches:EveryThird tokens.third.on=[0,1]",
        "learnt",
        16,
    ),
    "second encoders": (
        "views.passes=3 peers.trained.on=[1] peers.moving_average.on=[2] scores.key_queue.keys=2 "
        "scores.key_queue.size=40 scores.positives.views=[1]",
        "rows",
        5,
    ),
    "frozen layers": (
        "views.passes=4 peers.layers.on=[2,3] peers.layers.count=2 terms.self_guided.size=8 terms.self_guided.drift=0 "
        "terms.self_guided.temperature=0.3 terms.vascl.neighbours=3 terms.vascl.temperature=0.3 terms.vascl.radius=1.0 "
        "terms.group.views=[0,1] terms.margin_band.view=1 tokens.reverse.on=[1] terms.peer_lists.own=[0,1] "
        "terms.peer_lists.peer=[2,3] terms.peer_lists.temperature=0.3",
        "projector",
        5,
    ),
    "accumulation": ("train.accumulation=2", "linear", 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TOGETHER)
def test_two_processes_equal_one_of_twice_the_batch(
    case: str, tiny_model: Path, pairs: Path, tmp_path: Path
) -> None:
    """20 steps. Gathered embeddings, averaged gradients, and two processes that encode in parts:
    weights are equal.
    """
    settings, part, size = TOGETHER[case]
    more = settings.format(model=tiny_model).split()
    two = trained(
        pairs,
        tiny_model,
        tmp_path / "two",
        8,
        0.0,
        *more,
        f"train.mini_batch_size={size}",
        processes=2,
    )
    (one,) = trained(pairs, tiny_model, tmp_path / "one", 16, 0.0, *more, processes=1)
    began = load_file(tiny_model / "model.safetensors")["embeddings.word_embeddings.weight"]
    words = [
        value
        for name, value in one.items()
        if name.endswith("0.model.embeddings.word_embeddings.weight")
    ]
    moved = [
        float((value - began).abs().max()) > 1e-4 for value in words if value.shape == began.shape
    ]
    assert any(moved) or case == "frozen layers"
    assert any(part in name for name in one)
    for name, value in one.items():
        assert torch.equal(two[0][name], two[1][name]), name
        # Attention does not see the bias of keys: its gradient is rounding, which Adam makes as
        # large as any.
        parts = (
            [slice(0, 32), slice(64, 96)]
            if "in_proj_bias" in name
            else []
            if "key.bias" in name
            else [...]
        )
        assert all(
            torch.allclose(value[p].float(), two[0][name][p].float(), atol=1e-5) for p in parts
        ), name
