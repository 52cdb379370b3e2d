"""Packed encoding: the numbers of the padded encoder, its gradients, dropout, and all that stands
around an encoder.
"""

import inspect
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from torch import nn
from torch.testing import assert_close

from helpers.small_encoders import (
    KINDS,
    VOCABULARY,
    L,
    N,
    batch,
    both,
    random_model,
    rows_of_linear_layers,
    states,
)
from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.fast.attention import Dropout, Packing, attend, drop
from isotrope.encoder.fast.packed import pack, supports
from isotrope.encoder.pooling import POOLINGS


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_and_gradient_is_that_of_the_padded_encoder(kind: str, holes: bool) -> None:
    plain, packed = both(kind)
    features, seen = batch(holes), rows_of_linear_layers(packed)
    expected, found = states(plain, features), states(packed, features)
    assert torch.allclose(found, expected, atol=1e-5)
    assert seen == {int(features["attention_mask"].sum())}, "linear layers see real tokens alone"
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    for (name, one), other in zip(plain.named_parameters(), packed.parameters(), strict=True):
        if one.grad is not None:
            assert torch.allclose(one.grad, other.grad, atol=1e-4), name
    pooled = plain(**features).get("pooler_output")
    if pooled is not None:
        assert torch.allclose(packed(**features).pooler_output, pooled, atol=1e-5)
    # as steps give them
    features["inputs_embeds"] = plain.get_input_embeddings()(features.pop("input_ids")).detach()
    assert torch.allclose(states(packed, features), states(plain, features), atol=1e-5)


def test_sentence_transformers_reaches_the_packed_forward(tiny_model: Path) -> None:
    """It calls the encoder's forward by name, where hooks would not run; copies compute with their
    own weights.
    """
    model = load(tiny_model, "mean", device="cpu")
    assert "inputs_embeds" in inspect.signature(model[0].auto_model.forward).parameters
    other = deepcopy(model)
    for weight in other.parameters():
        weight.data.zero_()
    assert not other.encode(["a river"]).any()
    for encoder in (model, other):
        seen = rows_of_linear_layers(encoder)
        features = encoder.preprocess(sentences(6))
        encoder(dict(features))
        assert seen == {int(features["attention_mask"].sum())}


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert"])
def test_without_a_mask_and_with_attentions_asked_the_model_is_its_padded_self(kind: str) -> None:
    plain, packed = both(kind)
    features = batch()
    packed(**features)  # leaves nothing behind
    ids, mask = features["input_ids"], features["attention_mask"].bool()
    assert torch.allclose(packed(ids).last_hidden_state, plain(ids).last_hidden_state, atol=1e-5)
    found = packed(**features, return_dict=False)[0]
    assert torch.allclose(found[mask], plain(**features).last_hidden_state[mask], atol=1e-5)


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert"])
def test_training_has_dropout_within_the_attention(kind: str) -> None:
    """The mean over masks is near the encoder without them, and each mask is another one."""
    model = random_model(kind, dropout=0.1)
    pack(model)
    assert {type(module) for module in model.modules() if isinstance(module, nn.Dropout)} == {
        Dropout
    }
    features = batch()
    expected = model(**features).last_hidden_state
    # attention modules hand their probability on; all other dropout is off
    for module in model.modules():
        module.training = not isinstance(module, nn.Dropout)
    with torch.no_grad():
        drawn = torch.stack([model(**features).last_hidden_state for _ in range(100)])
    assert not torch.equal(drawn[0], drawn[1])
    spread = drawn.std(dim=0).mean()
    assert (drawn.mean(dim=0) - expected).abs().mean() < 0.3 * spread


@pytest.mark.parametrize("kind", ["Bert", "ModernBert"])
def test_gradient_checkpointing_gives_the_same_gradients(kind: str) -> None:
    found = []
    for checkpointing in (False, True):
        model = random_model(kind, dropout=0.1)
        pack(model)
        model.train()
        if checkpointing:
            model.activation_checkpointing_enable()
        torch.manual_seed(3)
        model(**batch()).last_hidden_state.square().mean().backward()
        found.append(
            torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        )
    assert found[0].abs().sum() > 0
    assert torch.allclose(found[0], found[1], atol=1e-7)


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert"])
def test_half_precision_is_as_near_as_the_padded_encoders(kind: str) -> None:
    plain, packed = both(kind)
    features = batch()
    exact = states(plain, features)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        error, own = ((states(model, features) - exact).abs().mean() for model in (plain, packed))
        model = packed.train()
        model(**features).last_hidden_state.float().square().mean().backward()
    assert own < 1.5 * error
    assert all(p.grad.isfinite().all() for p in packed.parameters() if p.grad is not None)


def test_an_unknown_architecture_is_left_alone() -> None:
    from transformers import AlbertConfig, AlbertModel

    shape = {
        "hidden_size": 16,
        "embedding_size": 8,
        "num_attention_heads": 2,
        "intermediate_size": 24,
    }
    model = AlbertModel(AlbertConfig(vocab_size=VOCABULARY, num_hidden_layers=1, **shape)).eval()
    expected = model(**batch()).last_hidden_state
    assert not supports(model.config)
    pack(model)
    assert torch.equal(model(**batch()).last_hidden_state, expected)
    decoder = random_model("Bert")
    decoder.config.is_decoder = True
    assert not supports(decoder.config)


@pytest.mark.parametrize("pooling", list(POOLINGS))
def test_poolings_copies_and_saved_models_know_nothing_of_it(
    tiny_model: Path, tmp_path: Path, pooling: str
) -> None:
    text = sentences(9)
    packed = load(tiny_model, pooling, device="cpu")
    expected = load(tiny_model, pooling, device="cpu", packed=False).encode(text)
    assert np.allclose(packed.encode(text), expected, atol=1e-5)
    assert np.array_equal(deepcopy(packed).encode(text), packed.encode(text))
    save(packed, tmp_path / "saved")
    assert not any("isotrope" in path.read_text() for path in (tmp_path / "saved").rglob("*.json"))
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert plain[0].auto_model.config._attn_implementation == "sdpa"
    assert np.allclose(plain.encode(text), expected, atol=1e-5)


def test_a_loss_that_patches_the_models_forward(tiny_model: Path) -> None:
    """sentence-transformers' Matryoshka loss puts its own forward in the model's place; equal to a
    padded encoder.
    """
    found = []
    for packed in (True, False):
        model = load(tiny_model, "mean", dropout=0.0, device="cpu", packed=packed)
        loss = MatryoshkaLoss(model, MultipleNegativesRankingLoss(model), matryoshka_dims=[32, 8])
        value = loss([model.preprocess(sentences(6, seed)) for seed in (0, 1)], None)
        value.backward()
        found.append((value.item(), model[0].auto_model.embeddings.word_embeddings.weight.grad))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    assert torch.allclose(found[0][1], found[1][1], atol=1e-5)


@pytest.mark.parametrize("multiple", [1, 16])
def test_filler_tokens_change_nothing(multiple: int) -> None:
    """A GPU's rounded token counts, on a CPU: the way to packed rows and back, in values and
    gradients.
    """
    mask = batch(holes=True)["attention_mask"]
    packing, real = Packing.from_mask(mask, 2, multiple), mask[..., None, None].bool()
    x = torch.randn(N, L, 2, 3, requires_grad=True)
    rows = packing.pack(x)  # (1, T, 2, 3)
    assert rows.shape[1] == -(-int(mask.sum()) // multiple) * multiple
    (heads,) = packing.heads.pad(rows.transpose(1, 2))  # (N, 2, L, 3)
    assert torch.equal(heads.transpose(1, 2), x * real)
    back = packing.pad(packing.heads.pack([heads]))
    assert torch.equal(back, x * real)
    weight = torch.randn_like(x)
    (back * weight).sum().backward()
    assert torch.equal(x.grad, weight * real)


@pytest.mark.parametrize("holes", [False, True])
def test_groups_of_like_length_change_nothing(holes: bool) -> None:
    """The attention of a training in half precision, in values and gradients, against that of one
    padded batch.
    """
    generator = torch.Generator().manual_seed(2)
    count, longest, heads, size = 21, 40, 2, 8
    lengths = torch.randint(1, longest + 1, (count, 1), generator=generator)
    mask = (torch.arange(longest) < lengths).long()
    if holes:
        mask[:, 1] = 0
    packing = Packing.from_mask(mask, heads)
    shape = (3, 1, heads, len(packing.places), size)
    given = torch.randn(shape, generator=generator).bfloat16().requires_grad_()
    weight = torch.randn((1, len(packing.places), heads, size), generator=generator).bfloat16()
    found = []
    # another bias than the packing's own is not cut into groups
    for bias in (packing.bias, packing.bias.clone()):
        out = attend(*given, packing, bias, 0.0, None)
        found.append((out, *torch.autograd.grad((out * weight).sum(), given)))
    assert sum(part.shape[0] * part.shape[-1] for part in packing.groups.masks) < 0.8 * mask.numel()
    for grouped, whole in zip(*found, strict=True):
        assert_close(grouped, whole, atol=2e-2, rtol=2e-2)


def test_dropout_drops_the_right_share_and_is_fixed_by_the_seed() -> None:
    x = torch.ones(1_000_001, requires_grad=True)
    torch.manual_seed(0)
    dropped = drop(x, 0.1)
    dropped.sum().backward()
    assert torch.equal(x.grad, dropped.detach())
    kept = dropped[dropped != 0]
    assert torch.all(kept == kept[0])
    assert kept[0].item() == pytest.approx(1 / 0.9, rel=1e-4)
    assert len(kept) / len(x) == pytest.approx(0.9, abs=2e-3)  # 7 standard deviations
    lagged = ((dropped[1:] == 0) & (dropped[:-1] == 0)).double().mean()
    assert lagged.item() == pytest.approx(0.01, abs=1e-3)  # neighbours are independent
    torch.manual_seed(0)
    assert torch.equal(drop(x, 0.1), dropped)
    assert torch.equal(drop(x, 0.0), x)
    assert not drop(x, 1.0).any()


def test_relative_positions_are_those_within_a_sentence() -> None:
    """A large bias at some distances: packed as one row, the distances to other sentences' tokens
    must not count.
    """
    plain, packed = both("MPNet")
    features = batch()
    near = states(plain, features)
    with torch.no_grad():
        for model in (plain, packed):
            model.encoder.relative_attention_bias.weight.mul_(20)
    expected = states(plain, features)
    assert not torch.allclose(expected, near, atol=1e-2), "the bias matters"
    assert torch.allclose(states(packed, features), expected, atol=1e-4)
