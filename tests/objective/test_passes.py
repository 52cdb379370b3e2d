"""Several passes over one text: each with its token steps, all in one forward."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import Tensor, nn

import isotrope.objective.objective
import isotrope.objective.passes
from conftest import sentences
from isotrope import Objective, component, load
from isotrope.contract.distributed import mean_of_all
from isotrope.contract.features import KEEP
from isotrope.contract.gradient_cache import read_in_parts
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE
from isotrope.types import Scores


def student(folder: Path, dropout: float = 0.1) -> SentenceTransformer:
    return load(folder, "mean", dropout=dropout, device="cpu")


def columns(model: SentenceTransformer, *texts: list[str]) -> list[dict[str, Tensor]]:
    return [model.preprocess(text) for text in texts]


def test_token_steps_touch_their_passes_alone(tiny_model: Path) -> None:
    def blank(features: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
        return {**features, "input_ids": torch.full_like(features["input_ids"], 7)}

    model = student(tiny_model, dropout=0.0).eval()
    views = Objective(model, {"infonce": InfoNCE()}, tokens=[(blank, [1])]).encode(columns(model, sentences(4)), None)
    plain = Objective(model, {"infonce": InfoNCE()}).encode(columns(model, sentences(4)), None)
    assert torch.equal(views.stack[0], plain.stack[0])
    assert not torch.allclose(views.stack[1], plain.stack[1])


def test_a_step_that_lengthens_its_pass_leaves_the_others(tiny_model: Path) -> None:
    """Word repetition widens pass 1; what the padding hides changes nothing in pass 0."""
    model = student(tiny_model, dropout=0.0).eval()
    repeat = component("tokens", "repeat", ratio=0.5)
    objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(repeat, [1])])
    views = objective.encode(columns(model, sentences(6)), None)
    plain = Objective(model, {"infonce": InfoNCE()}).encode(columns(model, sentences(6)), None)
    assert torch.allclose(views.stack[0], plain.stack[0], atol=1e-5)
    assert not torch.allclose(views.stack[1], plain.stack[1], atol=1e-3)


@pytest.mark.parametrize(("kind", "options", "embedded"), [
    ("shuffle", {}, False), ("cutoff", {}, False), ("repeat", {}, False), ("cutoff", {"unit": "feature"}, True),
])  # fmt: skip
def test_only_erased_features_make_the_encoder_read_embeddings(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, str], embedded: bool
) -> None:
    model = student(tiny_model).train()
    step = component("tokens", kind, **options)
    objective = Objective(model, {"infonce": InfoNCE()}, tokens=[(step, [1])])
    seen = []

    def spy(model: nn.Module, features: dict[str, Tensor], size: int | None, wanted: tuple[str, ...]) -> Any:
        seen.append(KEEP in features)
        return read_in_parts(model, features, size, wanted)

    monkeypatch.setattr(isotrope.objective.passes, "read_in_parts", spy)
    objective(columns(model, sentences(6)), None)
    assert seen == [embedded]


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
def test_a_component_that_asks_gets_the_states_of_tokens(tiny_model: Path, packed: bool, size: int | None) -> None:
    """Those of its pass, with gradient, in parts too; of packed encoders too. Nobody else has them."""
    plain, model = (load(tiny_model, "mean", dropout=0.0, device="cpu", packed=each) for each in (False, packed))
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
        assert torch.allclose(reading.states[real], expected[real], atol=1e-5)  # type: ignore[index]
    assert views.readings[1].read["attention_mask"].sum() < text["attention_mask"].sum(), "the damaged text"
    loss = objective.loss(views, [], objective.terms)["longest"]
    whole = Objective(plain, terms).train()
    other = whole.loss(whole.encode([dict(text)], None), [], whole.terms)["longest"]
    for value in (loss, other):
        value.backward()
    for mine, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert (mine.grad is None and theirs.grad is None) or torch.allclose(mine.grad, theirs.grad, atol=1e-5)
    assert Objective(model, {"infonce": InfoNCE()}).encode([dict(text)], None).readings[0].states is None


def test_a_peers_pass_is_not_read_by_the_student(tiny_model: Path) -> None:
    model = student(tiny_model)
    peers = [(component("peers", "moving_average"), [1])]
    objective = Objective(model, {"infonce": InfoNCE()}, peers=peers, passes=3)
    assert [*objective.encode(columns(model, sentences(4)), None).readings] == [0, 2]


def test_positives_are_read_in_their_own_passes(tiny_model: Path) -> None:
    model = student(tiny_model)
    text = columns(model, sentences(4), sentences(4, seed=1), sentences(4, seed=2))
    readings = Objective(model, {"infonce": InfoNCE()}, passes=3).encode(text, None).readings
    expected = [text[0], text[1], text[1]]
    assert all(torch.equal(readings[n].text["input_ids"], one["input_ids"]) for n, one in enumerate(expected))


def test_word_vectors_have_no_states() -> None:
    model = SentenceTransformer(modules=[StaticEmbedding(load("isotrope/tiny").tokenizer, embedding_dim=8)])
    objective = Objective(model, {"longest": Longest()}, passes=1)
    with pytest.raises(UserError, match="a term reads the states of tokens, and the model has none"):
        objective.encode(columns(model, sentences(4)), None)
