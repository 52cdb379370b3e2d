"""The preset `adapt`: a good model keeps its form, holds what it knows, and is not pushed from what
it finds alike.

And `bm25`, which adds a ranking that no model gives.
"""

import importlib
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from torch import Tensor

import isotrope
from helpers.paths import ROOT
from helpers.small_runs import logged
from helpers.words import sentences
from isotrope.objective.objective import Objective
from isotrope.preset.preset import build_objective, read_preset
from isotrope.scores.instance_weight import instance_weight, relative_to_mean
from isotrope.types import Batch, Scores

TEXT = sentences(16)


def built(
    model: Path, text: list[str], *overrides: str, dropout: float = 0.0
) -> tuple[Objective, SentenceTransformer]:
    """The objective, whose teacher is the student as it is now."""
    encoder = isotrope.load(model, dropout=dropout, device="cpu")
    rows = F.normalize(torch.from_numpy(encoder.encode(text)), dim=-1)

    def before(batch: Batch) -> Tensor:
        return rows[batch.rows]

    return build_objective(
        read_preset("adapt", overrides), encoder, teachers={"before": before}
    ).eval(), encoder


def scored(objective: Objective, encoder: SentenceTransformer, text: list[str]) -> Scores:
    scores = Scores.from_views(objective.view([encoder.preprocess(text)], torch.arange(len(text))))
    for step in objective.scores:
        scores = step(scores)
    return scores


def push(value: Tensor, encoder: SentenceTransformer) -> float:
    """Length of the gradient in the encoder's weights."""
    gradients = torch.autograd.grad(
        value, list(encoder.parameters()), retain_graph=True, allow_unused=True
    )
    return sum(float((g**2).sum()) for g in gradients if g is not None) ** 0.5


def test_what_is_held_is_where_the_model_stands(tiny_model: Path) -> None:
    """Equal temperatures: the model as it was minimises the ranking's loss, so at the start
    contrast alone pushes.
    """
    objective, encoder = built(tiny_model, TEXT)
    scores = scored(objective, encoder, TEXT)
    assert scores.keep.mean() > 0.9, (
        "no candidate is alike, although all cosines of this model are high"
    )
    held, contrast = (push(objective.terms[name](scores), encoder) for name in ("hold", "infonce"))
    assert held < 1e-4 * contrast
    other, encoder = built(tiny_model, TEXT, "terms.hold.teacher_temperature=0.02")
    assert push(other.terms["hold"](scored(other, encoder, TEXT)), encoder) > 100 * held


def test_what_the_model_found_alike_is_no_negative(tiny_model: Path) -> None:
    text = [*TEXT[:8], *TEXT[:8]]
    objective, encoder = built(tiny_model, text)
    keep = scored(objective, encoder, text).keep
    twins = torch.arange(16).roll(8)
    assert not keep[torch.arange(16), twins].any()
    assert torch.equal(keep.diagonal(), torch.ones(16))
    assert keep.mean() > 0.7  # others stay


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 12),
    st.integers(0, 5),
    st.floats(0, 0.95),
    st.floats(-1, 1.1),
    st.integers(0, 10_000),
)
def test_what_is_alike_does_not_depend_on_what_all_share(
    count: int, extra: int, shared: float, threshold: float, seed: int
) -> None:
    rows = F.normalize(
        torch.randn(count + extra, 6, generator=torch.Generator().manual_seed(seed)).double(),
        dim=-1,
    )
    cosines = rows[:count] @ rows.T
    narrower = shared + (1 - shared) * cosines  # as if all had a common direction
    scaled = relative_to_mean(cosines)
    torch.testing.assert_close(relative_to_mean(narrower), scaled)
    torch.testing.assert_close(scaled.diagonal(), torch.ones(count).double())
    others = scaled[:, :count][~torch.eye(count, dtype=torch.bool)]
    assert abs(others.mean().item()) < 1e-9
    naive = sum(cosines[i, j].item() for i in range(count) for j in range(count) if i != j) / (
        count * (count - 1)
    )
    expected = [
        [i == j or (c.item() - naive) / (1 - naive) < threshold for j, c in enumerate(row)]
        for i, row in enumerate(cosines)
    ]
    close = (scaled - threshold).abs() < 1e-9
    assert torch.equal(
        instance_weight(scaled, threshold).bool() | close, torch.tensor(expected) | close
    )


def test_a_teacher_that_finds_all_alike_stays_finite() -> None:
    assert relative_to_mean(torch.ones(4, 4)).isfinite().all()


def test_the_presets_ask_for_no_other_model() -> None:
    adapt, bm25 = read_preset("adapt"), read_preset("bm25")
    assert adapt.teachers == {"before": {"kind": "initial"}}
    assert bm25.teachers == {**adapt.teachers, "bm25": {"kind": "bm25"}}
    assert set(bm25.terms) - set(adapt.terms) == {"rank"}
    assert "mlp" not in adapt.views
    assert adapt.train.select == []
    assert adapt.encoder.pooling is None is bm25.encoder.pooling


def test_the_table_is_that_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m benchmarks.search.adapt` writes it."""
    monkeypatch.syspath_prepend(ROOT)
    adapt = importlib.import_module("benchmarks.search.adapt")
    assert adapt.page() == adapt.PAGE.read_text(encoding="utf-8")


def test_a_run_follows_bm25(tiny_model: Path, corpus_file: Path, tmp_path: Path) -> None:
    overrides = [
        "train.batch_size=32",
        "train.learning_rate=1e-3",
        "train.epochs=2",
        "terms.infonce=false",
    ]
    run = isotrope.train(
        corpus_file,
        output=tmp_path / "run",
        preset="bm25",
        model=str(tiny_model),
        max_texts=384,
        dev="none",
        labels="none",
        overrides=[*overrides, "terms.hold=false", "train.eval_steps=6"],
    )
    ranks = [record["rank"] for record in logged(run.folder) if "rank" in record]
    assert ranks[-1] < ranks[0]
