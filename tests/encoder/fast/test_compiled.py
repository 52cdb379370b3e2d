"""Compiled layers: the same numbers and gradients, few shapes, one graph for all layers; runs that
resume exactly.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch._dynamo.utils import counters

import isotrope
from helpers.small_encoders import random_model, rows_of_linear_layers
from helpers.small_runs import same_weights, small_run
from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.fast.packed import WIDTH, compile_layers, forward, pack
from isotrope.errors import UserError


@pytest.fixture
def graphs() -> dict[str, int]:
    """What torch has compiled since the test began: ``unique_graphs``, and the reasons of breaks in
    them.
    """
    torch._dynamo.reset()
    counters.clear()
    return counters["stats"]


def gradients(model: nn.Module, text: list[str]) -> tuple[Tensor, dict[str, Tensor]]:
    """The embeddings of a batch (N, D), and the gradients of a weighted sum of them."""
    model.zero_grad()
    embeddings = model(model.preprocess(text))["sentence_embedding"]
    weights = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(0))
    (embeddings * weights).sum().backward()
    return embeddings.detach(), {
        name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None
    }


@pytest.mark.slow  # the compiler takes half a minute
def test_numbers_gradients_and_files_are_the_same(
    tiny_model: Path, tmp_path: Path, graphs: dict[str, int]
) -> None:
    """Both layers and batches of 8 to 14 tokens share one graph; what needs no gradients is not
    compiled.
    """
    plain, compiled = (
        load(tiny_model, "mean", dropout=0.0, device="cpu").train() for _ in range(2)
    )
    compile_layers(compiled)
    text = sorted(sentences(40), key=lambda sentence: len(sentence.split()))
    for first in (0, 12, 28):
        batch = [*text[first : first + 11], text[20]]
        expected, found = gradients(plain, batch), gradients(compiled, batch)
        assert torch.allclose(found[0], expected[0], atol=1e-5)
        assert found[1].keys() == expected[1].keys()
        for name, value in expected[1].items():
            assert torch.allclose(found[1][name], value, atol=1e-5), name
    compiled_graphs = graphs["unique_graphs"]
    assert 1 <= compiled_graphs <= 3, (
        "one for each number of tokens that is a sixteenth of the padded batch"
    )
    assert not counters["graph_break"]
    assert np.allclose(compiled.encode(text), plain.encode(text), atol=1e-5)
    assert graphs["unique_graphs"] == compiled_graphs
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    save(compiled, tmp_path / "saved")
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert np.allclose(again.encode(text), plain.encode(text), atol=1e-5)


@pytest.mark.parametrize("kind", ["Bert", "MPNet", "ModernBert"])
def test_batches_come_in_few_shapes(kind: str) -> None:
    """Fifty batches of 64 sentences; embeddings of the usual shape, whatever the shape within."""
    model = random_model(kind)
    pack(model)
    seen, generator = rows_of_linear_layers(model), torch.Generator().manual_seed(0)
    tokens = set()
    for _ in range(50):
        lengths = torch.randint(4, 27, (64,), generator=generator)
        mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()  # (N, L)
        ids = torch.randint(4, 50, mask.shape, generator=generator) * mask + (1 - mask)
        with torch.no_grad():
            found = forward(
                model, input_ids=ids, attention_mask=mask, width=WIDTH, multiple=None
            ).last_hidden_state
        tokens.add(int(mask.sum()))
    assert len(tokens) > 25
    assert len(seen) <= 4
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).last_hidden_state
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_a_compiled_run_trains_and_resumes_exactly(
    tiny_model: Path, tmp_path: Path, graphs: dict[str, int]
) -> None:
    """Dropout's masks are drawn by the step here too: nothing depends on what was compiled or drawn
    before.
    """
    text = [
        " ".join((sentence + " the of in on to and is").split()[:9]) for sentence in sentences(200)
    ]
    (tmp_path / "corpus.txt").write_text("\n".join(dict.fromkeys(text)) + "\n")

    def run(output: Path, **options: object) -> Path:
        settings = ["batch_size=16", "save_steps=4", "compile=true", "learning_rate=1e-3"]
        return isotrope.train(
            tmp_path / "corpus.txt",
            model=str(tiny_model),
            output=output,
            max_texts=128,
            dev="none",
            labels="none",
            overrides=["encoder.pooling=mean", *(f"train.{setting}" for setting in settings)],
            **options,
        ).folder

    whole = run(tmp_path / "whole")
    assert 1 <= graphs["unique_graphs"] <= 2
    assert not counters["graph_break"]
    halved = tmp_path / "halved"
    shutil.copytree(whole, halved)
    for name in ("model", "checkpoints/checkpoint-8"):
        shutil.rmtree(halved / name)
    (halved / "result.json").unlink()
    torch._dynamo.reset()
    assert same_weights(run(halved), whole)
    before, after = (
        load_file(folder / "model.safetensors") for folder in (tiny_model, whole / "model")
    )
    name = "encoder.layer.0.output.dense.weight"
    assert not torch.equal(before[name], after[name])


def test_what_cannot_be_compiled_is_said_before_the_run(
    tiny_model: Path, corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        UserError, match=r"train\.compile = true needs a C\+\+ compiler.*install g\+\+"
    ):
        small_run(tiny_model, corpus_file, tmp_path / "run", "train.compile=true", dev="none")
    assert not (tmp_path / "run" / "job.json").exists()
    with pytest.raises(
        UserError, match=r"isotrope does not compile BertModel.*train\.compile = false"
    ):
        compile_layers(load(tiny_model, device="cpu", packed=False))
