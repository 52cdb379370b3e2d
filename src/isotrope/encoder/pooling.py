"""How token embeddings become one sentence embedding, built from sentence-transformers' own modules
alone.

So every saved model loads in plain sentence-transformers, and its folder declares its pooling.
"""

from collections.abc import Callable
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense as Dense
from sentence_transformers.sentence_transformer.modules import (
    Pooling,
    Transformer,
    WeightedLayerPooling,
    WordWeights,
)
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import nn
from transformers import PreTrainedTokenizerFast

from isotrope.errors import UserError, check_known

TEMPLATE = 'This sentence : "{text}" means {mask}.'

# Pooling("cls") takes these, if there are any, for the first token's
CARRIED = "cls_token_embeddings"

# name -> the hidden states that are averaged, of layers 0 (embeddings) … L; None: the last alone
LAYERS: dict[str, Callable[[int], list[int]] | None] = {
    "cls": None,  # the first token
    "mean": None,  # the mean over real tokens
    # of what enters the first layer: static vectors, as GloVe's are
    "embeddings": lambda last: [0],
    # embeddings + last layer: SimCSE's published "first-last avg" (56.70)
    "first_last": lambda last: [0, last],
    "first_layer_last": lambda last: [1, last],  # first transformer layer + last (60.73)
    "last_two": lambda last: [last - 1, last],  # ConSERT
    "cls_head": None,  # the first token through the model's own head: Linear + Tanh
    # the first token through a new one, the same each time: DCLR's code on RoBERTa, which has none
    "new_head": None,
    "lasttoken": None,  # the last real token: a decoder's only one that has seen the whole text
    "mask": None,  # the mask token of a template around the text: PromptBERT
}


def check_pooling(pooling: str | None) -> None:
    """Refuse an unknown name; None is the model's own."""
    if pooling is not None:
        check_known("pooling =", pooling, LAYERS)


def own_head(modules: list[Any], trained: bool, model: str) -> list[nn.Module]:
    """The first token through the head saved with a model (``train.keep_head``), else through a
    ``trained`` pooler.
    """
    if (
        len(modules) > 2
        and getattr(modules[1], "pooling_mode", None) == "cls"
        and isinstance(modules[2], Dense)
    ):
        return modules[1:3]
    pooler = getattr(getattr(modules[0].auto_model, "pooler", None), "dense", None)
    if pooler is None or not trained:
        remedy = (
            "train it with train.keep_head=true, or choose 'cls', or 'new_head' for a random one"
        )
        raise UserError(
            f"pooling = 'cls_head' takes the model's own head, and {model} has none",
            remedy,
            "no-head",
        )
    head = dense(pooler.weight, pooler.bias, nn.Tanh())
    return [Pooling(modules[0].get_embedding_dimension(), pooling_mode="cls"), head]


def pooling_modules(transformer: Transformer, pooling: str) -> list[nn.Module]:
    """The modules that follow ``transformer`` for a pooling's name: -> (N, D)."""
    dim = transformer.get_embedding_dimension()
    config = transformer.auto_model.config
    layers = LAYERS[pooling]
    config.output_hidden_states = layers is not None
    if layers is not None:
        last = config.num_hidden_layers
        weights = torch.zeros(last + 1)
        weights[layers(last)] = 1.0
        average = WeightedLayerPooling(
            dim, last, layer_start=0, layer_weights=nn.Parameter(weights)
        )
        return [average, Pooling(dim, pooling_mode="mean")]
    if pooling == "mask":
        return template_modules(transformer)
    if pooling == "new_head":
        # as BERT's new layers
        weight = 0.02 * torch.randn(dim, dim, generator=torch.Generator().manual_seed(0))
        return [Pooling(dim, pooling_mode="cls"), dense(weight, torch.zeros(dim), nn.Tanh())]
    return [Pooling(dim, pooling_mode=pooling)]


def frame_ids(tokenizer: Any, template: str) -> tuple[list[int], list[int]]:
    """The token ids before a text ([CLS] and words) and after it (words and [SEP]), with a gap for
    the text's vector.

    PromptBERT: Jiang et al., EMNLP 2022, Sec. 4.1. https://aclanthology.org/2022.emnlp-main.603
    """
    if not getattr(tokenizer, "is_fast", False) or None in (
        tokenizer.mask_token,
        tokenizer.cls_token_id,
    ):
        remedy = "choose another pooling, or a masked language model such as isotrope/tiny"
        raise UserError(
            "a template needs a tokenizer with a mask token, and this model's has none",
            remedy,
            "no-mask-token",
        )
    if template.count("{text}") != 1 or template.count("{mask}") != 1:
        raise UserError(
            f"the template {template!r} is not possible",
            "write {text} once and {mask} once",
            "impossible-template",
        )
    words = template.replace("{mask}", tokenizer.mask_token).split("{text}")
    before, behind = (tokenizer.encode(part, add_special_tokens=False) for part in words)
    return [tokenizer.cls_token_id, *before], [*behind, tokenizer.sep_token_id]


def frame_size(tokenizer: Any) -> tuple[int, int]:
    """How many tokens the tokenizer itself puts before a text and behind it."""
    special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    return special.index(0), special[::-1].index(0)


def rebuilt(own: Any, backend: Tokenizer) -> PreTrainedTokenizerFast:
    """A tokenizer with another backend. Its class is general: BertTokenizer would put its own frame
    around texts.
    """
    settings = {
        name: token for name, token in own.special_tokens_map.items() if isinstance(token, str)
    }
    for name in ("model_max_length", "model_input_names", "padding_side", "truncation_side"):
        settings[name] = getattr(own, name)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)


def template_modules(transformer: Transformer) -> list[nn.Module]:
    """Make the tokenizer, also the saved one, put `TEMPLATE` around every text. Modules that take
    the mask's state.
    """
    own: Any = transformer.tokenizer
    frame = frame_ids(own, TEMPLATE)
    pieces = [
        {"id": f"<{i}>", "ids": ids, "tokens": own.convert_ids_to_tokens(ids)}
        for i, ids in enumerate(frame)
    ]
    backend = Tokenizer.from_str(own.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(
        single="<0> $A <1>", pair="<0> $A $B <1>", special_tokens=pieces
    )
    transformer.processor = rebuilt(own, backend)
    words = [str(token) for token in own.convert_ids_to_tokens(list(range(len(own))))]
    weights = WordWeights(words, {own.mask_token: 1.0}, unknown_word_weight=0.0)
    return [weights, Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")]


def split_layers(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules that a model with an average of layers is saved with: the same vectors in every
    version.

    The last entry of transformers' ``hidden_states`` is the last layer before its final norm in
    some versions and after it in others (ModernBERT: before it until 5.0 at least).
    ``token_embeddings`` never differ. So the last layer comes from there, and the earlier layers
    alone from ``hidden_states``:

        Pooling(mean)                      the mean of the last layer               (N, D)
        Dense(identity) -> CARRIED         kept, where the second Pooling takes it
        Dense(zeros) of token_embeddings   width 1: where a backend has no ``hidden_states``, as
        ONNX, the last module
                                           fails, and the last layer is not taken for the average
        WeightedLayerPooling               the average of the earlier layers        (N, L, D)
        Pooling(cls, mean)                 both means, side by side                 (N, 2D)
        Dense                              their weighted sum                       (N, D)

    `join_layers` is the inverse. Models without such an average are returned as they are.
    """
    at = next(
        (i for i, module in enumerate(modules) if isinstance(module, WeightedLayerPooling)),
        len(modules),
    )
    pair: list[Any] = modules[at : at + 2]
    if len(pair) < 2 or getattr(pair[1], "pooling_mode", None) != "mean":
        return modules
    average, pooling = pair
    dim, weights = average.embedding_dimension, average.layer_weights.detach().cpu().clone()
    share, one = weights[-1] / weights.sum(), torch.eye(dim)  # of the last layer
    if share == 1:  # of the last layer alone
        return [*modules[:at], *modules[at + 1 :]]
    weights[-1] = 0.0
    chain = [
        Pooling(dim, "mean", pooling.include_prompt),
        dense(one, module_output_name=CARRIED),
        dense(torch.zeros(1, dim), module_input_name="token_embeddings"),
        WeightedLayerPooling(
            dim, average.num_hidden_layers, average.layer_start, nn.Parameter(weights)
        ),
        Pooling(dim, ("cls", "mean"), pooling.include_prompt),
        dense(torch.cat([share * one, (1 - share) * one], dim=1)),
    ]
    return [*modules[:at], *chain, *modules[at + 2 :]]


def join_layers(encoder: SentenceTransformer) -> None:
    """Put the two modules of an average of layers back in the place of those that `split_layers`
    made of them.
    """
    modules = list(encoder.children())
    kept = next(
        (
            i
            for i, module in enumerate(modules)
            if getattr(module, "module_output_name", "") == CARRIED
        ),
        1,
    )
    chain = modules[kept - 1 : kept + 5]
    if [type(module) for module in chain] != [
        Pooling,
        Dense,
        Dense,
        WeightedLayerPooling,
        Pooling,
        Dense,
    ]:
        return
    average, weights = chain[3], chain[3].layer_weights.data
    share = chain[5].linear.weight.data[0, 0]
    weights[-1] = share / (1 - share) * weights.sum()
    del encoder[kept - 1 : kept + 5]
    encoder.insert(kept - 1, average)
    encoder.insert(kept, chain[0])


def dense(
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: nn.Module | None = None,
    **names: str,
) -> nn.Module:
    """A layer with copies of W (K, D) and b (K,) in float32: x Wᵀ + b, then the activation;
    ``names`` as in `Dense`.
    """
    copies = [
        None if values is None else values.detach().to(torch.float32, copy=True)
        for values in (weight, bias)
    ]
    layer: nn.Module = Dense(*weight.T.shape, bias is not None, activation, *copies, **names)
    return layer.to(weight.device)


def freeze(model: nn.Module) -> None:
    """Keep the weights of layers and words out of training, as a pooling promises; a saved model
    forgets to.
    """
    for module in model.modules():
        if isinstance(module, WeightedLayerPooling | WordWeights):
            module.requires_grad_(False)
