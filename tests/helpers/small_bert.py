"""A random BERT with two layers and a tokenizer of its own."""

from pathlib import Path

import torch

from helpers.words import WORDS


def build_bert(
    folder: Path, *, hidden: int = 32, layers: int = 2, heads: int = 2, dropout: float = 0.1
) -> Path:
    """A random BERT in Hugging Face's format: encoder and WordPiece tokenizer."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    letters = [chr(c) for c in range(97, 123)]
    pieces = [
        *special,
        *letters,
        *[f"##{c}" for c in letters],
        *sorted({w for w in WORDS if len(w) > 1}),
    ]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(
        zip(
            ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), special, strict=True
        )
    )
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=64, **names
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=2 * hidden,
        max_position_embeddings=64,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    BertModel(config).save_pretrained(folder)
    return folder


def with_prompts(
    model: Path, folder: Path, *, include_prompt: bool = True, default: str | None = None
) -> Path:
    """A copy of a model that wants words before its texts, as e5 does: a query's, a passage's."""
    from sentence_transformers import SentenceTransformer

    own = SentenceTransformer(str(model), device="cpu")
    own.prompts, own.default_prompt_name = (
        {"query": "song of ", "passage": "a short book on "},
        default,
    )
    own.set_pooling_include_prompt(include_prompt)
    own.save_pretrained(str(folder))
    return folder
