"""Questions that a language model of the user's writes for documents: pseudo-queries of one more
kind.

A model that was trained to write queries, from sequence to sequence, reads only the document
(Nogueira et al., 2019, Document Expansion by Query Prediction, https://arxiv.org/abs/1904.08375).
Any other one reads an instruction too.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from isotrope.console.progress import tell
from isotrope.encoder.faults import loading, quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.improvement.clock import Clock
from isotrope.store.files import read_record, write_json
from isotrope.text.pseudo_queries import PseudoQueries
from isotrope.text.split import words_of

WRITTEN = "written"  # the kind of these pseudo-queries
INSTRUCTION = "{text}\n\nOne short question that this text answers:"
DOCUMENT_WORDS = 128  # that are read of a document
QUESTION_TOKENS = 32
BATCH = 16
WRITERS = ("ForConditionalGeneration", "ForCausalLM", "LMHeadModel")


def check_writer(model: str) -> None:
    """Check that a model can write, before any long work."""
    with loading(where := locate(model), model):
        names = AutoConfig.from_pretrained(where, trust_remote_code=False).architectures or []
    if not any(name.endswith(WRITERS) for name in names):
        raise UserError(
            f"{model} cannot write: it is a {', '.join(names) or 'model without a head'}",
            "name a language model that writes, such as a T5 or a Qwen",
            "cannot-write",
        )


class QuestionWriter:
    """A language model that writes the likeliest question for each text.

    Args:
        model: a folder or hub name; only safetensors are read, and no code of the model.
    """

    def __init__(self, model: str) -> None:
        where = locate(model)
        with loading(where, model), quiet():
            config = AutoConfig.from_pretrained(where, trust_remote_code=False)
            kind = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            self.model = kind.from_pretrained(
                where, use_safetensors=True, trust_remote_code=False
            ).eval()
            self.tokenizer = AutoTokenizer.from_pretrained(
                where, trust_remote_code=False, padding_side="left"
            )
        self.tokenizer.pad_token = self.tokenizer.pad_token or self.tokenizer.eos_token
        self.reads_text_only = bool(config.is_encoder_decoder)

    @torch.inference_mode()
    def write(self, texts: Sequence[str]) -> list[str]:
        """A question for each text; the model may answer with an empty one."""
        prompts = [self._prompt(text) for text in texts]
        tokens = self.tokenizer(prompts, return_tensors="pt", padding=True, truncation=True)
        tokens.pop("token_type_ids", None)
        output: Any = self.model.generate(
            **tokens,
            max_new_tokens=QUESTION_TOKENS,
            do_sample=False,
            pad_token_id=self.tokenizer.pad_token_id,
        )
        # A causal model repeats the prompt before its answer.
        begin = 0 if self.reads_text_only else tokens["input_ids"].shape[1]
        answers = self.tokenizer.batch_decode(output[:, begin:], skip_special_tokens=True)
        return [_first_line(answer) for answer in answers]

    def _prompt(self, text: str) -> str:
        words, separator = words_of(text)
        text = separator.join(words[:DOCUMENT_WORDS])
        if self.reads_text_only:
            return text
        text = INSTRUCTION.format(text=text)
        if not self.tokenizer.chat_template:
            return text
        turns = [{"role": "user", "content": text}]
        chat = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        return str(chat)


def _first_line(answer: str) -> str:
    lines = answer.strip().splitlines()
    return lines[0].strip() if lines else ""


def write_questions(
    model: str, documents: Sequence[str], count: int, file: Path, seed: int = 0
) -> PseudoQueries:
    """Write questions for ``count`` documents, drawn at random. A later call goes on from ``file``."""
    order = np.random.default_rng(seed).permutation(len(documents))[:count].tolist()
    questions: list[str] = []
    with suppress(UserError):  # missing or damaged: it is written again
        questions = read_record(file, ["questions"])["questions"][: len(order)]

    writer = QuestionWriter(model) if len(questions) < len(order) else None
    while writer is not None and len(questions) < len(order):
        rows = order[len(questions) : len(questions) + BATCH]
        questions += writer.write([documents[row] for row in rows])
        tell("questions", len(questions), len(order))
        write_json(file, {"questions": questions})

    written = [(text, row) for text, row in zip(questions, order, strict=True) if text]
    texts = [text for text, _ in written]
    return PseudoQueries(texts, [row for _, row in written], [WRITTEN] * len(written))


def writing_speed(model: str, documents: Sequence[str]) -> float:
    """Documents that a model writes a question for in a second."""
    writer = QuestionWriter(model)
    began = Clock.now()
    writer.write(documents[:BATCH])
    return min(BATCH, len(documents)) / max(Clock.now() - began, 1e-6)
