"""Questions that a language model of the user's writes for documents: pseudo-queries of one more
kind.

A model that was trained to write queries, from sequence to sequence, reads the document alone
(Nogueira et al., 2019, Document Expansion by Query Prediction, https://arxiv.org/abs/1904.08375).
Any other one reads an instruction too.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from isotrope.console.progress import tell
from isotrope.encoder.faults import loading, quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError
from isotrope.store.files import Record, read_record, write_json
from isotrope.text.pseudo_queries import PseudoQueries
from isotrope.text.split import words_of

SHARE = 0.2  # of the time of a race
KIND = "written"
INSTRUCTION = "{text}\n\nOne short question that this text answers:"
WORDS, TOKENS = 128, 32  # that are read of a document; of a question
BATCH = 16


def written(
    model: str,
    documents: Sequence[str],
    file: Path,
    seconds: float,
    most: int | None = None,
    seed: int = 0,
) -> tuple[PseudoQueries, int]:
    """Questions for documents in random order, as many as there is time for, and how many documents
    were read.

    A later call goes on from its file. An empty question is none.

    Args:
        model: a folder or hub name of a language model; safetensors only, and no code of the model.
        documents: texts.
        file: where the questions are kept.
        seconds: the time for all calls together.
        most: so many documents at most; None: all.
        seed: of the order.
    """
    order = np.random.default_rng(seed).permutation(len(documents))[:most].tolist()
    kept: Record = {"questions": [], "seconds": 0.0}
    with suppress(UserError):
        kept = read_record(file, ["questions", "seconds"])
    found, ask = kept["questions"], None
    while len(found) < len(order) and kept["seconds"] < seconds:
        began, ask = time.monotonic(), ask or _writer(model)
        found += ask([documents[row] for row in order[len(found) : len(found) + BATCH]])
        kept["seconds"] += time.monotonic() - began
        tell("questions", len(found), len(order))
        write_json(file, kept)
    asked = [(question, row) for question, row in zip(found, order, strict=False) if question]
    questions, rows = [question for question, _ in asked], [row for _, row in asked]
    return PseudoQueries(questions, rows, [KIND] * len(asked)), len(found)


def check_writer(model: str) -> None:
    """Refuse a model that cannot write, before any long work."""
    with loading(where := locate(model), model):
        names = AutoConfig.from_pretrained(where, trust_remote_code=False).architectures or []
    if not any(
        name.endswith(("ForConditionalGeneration", "ForCausalLM", "LMHeadModel")) for name in names
    ):
        problem = f"{model} cannot write: it is a {', '.join(names) or 'model without a head'}"
        raise UserError(problem, "name a language model that writes, such as a T5 or a Qwen")


def _writer(name: str) -> Callable[[Sequence[str]], list[str]]:
    """Texts -> a question for each, the likeliest."""
    where = locate(name)
    kind = (
        AutoModelForSeq2SeqLM
        if AutoConfig.from_pretrained(where).is_encoder_decoder
        else AutoModelForCausalLM
    )
    with loading(where, name), quiet():
        model = kind.from_pretrained(where, use_safetensors=True, trust_remote_code=False).eval()
        tokenizer = AutoTokenizer.from_pretrained(
            where, trust_remote_code=False, padding_side="left"
        )
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token

    def told(text: str) -> str:
        words, between = words_of(text)
        text = between.join(words[:WORDS])
        if model.config.is_encoder_decoder:
            return text
        text = INSTRUCTION.format(text=text)
        if not tokenizer.chat_template:
            return text
        turns = [{"role": "user", "content": text}]
        return str(tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True))

    @torch.inference_mode()
    def ask(texts: Sequence[str]) -> list[str]:
        read = tokenizer(
            [told(text) for text in texts], return_tensors="pt", padding=True, truncation=True
        )
        read.pop("token_type_ids", None)
        made = model.generate(
            **read, max_new_tokens=TOKENS, do_sample=False, pad_token_id=tokenizer.pad_token_id
        )
        begin = 0 if model.config.is_encoder_decoder else read["input_ids"].shape[1]
        answers = tokenizer.batch_decode(made[:, begin:], skip_special_tokens=True)
        return [(answer.strip().splitlines() or [""])[0].strip() for answer in answers]

    return ask
