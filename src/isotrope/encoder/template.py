"""Words with a gap around every text; the state of the gap is the text's vector (PromptBERT).

Jiang et al., EMNLP 2022, Sec. 4.1. https://aclanthology.org/2022.emnlp-main.603
"""

from __future__ import annotations

from typing import Any

from sentence_transformers.sentence_transformer.modules import Pooling, Transformer, WordWeights
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerFast

from isotrope.errors import UserError

TEMPLATE = 'This sentence : "{text}" means {mask}.'


def frame_ids(tokenizer: Any, template: str) -> tuple[list[int], list[int]]:
    """The token ids before a text and behind it: [CLS] and the template's words, the template's words and [SEP].

    Raises:
        UserError: the tokenizer has no mask token; the template lacks a place for the text, or for the mask.
    """
    if not getattr(tokenizer, "is_fast", False) or None in (tokenizer.mask_token, tokenizer.cls_token_id):
        remedy = "choose another pooling, or a masked language model such as isotrope/tiny"
        raise UserError("a template needs a tokenizer with a mask token, and this model's has none", remedy)
    if template.count("{text}") != 1 or template.count("{mask}") != 1:
        raise UserError(f"the template {template!r} is not possible", "write {text} once and {mask} once")
    words = template.replace("{mask}", tokenizer.mask_token).split("{text}")
    before, behind = (tokenizer.encode(part, add_special_tokens=False) for part in words)
    return [tokenizer.cls_token_id, *before], [*behind, tokenizer.sep_token_id]


def frame_size(tokenizer: Any) -> tuple[int, int]:
    """How many tokens the tokenizer itself puts before a text and behind it."""
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    return special.index(0), special[::-1].index(0)


def template_modules(transformer: Transformer) -> list[nn.Module]:
    """Make the tokenizer put `TEMPLATE` around every text. The modules that take the mask's state: (N, L, D) -> (N, D).

    A saved model has the template in its tokenizer. So plain sentence-transformers gives the same vectors.

    Raises:
        UserError: as `frame_ids`.
    """
    own: Any = transformer.tokenizer
    frame = frame_ids(own, TEMPLATE)
    pieces = [
        {"id": f"<{place}>", "ids": ids, "tokens": own.convert_ids_to_tokens(ids)} for place, ids in enumerate(frame)
    ]
    backend = Tokenizer.from_str(own.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(single="<0> $A <1>", pair="<0> $A $B <1>", special_tokens=pieces)
    # Classes of one architecture, such as BertTokenizer, put a frame of their own around texts when they are loaded.
    transformer.processor = PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=own.model_max_length, padding_side=own.padding_side,
        truncation_side=own.truncation_side, model_input_names=own.model_input_names,
        **{name: token for name, token in own.special_tokens_map.items() if isinstance(token, str)},
    )  # fmt: skip
    words = [str(token) for token in own.convert_ids_to_tokens(list(range(len(own))))]
    weights = WordWeights(words, {own.mask_token: 1.0}, unknown_word_weight=0.0)
    return [weights.requires_grad_(False), Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")]
