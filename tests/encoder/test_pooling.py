"""Every pooling means what its name says, saved and loaded by plain sentence-transformers of any
version.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.export import MODES, NEEDS_5, for_transformers_4
from isotrope.encoder.locate import locate
from isotrope.encoder.pooling import POOLINGS, frame_ids, frame_size
from isotrope.errors import UserError

TEXT = sentences(7)


def hidden_states(folder: Path) -> tuple[tuple[torch.Tensor, ...], torch.Tensor, torch.Tensor]:
    """All layers (B, L, D), the mask (B, L, 1) and the pooler's output, straight from transformers."""
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    features = tokenizer(TEXT, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**features, output_hidden_states=True)
    return output.hidden_states, features["attention_mask"].unsqueeze(-1), output.pooler_output


@pytest.mark.parametrize("pooling", [name for name in POOLINGS if name != "mask"])  # that is below
def test_pooling_means_what_its_name_says(tiny_model: Path, tmp_path: Path, pooling: str) -> None:
    states, mask, pooled = hidden_states(tiny_model)
    layers = {
        "first_last": (0, -1),
        "first_layer_last": (1, -1),
        "last_two": (-2, -1),
        "mean": (-1,),
    }
    if pooling == "cls":
        expected = states[-1][:, 0]
    elif pooling == "cls_head":
        expected = pooled
    elif pooling == "new_head":
        weight = 0.02 * torch.randn(32, 32, generator=torch.Generator().manual_seed(0))
        expected = torch.tanh(states[-1][:, 0] @ weight.T)
    elif pooling == "lasttoken":
        expected = torch.stack(
            [row[int(count) - 1] for row, count in zip(states[-1], mask.sum(1), strict=True)]
        )
    else:
        chosen = torch.stack([states[i] for i in layers.get(pooling, (0,))]).mean(0)
        expected = (chosen * mask).sum(1) / mask.sum(1)
    encoder = load(tiny_model, pooling, device="cpu")
    found = encoder.encode(TEXT)
    assert np.allclose(found, expected.numpy(), atol=1e-5)
    save(encoder, tmp_path / "saved")
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.allclose(plain.encode(TEXT), found, atol=1e-6)
    assert np.array_equal(load(tmp_path / "saved", device="cpu").encode(TEXT), found)


def test_a_saved_head_is_the_models_own(tiny_model: Path, tmp_path: Path) -> None:
    """DCLR's large models start from SimCSE with its head. What stands in a saved model's pooler
    was never trained.
    """
    for pooling in ("new_head", "cls"):
        save(load(tiny_model, pooling, device="cpu"), tmp_path / pooling)
    again = load(tmp_path / "new_head", "cls_head", device="cpu")
    assert np.array_equal(
        again.encode(TEXT), load(tmp_path / "new_head", device="cpu").encode(TEXT)
    )
    with pytest.raises(UserError, match=r"train it with train.keep_head=true, or choose 'cls'"):
        load(tmp_path / "cls", "cls_head", device="cpu")


@pytest.mark.parametrize("pooling", ["first_last", None])
def test_training_leaves_the_weights_of_layers(
    tiny_model: Path, tmp_path: Path, pooling: str | None
) -> None:
    """A pooling's name says which layers count; a saved model's file does not say that their
    weights are fixed.
    """
    save(load(tiny_model, "first_last", device="cpu"), tmp_path / "saved")
    encoder = load(tmp_path / "saved", pooling, device="cpu")
    (weights,) = (
        value for name, value in encoder.named_parameters() if name.endswith("layer_weights")
    )
    assert weights.tolist() == [1, 0, 1]
    assert not weights.requires_grad


def test_a_saved_average_of_layers_does_not_read_the_last_hidden_state(tmp_path: Path) -> None:
    """Versions of transformers differ on it: before the final norm (4.57, 5.0), or after it (5.23)."""
    save(load("isotrope/tiny", "last_two", device="cpu"), tmp_path / "saved")
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    features = plain[0](plain.preprocess(TEXT))
    features["all_layer_embeddings"] = (
        *features["all_layer_embeddings"][:-1],
        torch.randn(7, 1, 256),
    )
    features["all_layer_embeddings"] = torch.broadcast_tensors(*features["all_layer_embeddings"])
    for module in list(plain)[1:]:
        features = module(features)
    assert np.allclose(
        features["sentence_embedding"].detach().numpy(), plain.encode(TEXT), atol=1e-5
    )


@pytest.mark.parametrize("weights", [[1.0, 0.0, 1.0], [0.5, 2.0, 1.5]])
def test_an_average_of_layers_is_put_back_as_it_was(
    tiny_model: Path, tmp_path: Path, weights: list[float]
) -> None:
    encoder = load(tiny_model, "first_last", device="cpu")
    encoder[1].layer_weights.data = torch.tensor(weights)
    save(encoder, tmp_path / "saved")
    again = load(tmp_path / "saved", device="cpu")
    assert [type(module) for module in again] == [type(module) for module in encoder]
    assert torch.allclose(again[1].layer_weights, encoder[1].layer_weights)
    plain = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.allclose(plain.encode(TEXT), encoder.encode(TEXT), atol=1e-6)


# a generic tokenizer, and BERT's own class
@pytest.mark.parametrize("name", ["isotrope/tiny", "isotrope/minilm"])
def test_the_vector_is_the_state_of_the_mask(tmp_path: Path, name: str) -> None:
    folder = locate(name)
    tokenizer, model = (
        AutoTokenizer.from_pretrained(folder),
        AutoModel.from_pretrained(folder).eval(),
    )
    encoder, found = load(name, "mask", device="cpu"), []
    for text in TEXT[:3]:
        features = tokenizer(
            f'This sentence : "{text}" means {tokenizer.mask_token}.', return_tensors="pt"
        )
        place = features["input_ids"][0].tolist().index(tokenizer.mask_token_id)
        with torch.no_grad():
            found.append(model(**features).last_hidden_state[0, place].numpy())
    vectors = encoder.encode(TEXT)
    assert np.allclose(vectors[:3], np.stack(found), atol=1e-5)
    save(encoder, tmp_path / "saved")
    assert np.allclose(
        SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(TEXT), vectors, atol=1e-5
    )
    assert np.array_equal(load(tmp_path / "saved", device="cpu").encode(TEXT), vectors)
    assert np.array_equal(load(tmp_path / "saved", "mask", device="cpu").encode(TEXT), vectors), (
        "one template, not two"
    )


def test_a_long_text_is_cut_and_the_template_stays(tiny_model: Path) -> None:
    encoder = load(tiny_model, "mask", device="cpu")
    before, behind = frame_size(encoder.tokenizer)
    ids = encoder.preprocess([" ".join(TEXT)], max_length=before + behind + 5)["input_ids"][
        0
    ].tolist()
    first, last = frame_ids(encoder.tokenizer, 'This sentence : "{text}" means {mask}.')
    assert (ids[:before], ids[-behind:]) == (first, last)
    assert len(ids) == before + behind + 5
    assert last.count(encoder.tokenizer.mask_token_id) == 1


@pytest.mark.parametrize("template", ["{text} means", "{mask} {mask} {text}", "a {mask}"])
def test_a_template_has_one_text_and_one_mask(tiny_model: Path, template: str) -> None:
    tokenizer = load(tiny_model, device="cpu").tokenizer
    with pytest.raises(UserError, match=r"template .* is not possible.*write {text} once"):
        frame_ids(tokenizer, template)
    tokenizer.mask_token = None
    with pytest.raises(UserError, match="needs a tokenizer with a mask token"):
        frame_ids(tokenizer, "{text} {mask}")


@pytest.mark.parametrize("pooling", list(POOLINGS))
def test_saved_settings_are_in_the_words_of_version_5(
    tiny_model: Path, tmp_path: Path, pooling: str
) -> None:
    """Version 5.1.2 was run once on these folders and gave equal embeddings; its key names are
    pinned here.
    """
    save(load(tiny_model, pooling, device="cpu"), tmp_path / "saved")
    known = {
        "Transformer": {"max_seq_length", "do_lower_case"},
        "Pooling": {"word_embedding_dimension", "include_prompt", *MODES.values()},
        "WordWeights": {"vocab", "word_weights", "unknown_word_weight"},
        "WeightedLayerPooling": {"word_embedding_dimension", "layer_start", "num_hidden_layers"},
        "Dense": {"in_features", "out_features", "bias", "activation_function"},
    }
    # since 5.4, where an average of layers needs them
    names = {"module_input_name", "module_output_name"}
    for module in json.loads((tmp_path / "saved" / "modules.json").read_text()):
        kind = module["type"].removeprefix("sentence_transformers.models.")
        name = "sentence_bert_config.json" if kind == "Transformer" else "config.json"
        settings = json.loads((tmp_path / "saved" / module["path"] / name).read_text())
        assert set(settings) - (names if POOLINGS[pooling] else set()) == known[kind]


FULL, SLIDING = "full_attention", "sliding_attention"
TURNS = {
    FULL: {"rope_type": "default", "rope_theta": 8e4},
    SLIDING: {"rope_type": "default", "rope_theta": 1e4},
}


def modernbert(kinds: list[str], **rope: dict[str, object]) -> dict[str, object]:
    return {"model_type": "modernbert", "layer_types": kinds, "rope_parameters": TURNS | rope}


LINEAR = {"rope_type": "linear", "factor": 2.0}
THETAS = {"global_rope_theta": 8e4, "local_rope_theta": 1e4}


def qwen(**rope: object) -> dict[str, object]:
    return {"model_type": "qwen3", "rope_parameters": {"rope_theta": 1e6, **rope}}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert"}, {}),
        (modernbert([FULL, SLIDING, SLIDING, FULL]), {"global_attn_every_n_layers": 3, **THETAS}),
        (modernbert([FULL, SLIDING]), {"global_attn_every_n_layers": 2, **THETAS}),
        (modernbert([SLIDING, FULL]), None),
        (modernbert([FULL, FULL], full_attention={"rope_theta": 1e4, **LINEAR}), None),
        (qwen(rope_type="default"), {"rope_theta": 1e6, "rope_scaling": None}),
        (qwen(**LINEAR), {"rope_theta": 1e6, "rope_scaling": LINEAR}),
        ({"model_type": "gemma3_text", "rope_parameters": TURNS}, None),
    ],
)
def test_rotary_settings_in_the_words_of_version_4(
    config: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert for_transformers_4(config) == expected


def tokenizer_class(folder: Path) -> str:
    return str(json.loads((folder / "tokenizer_config.json").read_text())["tokenizer_class"])


def test_what_version_4_cannot_compute_it_cannot_load(tiny_model: Path, tmp_path: Path) -> None:
    """Version 4 fails with "Tokenizer class NeedsTransformers5 does not exist"; this version does
    not look at it.
    """
    encoder = load("isotrope/tiny", "mean", device="cpu")
    encoder[0].auto_model.config.layer_types = [SLIDING, FULL, FULL, FULL]
    save(encoder, tmp_path / "saved")
    assert tokenizer_class(tmp_path / "saved") == NEEDS_5
    rhythm = json.loads((tmp_path / "saved" / "config.json").read_text())[
        "global_attn_every_n_layers"
    ]
    with pytest.raises(TypeError):  # what 5.0 does, which takes any tokenizer class
        _ = 1 % rhythm
    again = load(tmp_path / "saved", device="cpu")
    assert again.tokenizer(TEXT) == encoder.tokenizer(TEXT)
    again[0].auto_model.config.layer_types = [FULL] * 4
    save(again, tmp_path / "again")
    assert tokenizer_class(tmp_path / "again") == "PreTrainedTokenizerFast"


def test_the_latest_batch_leaves_no_trace_in_the_tokenizer(
    tiny_model: Path, tmp_path: Path
) -> None:
    """Else a run that resumes after its last step would save another tokenizer than one without
    interruption.
    """
    model = load(tiny_model)
    model.preprocess(["a text", "another one"], max_length=4)
    save(model, tmp_path / "model")
    kept = json.loads((tmp_path / "model" / "tokenizer.json").read_text(encoding="utf-8"))
    assert (kept["truncation"] or {}).get(
        "max_length", model.max_seq_length
    ) == model.max_seq_length
