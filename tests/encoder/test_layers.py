"""A student with some layers: of every architecture, the same as those layers of the teacher, also when saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

from conftest import build_bert
from isotrope.encoder import load, save
from isotrope.encoder.layers import chosen_layers, keep_layers
from isotrope.errors import UserError
from small_encoders import KINDS, batch, random_model

TEXTS = ["the old king of the island", "a red bird", "war"]


def test_layers_are_spread_from_the_first_to_the_last() -> None:
    assert chosen_layers(12, 4) == [0, 4, 7, 11]
    assert chosen_layers(6, 3) == [0, 2, 5]
    assert chosen_layers(6, 1) == [0]
    assert chosen_layers(6, 6) == list(range(6))
    assert chosen_layers(6, 2, "first") == [0, 1]
    assert chosen_layers(6, 2, "last") == [4, 5]


class _Words(torch.nn.Module):
    """Stands where sentence-transformers' Transformer stands, around a random encoder without a tokenizer."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    @property
    def auto_model(self) -> torch.nn.Module:
        return self.model


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_keeps_embeddings_and_the_layers_asked_for(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two layers the first: its output is the teacher's hidden state behind that layer (and the final norm)."""
    monkeypatch.setattr("isotrope.encoder.layers.Transformer", _Words)
    whole, features = random_model(kind), batch()
    states = whole(**features, output_hidden_states=True).hidden_states
    expected = whole.final_norm(states[1]) if kind == "ModernBert" else states[1]
    short = keep_layers(torch.nn.Sequential(_Words(whole)), 1)[0].model
    found = short(**features).last_hidden_state
    real = features["attention_mask"].bool()
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)
    assert short.config.num_hidden_layers == 1
    assert sum(p.numel() for p in short.parameters()) < sum(p.numel() for p in whole.parameters())


def test_a_student_is_saved_whole(tmp_path: Path) -> None:
    teacher = build_bert(tmp_path / "teacher", layers=4)
    short = keep_layers(load(teacher, "mean", device="cpu"), 2)
    whole = load(teacher, "mean", device="cpu")[0].model
    for new, old in enumerate((0, 3)):
        one, other = short[0].model.encoder.layer[new], whole.encoder.layer[old]
        torch.testing.assert_close(one.state_dict(), other.state_dict())
    save(short, tmp_path / "short")
    plain = SentenceTransformer(str(tmp_path / "short"), device="cpu")
    torch.testing.assert_close(
        torch.from_numpy(plain.encode(TEXTS)), torch.from_numpy(short.encode(TEXTS)), atol=1e-6, rtol=0
    )


def test_what_cannot_be_had_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = build_bert(tmp_path / "teacher")
    with pytest.raises(UserError, match="layers:3: the model has 2 layers: choose 1 to 2"):
        keep_layers(load(teacher, device="cpu"), 3)
    with pytest.raises(UserError, match="the model's pooling averages its layers"):
        keep_layers(load(teacher, "first_last", device="cpu"), 1)
    monkeypatch.setattr("isotrope.encoder.layers.Transformer", _Words)
    with pytest.raises(UserError, match="a modernbert cannot have the layers 1 alone: choose the first layers"):
        keep_layers(torch.nn.Sequential(_Words(random_model("ModernBert"))), 1, "last")
    odd = random_model("Bert")
    odd.encoder.layer = torch.nn.Sequential(*odd.encoder.layer)  # as of a model with other names for its parts
    with pytest.raises(UserError, match="bert has no plain list of 2 layers: choose another student"):
        keep_layers(torch.nn.Sequential(_Words(odd)), 1)
