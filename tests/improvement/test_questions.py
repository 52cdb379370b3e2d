"""Questions that a language model writes: the same as one by one, kept in a file, and learned from
by improve.
"""

from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from helpers.library import write_library
from helpers.refusals import refused
from helpers.small_causal import build_decoder
from helpers.words import sentences
from isotrope.errors import UserError
from isotrope.improvement import questions
from isotrope.improvement.improve import improve
from isotrope.improvement.questions import (
    INSTRUCTION,
    WRITTEN,
    check_writer,
    write_questions,
    writing_speed,
)

TEXTS = [" ".join(sentences(2, seed=place)) for place in range(7)]


def language_model(folder: Path, kind: str) -> Path:
    """A random one that writes words, and never ends."""
    build_decoder(folder, pooled=False)
    words = len(AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(0)
    model: PreTrainedModel
    if kind == "t5":
        sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
        config = T5Config(vocab_size=words, decoder_start_token_id=0, eos_token_id=None, **sizes)
        model = T5ForConditionalGeneration(config)
    else:
        sizes = {
            "num_attention_heads": 2,
            "num_hidden_layers": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
        }
        config = Qwen3Config(
            vocab_size=words,
            head_dim=8,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=None,
            **sizes,
        )
        model = Qwen3ForCausalLM(config)
    for weight in model.parameters():
        weight.data.normal_(0, 0.5)
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["t5", "qwen"])
def test_every_document_gets_the_likeliest_question(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "BATCH", 3)
    model = language_model(tmp_path / kind, kind)
    found = write_questions(str(model), TEXTS, 7, tmp_path / "questions.json")
    assert (sorted(found.documents), set(found.kinds)) == (list(range(7)), {WRITTEN})
    if kind == "qwen":
        tokenizer, alone = (
            AutoTokenizer.from_pretrained(model),
            AutoModelForCausalLM.from_pretrained(model),
        )
        for question, row in zip(found.texts, found.documents, strict=True):
            ids = tokenizer(
                INSTRUCTION.format(text=TEXTS[row]), return_tensors="pt", truncation=True
            )["input_ids"]
            for _ in range(questions.QUESTION_TOKENS):
                ids = torch.cat([ids, alone(ids).logits[:, -1:].argmax(-1)], dim=1)
            told = tokenizer.decode(ids[0, -questions.QUESTION_TOKENS :], skip_special_tokens=True)
            assert question == told.strip()


def test_it_goes_on_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "BATCH", 3)
    model, file = str(language_model(tmp_path / "t5", "t5")), tmp_path / "questions.json"
    write_questions(model, TEXTS, 3, file)
    some = write_questions(model, TEXTS, 5, file)
    assert write_questions(model, TEXTS, 5, tmp_path / "other.json") == some
    assert write_questions("no model any more", TEXTS, 5, file) == some, "nothing is written twice"


def test_the_speed_of_writing_is_measured(tmp_path: Path) -> None:
    assert writing_speed(str(language_model(tmp_path / "t5", "t5")), TEXTS) > 0


def test_pickled_weights_are_not_opened(tmp_path: Path) -> None:
    model = language_model(tmp_path / "t5", "t5")
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    with refused("no-safetensors"):
        write_questions(str(model), TEXTS, 5, tmp_path / "questions.json")


def test_a_model_that_cannot_write_is_refused(tiny_model: Path) -> None:
    with pytest.raises(UserError) as caught:
        check_writer(str(tiny_model))
    assert caught.value.code == "cannot-write"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text("[]", encoding="utf-8")
    with refused("model-not-loadable"):
        check_writer(str(tmp_path))


@pytest.mark.usefixtures("untrained")
def test_improve_learns_from_them(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "QUESTION_TOKENS", 6)
    library, quiet = write_library(tmp_path / "library.jsonl", 100), Console(quiet=True)
    model = str(language_model(tmp_path / "t5", "t5"))
    found = improve(whole, library, minutes=5, query_model=model, console=quiet)
    plan = found.record["plan"]
    assert plan["questions"] > 0
    without = improve(whole, library, plan={**plan, "questions": 0}, console=quiet)
    assert without.record["table"]["query map"] != found.record["table"]["query map"]
