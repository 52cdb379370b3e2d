"""LoRA: adapters as others save them, and presets that train one; merged or beside its base, the
same vectors.
"""

import json
import shutil
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from peft import LoraConfig
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer

from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.small_causal import build_decoder
from helpers.small_runs import same_weights, small_run, unfinished
from helpers.words import sentences
from isotrope import load
from isotrope.contract.context import BuildContext
from isotrope.encoder import save
from isotrope.encoder.adapters import WEIGHTS, adapter_weights, add_adapter, merge_adapter
from isotrope.encoder.checksum import files_checksum
from isotrope.encoder.pooling import dense
from isotrope.errors import UserError
from isotrope.teachers._model import INITIAL, TeacherModel
from isotrope.training.page import write_report
from isotrope.training.train import Run

TEXTS = sentences(6)


@pytest.fixture
def adapter(tiny_model: Path, tmp_path: Path) -> Path:
    """A folder with an adapter of a copy of the small BERT, which stands beside it."""
    shutil.copytree(tiny_model, tmp_path / "base")
    model = SentenceTransformer(str(tmp_path / "base"), device="cpu")
    model.add_adapter(LoraConfig(target_modules=["query", "value"], r=4))
    torch.manual_seed(0)
    for name, weight in model.named_parameters():
        if "lora" in name:  # they are born as a change of nothing
            torch.nn.init.normal_(weight, std=0.3)
    model.save_pretrained(str(tmp_path / "adapter"), create_model_card=False)
    return tmp_path / "adapter"


def test_an_adapter_becomes_part_of_its_model(adapter: Path, tmp_path: Path) -> None:
    expected, checksum = (
        SentenceTransformer(str(adapter), device="cpu").encode(TEXTS),
        files_checksum(str(adapter)),
    )
    model = load(adapter, dropout=0.2, device="cpu")
    plain = load(tmp_path / "base", device="cpu")
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert np.allclose(model.encode(TEXTS), expected, atol=1e-5)
    assert not np.allclose(plain.encode(TEXTS), expected, atol=1e-2)
    assert model[0].auto_model.config.hidden_dropout_prob == 0.2
    assert all(weight.requires_grad for weight in model.parameters())
    save(model, tmp_path / "whole")
    config = tmp_path / "base" / "config.json"
    config.write_text(config.read_text() + "\n")
    assert files_checksum(str(adapter)) != checksum, "its base is part of what it is"
    shutil.rmtree(tmp_path / "base")
    whole = SentenceTransformer(str(tmp_path / "whole"), device="cpu")
    assert np.allclose(whole.encode(TEXTS), expected, atol=1e-5), "without its base"


def test_a_missing_part_is_one_line(adapter: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "peft", None)
        with refused("package-missing", "isotrope[lora]"):
            load(adapter)
    config = adapter / "adapter_config.json"
    text = config.read_text()
    config.write_text(json.dumps({**json.loads(text), "base_model_name_or_path": "./nowhere"}))
    with pytest.raises(
        UserError,
        match=r"its base model \./nowhere does not exist: correct base_model_name_or_path",
    ):
        load(adapter)
    config.write_text("{}")
    with pytest.raises(
        UserError,
        match=r"its base model is not named \(KeyError\): correct base_model_name_or_path",
    ):
        load(adapter)
    config.write_text(text)
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    with pytest.raises(UserError, match="pickles are not opened"):
        load(adapter)


LORA, ADAPTER = "encoder.lora.rank=4", "encoder.lora.save=adapter"


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_decoder(tmp_path_factory.mktemp("qwen"))


def trained(model: Path, corpus: Path, output: Path, *overrides: str, **options: object) -> Run:
    """10 steps, 2 checkpoints."""
    chosen = [LORA, "encoder.pooling=lasttoken", "train.save_steps=5", *overrides]
    return small_run(model, corpus, output, *chosen, **{"max_texts": 160, **options})


@pytest.fixture(scope="module")
def adapted(
    qwen: Path, corpus_file: Path, pairs_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Run:
    """A finished run that saves the adapter; pairs choose its best step."""
    return trained(
        qwen, corpus_file, tmp_path_factory.mktemp("lora") / "run", ADAPTER, dev=str(pairs_file)
    )


def fill(model: SentenceTransformer) -> None:
    """Let its adapter change much."""
    for weight in adapter_weights(model).values():
        weight.data.normal_(0, 0.3)


def test_a_new_adapter_changes_nothing_and_is_all_that_trains(qwen: Path) -> None:
    """A layer behind the pooling, as EmbeddingGemma has, stays as it is too."""
    model = load(qwen, device="cpu")
    model.append(dense(torch.eye(32), torch.zeros(32)))
    model.bfloat16()
    before = model.encode(TEXTS)
    add_adapter(model, 4, 8, 0.1)
    np.testing.assert_array_equal(model.eval().encode(TEXTS), before)
    weights = adapter_weights(model)
    assert len(weights) == 2 * 2 * 2, "A and B beside queries and values of two layers"
    assert all("lora" in name and weight.dtype == torch.float32 for name, weight in weights.items())
    assert {weight.dtype for name, weight in model.named_parameters() if name not in weights} == {
        torch.bfloat16
    }


def test_merged_in_half_precision_nothing_is_lost(qwen: Path) -> None:
    model = load(qwen, device="cpu").bfloat16()
    add_adapter(model, 4, 8, 0.0)
    fill(model)
    exact = deepcopy(model).float()
    merge_adapter(model.float())
    assert not any("lora" in name for name in model.state_dict())
    np.testing.assert_allclose(model.encode(TEXTS), exact.encode(TEXTS), atol=1e-5)


def test_the_teacher_initial_is_the_base(qwen: Path) -> None:
    model = load(qwen, device="cpu")
    before = F.normalize(torch.from_numpy(model.encode(TEXTS)), dim=-1)
    add_adapter(model, 4, 8, 0.0)
    teacher = TeacherModel(INITIAL).load(BuildContext.of(model))
    fill(model)
    torch.testing.assert_close(teacher(TEXTS), before, atol=1e-5, rtol=1e-5)


def test_merged_and_adapter_give_equal_vectors(
    qwen: Path, corpus_file: Path, pairs_file: Path, adapted: Run, tmp_path: Path
) -> None:
    whole = trained(qwen, corpus_file, tmp_path / "whole", dev=str(pairs_file)).folder / "model"
    files = {path.name for path in (adapted.folder / "model").rglob("*.safetensors")}
    assert files == {WEIGHTS}, "without the weights of its base"
    vectors = SentenceTransformer(str(whole), device="cpu").encode(TEXTS)
    plain = SentenceTransformer(str(adapted.folder / "model"), device="cpu")
    for other in (plain, load(adapted.folder / "model"), load(whole)):
        np.testing.assert_allclose(other.encode(TEXTS), vectors, atol=1e-5)
    before, after = (load_file(folder / "model.safetensors") for folder in (qwen, whole))
    changed = {
        name.split(".")[-2]
        for name, weight in before.items()
        if not torch.equal(weight, after[name])
    }
    assert changed == {"q_proj", "v_proj"}


def test_a_resumed_run_ends_with_the_same_adapter(
    qwen: Path, corpus_file: Path, pairs_file: Path, adapted: Run, tmp_path: Path
) -> None:
    begun = unfinished(adapted, tmp_path / "run")
    for checkpoint in (begun / "checkpoints").iterdir():
        assert not (checkpoint / "model.safetensors").exists()
        if checkpoint.name != "checkpoint-5":
            shutil.rmtree(checkpoint)
    again = trained(qwen, corpus_file, begun, ADAPTER, dev=str(pairs_file))
    assert same_weights(adapted.folder, again.folder, f"model/{WEIGHTS}")
    with refused("begun-differently", "encoder.lora.alpha = 8, not 16"):
        trained(qwen, corpus_file, begun, ADAPTER, "encoder.lora.alpha=16", dev=str(pairs_file))


def test_half_precision_and_checkpoints_within_the_encoder(qwen: Path, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("\n".join(sentences(32)))
    save(load(qwen, device="cpu").bfloat16(), tmp_path / "half")
    options = [
        "train.gradient_checkpointing=true",
        "train.mini_batch_size=8",
        "train.precision=bf16",
    ]
    few = {"max_texts": 32, "dev": "none", "labels": "none"}
    run = trained(tmp_path / "half", tmp_path / "few.txt", tmp_path / "run", *options, **few)
    assert load(run.folder / "model").dtype == torch.float32
    before, after = (
        load(tmp_path / "half", device="cpu").float(),
        load(run.folder / "model", device="cpu"),
    )
    assert not np.array_equal(before.encode(TEXTS), after.encode(TEXTS))


@pytest.mark.slow
def test_a_packed_encoder_has_adapters_too(tmp_path: Path, corpus_file: Path) -> None:
    """Also with the head kept, and with other layers."""
    bert, made = build_bert(tmp_path / "bert"), {}
    for name, more in {"merged": [], "adapter": [ADAPTER]}.items():
        options = [
            "train.keep_head=true",
            "encoder.lora.targets=['all-linear']",
            "encoder.lora.dropout=0.1",
            *more,
        ]
        run = small_run(bert, corpus_file, tmp_path / name, LORA, *options, max_texts=96)
        assert f"an adapter of rank 4, {name}" in write_report(run.folder).read_text()
        made[name] = SentenceTransformer(str(run.folder / "model"), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(made["merged"], made["adapter"], atol=1e-5)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (
            ["encoder.lora.targets=['nope']"],
            r"encoder\.lora: .*nope.*: choose targets from: q_proj",
        ),
        (
            [ADAPTER, "encoder.student=layers:1"],
            r"cannot hold encoder\.student: set encoder\.lora\.save = 'merged'",
        ),
        (["encoder.student=static"], "encoder.lora: the model has no linear layers"),
    ],
)
def test_what_cannot_be_is_one_line(
    overrides: list[str], problem: str, qwen: Path, corpus_file: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=problem):
        trained(qwen, corpus_file, tmp_path / "run", *overrides)
    assert not (tmp_path / "run").exists()
