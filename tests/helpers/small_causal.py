"""A small random decoder as a sentence encoder, in the shape of Qwen3. It reads from left to right."""

from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from helpers.words import WORDS

END = "<|endoftext|>"  # behind every text, and padding too, as in Qwen3's embedding models


def build_decoder(
    folder: Path,
    side: Literal["left", "right"] = "left",
    *,
    pooled: bool = True,
    kind: str = "Qwen3",
    **config: Any,
) -> Path:
    """Two layers, 32 units. ``side``: of the padding. ``pooled``: the last token's state, with a
    query's prompt.
    """
    words = {word: number for number, word in enumerate(dict.fromkeys([END, "<unk>", *WORDS]))}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, 0)]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=64,
        unk_token="<unk>",
        eos_token=END,
        pad_token=END,
        padding_side=side,
    ).save_pretrained(folder)
    shape = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
        "num_key_value_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "attention_dropout": 0.0,
        "pad_token_id": 0,
        "eos_token_id": 0,
        "bos_token_id": None,
    }
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(
        getattr(transformers, f"{kind}Config")(**shape | config)
    )
    for name, weight in model.named_parameters():  # they are born small: let every part matter
        if "norm" not in name:
            weight.data.normal_(0, 0.2)
    model.save_pretrained(folder)
    if pooled:
        modules = [Transformer(str(folder)), Pooling(32, "lasttoken")]
        prompts = {"query": "the song of the ", "document": ""}
        SentenceTransformer(modules=modules, prompts=prompts, device="cpu").save_pretrained(
            str(folder)
        )
    return folder
