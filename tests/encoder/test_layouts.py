"""Models as the ecosystem has them: old layouts, other first modules, code of their own, no largest
position.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import BoW
from transformers import AutoTokenizer

import isotrope
from helpers.words import sentences
from isotrope import load
from isotrope.encoder.length import position_limit
from isotrope.errors import UserError

TEXTS = ["A train is late.", "The bread is warm.", "Rain fell all night."]
POOLING = {
    "word_embedding_dimension": 32,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
    "pooling_mode_mean_sqrt_len_tokens": False,
}
CONFIGURATION = """
from transformers import BertConfig

class XqConfig(BertConfig):
    model_type = "xq"
"""
MODEL = """
from transformers import BertModel
from .configuration_xq import XqConfig

class XqModel(BertModel):
    config_class = XqConfig
"""


def layout_of_version_1(bare_model: Path, folder: Path) -> Path:
    """The transformer in a folder of its own, as sentence-transformers 0.x and 1.x saved it."""
    shutil.copytree(bare_model, folder / "0_Transformer")
    settings = {"max_seq_length": 48, "do_lower_case": False}
    (folder / "0_Transformer" / "sentence_bert_config.json").write_text(json.dumps(settings))
    width = json.loads((bare_model / "config.json").read_text())["hidden_size"]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps(POOLING | {"word_embedding_dimension": width})
    )
    (folder / "2_Normalize").mkdir()
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


@pytest.fixture
def model_with_code(tiny_model: Path, tmp_path: Path) -> Path:
    """A model whose configuration and layers are defined in its own folder."""
    folder = tmp_path / "custom"
    SentenceTransformer(str(tiny_model)).save_pretrained(str(folder), create_model_card=False)
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "xq",
        "architectures": ["XqModel"],
        "auto_map": {
            "AutoConfig": "configuration_xq.XqConfig",
            "AutoModel": "modeling_xq.XqModel",
        },
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_xq.py").write_text(CONFIGURATION)
    (folder / "modeling_xq.py").write_text(MODEL)
    return folder


def test_a_transformer_in_a_folder_of_its_own(tiny_model: Path, tmp_path: Path) -> None:
    folder = layout_of_version_1(tiny_model, tmp_path / "old")
    plain = SentenceTransformer(str(folder), device="cpu")
    model = load(folder, device="cpu")
    assert model.max_seq_length == 48
    np.testing.assert_allclose(model.encode(TEXTS), plain.encode(TEXTS), atol=1e-6)


def test_dropout_is_set_in_a_folder_of_its_own(tiny_model: Path, tmp_path: Path) -> None:
    model = load(layout_of_version_1(tiny_model, tmp_path / "old"), dropout=0.25, device="cpu")
    assert model[0].auto_model.config.hidden_dropout_prob == 0.25


def test_a_model_without_a_transformer(tmp_path: Path) -> None:
    plain = SentenceTransformer(modules=[BoW(vocab=["train", "bread"])], device="cpu")
    plain.save_pretrained(str(tmp_path / "bow"), create_model_card=False)
    vectors = load(tmp_path / "bow", device="cpu").encode(TEXTS)
    np.testing.assert_array_equal(vectors, plain.encode(TEXTS))


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("XLNet", {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32}),
        ("Bloom", {"hidden_size": 16, "n_layer": 2, "n_head": 2}),
    ],
)
def test_a_model_without_a_largest_position_reads_long_texts(
    tiny_model: Path, tmp_path: Path, kind: str, shape: dict[str, int]
) -> None:
    """XLNet's configuration says -1; BLOOM's has no such setting."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(tokenizer), pad_token_id=0, **shape
    )
    getattr(transformers, f"{kind}Model")(config).save_pretrained(tmp_path)

    assert position_limit(config, kind) is None
    model = load(tmp_path, "mean", max_length=600, device="cpu")
    assert model.max_seq_length == 600
    assert np.isfinite(isotrope.encode(model, ["a b c " * 300, *TEXTS])).all()


def test_own_code_is_refused_with_advice_that_can_be_followed(model_with_code: Path) -> None:
    with pytest.raises(UserError) as error:
        load(model_with_code)
    assert error.value.code == "needs-remote-code"
    assert "SentenceTransformer(name, trust_remote_code=True)" in error.value.remedy


def test_a_loaded_model_with_own_code_works(
    model_with_code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where isotrope loads it again from its cache, as with another prompt."""
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    model = SentenceTransformer(str(model_with_code), trust_remote_code=True, device="cpu")
    expected = model.encode(TEXTS)
    np.testing.assert_allclose(isotrope.encode(model, TEXTS), expected, atol=1e-6)
    prompted = isotrope.encode(model, TEXTS, prompt="query: ")
    assert not np.allclose(prompted, expected, atol=1e-3)


def test_whitening_a_loaded_model_with_own_code(
    model_with_code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    model = SentenceTransformer(str(model_with_code), trust_remote_code=True, device="cpu")
    whitened = isotrope.whiten(model, sentences(400), exponent=0)
    assert whitened.model.encode(TEXTS).shape == model.encode(TEXTS).shape
