"""A small raw language model from text: a vocabulary, then masked-language modelling.

    python -m benchmarks.models.pretrain TEXT... --output FOLDER  # of isotrope/tiny's size
    python -m benchmarks.models.pretrain TEXT... --output FOLDER --size small --tokens 4000000000

Everything is the libraries' own: tokenizers learns a WordPiece vocabulary, and transformers' Trainer
trains a small ModernBERT (https://arxiv.org/abs/2412.13663) with DataCollatorForLanguageModeling. The
learning rate is warmed up, stays, and falls over the last fifth of the steps. FOLDER holds the encoder
and its tokenizer, which `isotrope train --model FOLDER` takes. The same command goes on where it
stopped.

The shipped isotrope/tiny was made by an earlier program, which also started from word vectors of the
same text; this recipe does not repeat its weights.
"""

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset
from tokenizers import BertWordPieceTokenizer
from transformers import (
    BertTokenizerFast,
    DataCollatorForLanguageModeling,
    ModernBertConfig,
    ModernBertForMaskedLM,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_utils import get_last_checkpoint

import isotrope.text

BLOCK = 128  # tokens that the model reads at once
MASKED_SHARE = 0.3  # of the tokens (Wettig et al., 2023, https://arxiv.org/abs/2202.08005)
WARMUP_STEPS = 200
DECAY_SHARE = 0.2  # of the steps, over which the learning rate falls to 0
LINES_AT_A_TIME = 1000


@dataclass(frozen=True)
class Size:
    """The shape of the encoder, and the settings of its training."""

    layers: int
    width: int
    inner: int  # GeGLU's inner width
    heads: int
    vocabulary: int
    batch_size: int  # blocks a step
    tokens: int  # read in all
    learning_rate: float = 2e-3


SIZES = {
    "tiny": Size(4, 256, 384, 4, 16_384, 32, 60_000_000),
    "mini": Size(6, 384, 576, 6, 16_384, 64, 500_000_000),
    "small": Size(12, 512, 768, 8, 32_768, 256, 4_000_000_000, learning_rate=1e-3),
}


def learn_vocabulary(lines: Iterator[str], size: int) -> BertTokenizerFast:
    """A lower-case WordPiece tokenizer like BERT's, learnt from the lines."""
    learner = BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(lines, vocab_size=size, limit_alphabet=1000, show_progress=False)
    return BertTokenizerFast(
        tokenizer_object=learner._tokenizer,  # its wrapper has no other way out
        model_max_length=512,
    )


def blocks(dataset: Dataset, tokenizer: BertTokenizerFast) -> Dataset:
    """The sentences' tokens one behind another, cut into blocks of equal length."""

    def join(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        encoded = tokenizer(rows["text"], add_special_tokens=True)["input_ids"]
        tokens = list(itertools.chain.from_iterable(encoded))
        starts = range(0, len(tokens) - BLOCK + 1, BLOCK)
        return {"input_ids": [tokens[start : start + BLOCK] for start in starts]}

    return dataset.map(
        join, batched=True, batch_size=LINES_AT_A_TIME, remove_columns=dataset.column_names
    )


def build_model(size: Size, tokenizer: BertTokenizerFast) -> ModernBertForMaskedLM:
    """A new encoder with random weights. Every layer sees the whole block."""
    config = ModernBertConfig(
        vocab_size=len(tokenizer),
        hidden_size=size.width,
        intermediate_size=size.inner,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        layer_types=["full_attention"] * size.layers,
        max_position_embeddings=512,
        pad_token_id=tokenizer.pad_token_id,
        cls_token_id=tokenizer.cls_token_id,
        bos_token_id=tokenizer.cls_token_id,
        sep_token_id=tokenizer.sep_token_id,
        eos_token_id=tokenizer.sep_token_id,
        sparse_prediction=True,
    )
    return ModernBertForMaskedLM(config)


def pretrain(texts: list[str], output: Path, size: Size, tokens: int, seed: int) -> Path:
    """Make a tokenizer and train an encoder -> the folder of both."""
    dataset = (
        isotrope.text.read_text([Path(text) for text in texts], split="sentences").texts().dataset
    )
    tokenizer = learn_vocabulary(iter(dataset["text"]), size.vocabulary)
    steps = max(1, tokens // (size.batch_size * BLOCK))
    decay_steps = round(DECAY_SHARE * steps)
    warmup_steps = min(WARMUP_STEPS, steps // 10)
    work = output.with_name(f"{output.name}.work")
    arguments = TrainingArguments(
        output_dir=str(work),
        max_steps=steps,
        per_device_train_batch_size=size.batch_size,
        learning_rate=size.learning_rate,
        weight_decay=0.01,
        adam_beta2=0.98,
        max_grad_norm=0.5,
        warmup_steps=warmup_steps,
        lr_scheduler_type="warmup_stable_decay",
        lr_scheduler_kwargs={"num_decay_steps": decay_steps},
        logging_steps=50,
        save_steps=500,
        save_total_limit=2,
        seed=seed,
        report_to="none",
    )
    trainer = Trainer(
        model=build_model(size, tokenizer),
        args=arguments,
        train_dataset=blocks(dataset, tokenizer),
        data_collator=DataCollatorForLanguageModeling(
            tokenizer, mlm_probability=MASKED_SHARE, seed=seed
        ),
    )
    checkpoint = get_last_checkpoint(str(work)) if work.is_dir() else None
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.model.model.save_pretrained(output)  # without the masked-language head
    tokenizer.save_pretrained(output)
    return output


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", help="files or folders of text")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--tokens", type=int, help="to read in all; default: the size's")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chosen = SIZES[options.size]
    pretrain(options.texts, options.output, chosen, options.tokens or chosen.tokens, options.seed)
