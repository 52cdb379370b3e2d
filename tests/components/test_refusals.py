"""What an objective refuses, with sentence-transformers' own models, losses and trainer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from peft import LoraConfig
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MatryoshkaLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from torch import nn
from transformers import AutoTokenizer

from helpers.small_runs import script
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.errors import UserError
from isotrope.terms.infonce import InfoNCE

TEXTS = sentences(32)
PAIRS = {"anchor": TEXTS, "positive": TEXTS[1:] + TEXTS[:1]}
PEER, SHUFFLE = component("peers", "trained"), component("tokens", "shuffle")
TERMS = {"infonce": InfoNCE()}
MLP = component("views", "mlp")


def student(folder: Path | str, **options: Any) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", **options)


def words(folder: Path) -> SentenceTransformer:
    """A model of word vectors alone."""
    torch.manual_seed(0)
    table = StaticEmbedding(AutoTokenizer.from_pretrained(folder), embedding_dim=16)
    return SentenceTransformer(modules=[table], device="cpu")


def train(loss: nn.Module, folder: Path, data: Any = None, **options: Any) -> list[float]:
    """Two steps of sentence-transformers' trainer on ``loss.model`` -> their losses."""
    trainer = script(loss, folder, data or {"text": TEXTS}, **{"max_steps": 2, **options})
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def refused(match: str) -> Any:
    return pytest.raises(UserError, match=match)


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (CrossEncoder, {}, "given a CrossEncoder: load an embedding model"),
        # training would see all widths, and a head none of them
        (partial(student, truncate_dim=16), {}, r"truncate_dim = 16.*dims=\[16\]"),
        (student, {"dims": [64, 16]}, r"dims = \[64, 16\] is not possible.*is 32"),
        (student, {"peers": [PEER]}, r"peers: .* is on in passes \[\], of 2: count its passes"),
        (
            student,
            {"peers": [(PEER, [0])]},
            r"peers are on in the passes \[0\]: leave pass 0 to the student",
        ),
        (
            student,
            {"peers": [(PEER, [1]), (PEER, [1])]},
            r"peers are on in the passes \[1, 1\]: .* give each",
        ),
        (
            student,
            {"terms": {"infonce": InfoNCE}},
            r"not one of its components: make one: component\(\"terms\"",
        ),
        (
            student,
            {"views": [component("scores", "noise")]},
            "views holds Noise.*: make one",
        ),
        (student, {"tokens": [(SHUFFLE, 1)]}, r"count its passes from 0: on = \[1\] in a preset"),
        (student, {"teachers": {"rank": nn.Linear(2, 2)}}, "teachers holds Linear"),
    ],
)
def test_what_shows_when_an_objective_is_made(
    tiny_model: Path, model: Callable[[str], Any], options: dict[str, Any], said: str
) -> None:
    with refused(said):
        Objective(model(str(tiny_model)), **{"terms": TERMS, **options})


def test_it_stands_in_no_other_loss(tiny_model: Path, tmp_path: Path) -> None:
    model = student(tiny_model)
    with refused(r"inside another loss.*dims="):
        train(MatryoshkaLoss(model, Objective(model, TERMS), [32, 16]), tmp_path)


@pytest.mark.parametrize(
    ("data", "options", "said"),
    [
        ({**PAIRS, "score": [0.5] * 32}, {}, "labels or scores, which Objective does not use"),
        ({**PAIRS, "label": [0, 1] * 16}, {}, "labels or scores"),
        ({"text": [""] * 32}, {}, "all texts of the first batch are equal"),
        ({**PAIRS, "negative": TEXTS[2:] + TEXTS[:2]}, {}, "no step uses them: add scores="),
        ({"text": TEXTS}, {"passes": 1}, "leaves one view"),
        (
            {"text": TEXTS},
            {"terms": {"rank": component("terms", "listnet", teacher="big")}},
            "the teacher 'big'",
        ),
    ],
)
def test_what_shows_in_the_first_step(
    tiny_model: Path, tmp_path: Path, data: dict[str, list[Any]], options: dict[str, Any], said: str
) -> None:
    with refused(said):
        train(Objective(student(tiny_model), **{"terms": TERMS, **options}), tmp_path, data)


def test_models_without_dropout_are_told_of_load(tiny_model: Path, tmp_path: Path) -> None:
    calm = student(
        tiny_model, config_kwargs={"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    with refused(r"equal.*isotrope.load\(model, dropout=0.1\)"):
        train(Objective(calm, TERMS), tmp_path)
    assert train(Objective(load("isotrope/tiny", dropout=0.1, device="cpu"), TERMS), tmp_path)
    assert train(Objective(calm, TERMS), tmp_path, PAIRS), "positives are views of their own"


@pytest.mark.slow
def test_word_vectors_train_where_views_differ(tiny_model: Path, tmp_path: Path) -> None:
    """Before, the passes' offsets were not shifted: the second view was a batch of zeros, and
    nothing was said.
    """
    model = words(tiny_model)
    for step in ([], [(SHUFFLE, [1])]):  # a mean does not see the order
        with refused('which have none, need a column of positives, or tokens=.*"cutoff"'):
            train(Objective(model, TERMS, tokens=step, views=[MLP]), tmp_path)
    objective = Objective(model, TERMS, tokens=[(component("tokens", "cutoff", ratio=0.5), [1])])
    before = model[0].embedding.weight.detach().clone()
    assert train(objective, tmp_path)[0] > 0
    assert not torch.equal(before, model[0].embedding.weight)
    assert train(Objective(model, TERMS, mini_batch_size=3), tmp_path, PAIRS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_heads_compute_in_full_precision(
    tiny_model: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    """A head met embeddings of another dtype: a RuntimeError. Half precision is warned of."""
    model = student(tiny_model)
    text = [model.preprocess(TEXTS[:8])]
    torch.manual_seed(0)
    objective = Objective(model, TERMS, views=[MLP, component("views", "sgw", groups=16)])
    objective.eval()
    expected = objective(text, None)["infonce"].item()
    model.to(dtype)
    if dtype == torch.float64:
        train(objective := Objective(model, TERMS, views=[MLP]), tmp_path)
        assert objective.views[0].linear.weight.dtype == torch.float64
        return
    found = objective(text, None)["infonce"]
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(expected, abs=0.05)
    with pytest.warns(UserWarning, match=rf"in {str(dtype)[6:]}.*model.float\(\)"):
        objective = Objective(model, TERMS, views=[MLP])
    assert all(loss > 0 for loss in train(objective, tmp_path))
    assert objective.views[0].linear.weight.dtype == torch.float32


@pytest.mark.parametrize(
    "options",
    [
        {"fp16": True},
        {"bf16": True},
        {"gradient_checkpointing": True},
        {"prompts": {"text": "a city "}},
    ],
)
def test_the_trainers_options_work(
    tiny_model: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    losses = train(Objective(student(tiny_model), TERMS, views=[MLP]), tmp_path, **options)
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)


def test_adapters_are_trained_alone(tiny_model: Path, tmp_path: Path) -> None:
    """LoRA in a script, on a packed encoder, with gradient caching and erased features."""
    model = load(tiny_model, dropout=0.1, device="cpu")
    model.add_adapter(LoraConfig(target_modules=["query", "value"], r=4))
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    step = (component("tokens", "cutoff", unit="feature"), [1])
    train(Objective(model, TERMS, tokens=[step], mini_batch_size=4), tmp_path, learning_rate=1e-2)
    changed = {
        name for name, weight in model.named_parameters() if not torch.equal(weight, before[name])
    }
    assert changed
    assert all("lora" in name for name in changed)


def test_one_objective_takes_several_datasets(tiny_model: Path, tmp_path: Path) -> None:
    """Texts alone and pairs in turn; a set without row ids is refused whenever it comes, if there
    are teachers.
    """
    model = student(tiny_model)
    sets = DatasetDict(
        {"texts": Dataset.from_dict({"text": TEXTS}), "pairs": Dataset.from_dict(PAIRS)}
    )
    options: dict[str, Any] = {"multi_dataset_batch_sampler": "round_robin", "max_steps": 4}
    assert len(train(Objective(model, TERMS), tmp_path, sets, **options)) == 4
    ranks = {"rank": component("terms", "listnet", teacher="guide")}
    objective = Objective(model, ranks, teachers={"guide": lambda batch: torch.eye(32)[batch.rows]})
    sets["texts"] = sets["texts"].add_column("label", list(range(32)))
    with refused("no row ids for the teachers"):
        train(objective, tmp_path, sets, **options)
    assert objective.step == 1
