"""Every shipped preset trains 200 steps on Wikipedia; the record is kept. And each paper's preset
resumes exactly.

The encoders are random and small, but of the preset's shape: a sixteenth of the width, a sixth of
the depth, BERT or RoBERTa, groups of as many channels; sentences have 16 tokens. The teachers are
bags of random word vectors in such shapes.
"""

import itertools
import json
import lzma
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, BertConfig, BertModel, RobertaConfig, RobertaModel

import isotrope
from helpers.paths import ROOT
from isotrope.encoder.locate import locate
from isotrope.preset.preset import Preset, preset_names, read_preset
from isotrope.training.processes import environment

STEPS, BATCH = 200, 8
RECORD = ROOT / "docs" / "results" / "presets-200.json"
SECOND = ["esimcse", "mocose", "ct", "pcl", "sg-opt"]  # presets with second encoders
# presets that read the tokens of the text
TOKENS = ["tsdae", "diffcse", "isbert", "infocse", "declutr", "paser"]
MORE = ["promptbert", "sncse", "vascl", "contrastive-bt"]  # further ones, with parts of their own
# a loss that begins lower has nothing to teach: whitened views of one pass are told apart at once
SOLVED = 1e-4


def build(folder: Path, name: str, spread: float = 1.0) -> Path:
    """A random encoder like ``bert-base`` or ``roberta-large``; ``spread`` scales the word vectors."""
    family, size = name.split("-")
    words = AutoTokenizer.from_pretrained(locate("isotrope/tiny"))
    words.model_max_length = 128
    words.save_pretrained(folder)
    width, depth = (64, 4) if size == "large" else (48, 2)
    shape = {
        "vocab_size": len(words),
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 4,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 160,
        "pad_token_id": words.pad_token_id,
    }
    torch.manual_seed(len(name))
    model = (
        RobertaModel(RobertaConfig(**shape))
        if family == "roberta"
        else BertModel(BertConfig(**shape))
    )
    model.get_input_embeddings().weight.data *= spread
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Students and teachers of four shapes."""
    folder = tmp_path_factory.mktemp("encoders")
    shapes = [f"{family}-{size}" for family in ("bert", "roberta") for size in ("base", "large")]
    students = {name: str(build(folder / name, name)) for name in shapes}
    return students | {
        f"simcse-{name}": str(build(folder / f"t-{name}", name, spread=50.0)) for name in shapes
    }


@pytest.fixture(scope="module")
def wiki(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first sentences of the Wikipedia sample, as many as 200 steps take and a few more."""
    path = tmp_path_factory.mktemp("wiki") / "wiki.txt"
    with lzma.open(data / "wiki" / "wiki_train_00.txt.xz", "rt", encoding="utf-8") as lines:
        path.write_text("".join(itertools.islice(lines, STEPS * BATCH + 300)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def articles(data: Path) -> Path:
    """A thousand articles with titles and paragraphs: two pairs of each are enough."""
    return data / "wiki" / "articles_heldout_1k.jsonl.xz"


@pytest.fixture(scope="module")
def record() -> Iterator[dict[str, Any]]:
    """Preset -> its first and last fifty steps; those that have trained are renewed in the record."""
    found: dict[str, Any] = {}
    yield found
    if found:
        kept = json.loads(RECORD.read_text(encoding="utf-8"))["presets"] if RECORD.is_file() else {}
        presets = {name: means for name, means in (kept | found).items() if name in preset_names()}
        whole = {"environment": environment(), "steps": STEPS, "batch": BATCH, "presets": presets}
        RECORD.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def shape(preset: Preset) -> str:
    """Which of the four encoders stands for the preset's backbone."""
    backbone = preset.encoder.backbone
    return ("roberta-" if "roberta" in backbone else "bert-") + (
        "large" if "large" in backbone else "base"
    )


def settings(preset: Preset) -> list[str]:
    """The preset's own, but for what a random encoder of this size asks: groups, the step, the
    batch; mean pooling.

    The [CLS] of random layers knows too little of its sentence: in 200 steps the loss goes to log
    8, by collapse.
    """
    # dropout in its heads hides what tells random vectors apart
    rate = 3e-4 if "branches" in preset.views else 1e-3
    chosen = [
        f"train.batch_size={BATCH}",
        "train.epochs=1",
        f"train.learning_rate={rate}",
        "train.save_steps=100",
    ]
    mask = preset.encoder.pooling == "mask"  # a template of ten tokens
    chosen += [
        "train.eval_steps=200",
        f"train.max_length={26 if mask else 16}",
        "train.precision=fp32",
    ]
    chosen += [] if mask or preset.name == "simcse-tiny" else ["encoder.pooling=mean"]
    # else it has half as many steps
    chosen += ["train.accumulation=1"] if preset.train.accumulation > 1 else []
    if "key_queue" in preset.scores:  # as many batches as the preset has
        size = preset.scores["key_queue"]["size"] * BATCH // preset.train.batch_size
        chosen.append(f"scores.key_queue.size={size}")
    if preset.peers and "layers" in preset.peers:  # two layers and the embeddings
        chosen += ["peers.layers.count=3", "peers.layers.on=[1, 2, 3]", "views.passes=4"]
    chosen += [
        f"terms.{label}.size=64" for label in ("self_guided", "translated") if label in preset.terms
    ]
    # of these tokens
    chosen += (
        ["terms.diffcse.generator=isotrope/tiny"] if preset.name == "diffcse-bert-base" else []
    )
    if preset.pairs and preset.pairs.kind == "spans":  # of as many words as are read
        chosen += ["pairs.shortest=2", "pairs.longest=8"]
    if "sgw" in preset.views:
        own = (
            256
            if preset.encoder.backbone.startswith("isotrope/")
            else 768
            if "base" in shape(preset)
            else 1024
        )
        channels = own // preset.views["sgw"]["groups"]
        chosen.append(f"views.sgw.groups={(48 if 'base' in shape(preset) else 64) // channels}")
    return chosen


def teachers(preset: Preset, encoders: dict[str, str]) -> dict[str, list[str]]:
    """A bag of word vectors of the shape that each teacher's name says."""
    found = {}
    for label, table in preset.teachers.items():
        if models := table.get("models"):
            found[label] = [encoders.get(model, encoders["simcse-bert-base"]) for model in models]
    return found


def learned(means: dict[str, dict[str, float]]) -> None:
    """The sum falls, and the contrast. ListNet's term alone may rise: the contrast pulls against it
    at first.
    """
    assert means["loss"]["last"] < max(means["loss"]["first"], SOLVED), means
    if "infonce" in means:
        assert means["infonce"]["last"] <= means["infonce"]["first"], means  # logged to four digits


def run(
    name: str, encoders: dict[str, str], corpus: Path, output: Path, *more: str, **options: Any
) -> Any:
    preset = read_preset(name)
    if "translated" in preset.terms:
        corpus, options = (
            with_positives(corpus, output),
            {"text_column": "text", "positive": "other", **options},
        )
    return isotrope.train(
        corpus,
        output=output,
        preset=name,
        model=encoders[shape(preset)],
        teachers=teachers(preset, encoders),
        dev="none",
        labels="none",
        overrides=[*settings(preset), *more],
        **{"max_texts": STEPS * BATCH, **options},
    )


def with_positives(corpus: Path, output: Path) -> Path:
    """A table in the place of translations there and back: each sentence beside every second word
    of it.
    """
    rows = [
        {"text": one, "other": " ".join(one.split()[::2])}
        for one in corpus.read_text("utf-8").splitlines()
    ]
    table = output.with_suffix(".jsonl")
    table.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return table


@pytest.mark.slow
@pytest.mark.parametrize("name", preset_names())
def test_two_hundred_steps(
    name: str,
    encoders: dict[str, str],
    wiki: Path,
    articles: Path,
    record: dict[str, Any],
    tmp_path: Path,
) -> None:
    finished = run(name, encoders, articles if read_preset(name).pairs else wiki, tmp_path / "run")
    lines = [
        json.loads(line) for line in (finished.folder / "metrics.jsonl").read_text().splitlines()
    ]
    logged = [line for line in lines if "loss" in line]
    assert [line["step"] for line in logged] == [50, 100, 150, 200]
    terms = list(read_preset(name).terms)
    means = {
        term: {"first": logged[0][term], "last": logged[-1][term]} for term in [*terms, "loss"]
    }
    record[name] = {
        "shape": shape(read_preset(name)),
        "settings": settings(read_preset(name)),
        "means": means,
    }
    values = torch.tensor([line[term] for line in logged for term in terms])
    assert torch.isfinite(values).all()
    learned(means)


PAPERS = ["whitenedcse", "dclr", "rankcse-listnet", "rankcse-listmle", "all-three", "distil"]
# the others: in the slow tests
QUICK = ["all-three", "distil", "mocose", "tsdae"]  # a part of each kind that has a state
LONG = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (*PAPERS, *SECOND, *TOKENS, *MORE)
    if name not in QUICK
]


@pytest.mark.parametrize("name", [*QUICK, *LONG])
def test_a_papers_preset_resumes_exactly(
    name: str, encoders: dict[str, str], corpus_file: Path, tmp_path: Path
) -> None:
    """Head, statistics, random steps, teachers, second encoders, queues: a run stopped at half ends
    as a whole one.
    """
    more = [
        "train.save_steps=5",
        *(["views.sgw.running=true"] if "sgw" in read_preset(name).views else []),
    ]
    # one of them by gradient caching
    more += ["train.mini_batch_size=5"] if name == "all-three" else []

    def weights(folder: str) -> dict[str, torch.Tensor]:
        done = run(name, encoders, corpus_file, tmp_path / folder, *more, max_texts=10 * BATCH)
        kept = load_file(
            tmp_path / folder / "checkpoints" / "checkpoint-10" / "objective.safetensors"
        )
        return kept | load_file(done.folder / "model" / "model.safetensors")

    whole = weights("whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    # as if killed while it was written
    (tmp_path / "cut" / "checkpoints" / "checkpoint-10" / "contents.json").unlink()
    (tmp_path / "cut" / "result.json").unlink()
    again = weights("cut")
    assert set(whole) == set(again)
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_every_preset_is_in_the_record() -> None:
    """A new preset is trained once: ``pytest -m slow tests/contract/test_presets_train.py -k
    NAME``.
    """
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    assert set(kept["presets"]) == set(preset_names())
    for name, run in kept["presets"].items():
        assert set(run["means"]) == {*read_preset(name).terms, "loss"}
        learned(run["means"])
