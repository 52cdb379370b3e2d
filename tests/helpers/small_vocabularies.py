"""Small tokenizers of each kind, which are trained on two languages, and models with them."""

from functools import cache
from pathlib import Path

import torch
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaModel

ENGLISH = """The old king of the island sings in the evening. Nobody knows where the ship has gone, and the sailors
are singing again. Kings and queens were living in towers. The shipping of goods is cheaper in winter than in summer."""
GERMAN = """Der alte König der Insel singt am Abend. Niemand weiß, wohin das Schiff gefahren ist, und die Schiffer
singen wieder. Könige und Königinnen wohnten in Türmen. Die Verschiffung der Güter ist im Winter billiger als im Mai."""
TEXTS = [line for text in (ENGLISH, GERMAN) for line in text.split(". ")]
WORDS = sorted({word for text in TEXTS for word in text.split()})
MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
KINDS = ["Unigram", "BPE", "bytes", "WordPiece"]


def trained(kind: str) -> Tokenizer:
    """A tokenizer of this kind for both languages, as XLM-R, an older BPE, RoBERTa and BERT have
    it.
    """
    common = {
        "vocab_size": 300 if kind != "bytes" else 420,
        "special_tokens": MARKS,
        "show_progress": False,
    }
    if kind == "Unigram":
        tokenizer, trainer = (
            Tokenizer(models.Unigram()),
            trainers.UnigramTrainer(unk_token="<unk>", **common),
        )
        tokenizer.normalizer, tokenizer.pre_tokenizer = (
            normalizers.NFKC(),
            pre_tokenizers.Metaspace(),
        )
    elif kind == "WordPiece":
        tokenizer, trainer = (
            Tokenizer(models.WordPiece(unk_token="<unk>")),
            trainers.WordPieceTrainer(**common),
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    elif kind == "BPE":
        tokenizer, trainer = Tokenizer(models.BPE(unk_token="<unk>")), trainers.BpeTrainer(**common)
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    else:
        tokenizer = Tokenizer(models.BPE())
        trainer = trainers.BpeTrainer(
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common
        )
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", special=True)])
    ends = [(mark, tokenizer.token_to_id(mark)) for mark in ("<s>", "</s>")]
    tokenizer.post_processor = (
        processors.RobertaProcessing(*reversed(ends), trim_offsets=False)
        if kind == "bytes"
        else processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    )
    return tokenizer


@cache
def roberta(kind: str, place: Path) -> Path:
    """The folder of a random RoBERTa with such a tokenizer."""
    tokenizer, names = trained(kind), dict(zip(("bos", "pad", "eos", "unk"), MARKS, strict=True))
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=80,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        **sizes,
    )
    RobertaModel(config).save_pretrained(place / kind)
    special = {f"{name}_token": mark for name, mark in names.items()} | {"mask_token": "<mask>"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **special
    ).save_pretrained(place / kind)
    return place / kind
