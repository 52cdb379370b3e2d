"""How token embeddings become one sentence embedding.

It is built only from sentence-transformers' own modules. So every saved model loads in plain
sentence-transformers, and its folder declares its pooling.
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

# Pooling("cls") takes these, if there are any, for the first token's.
CARRIED = "cls_token_embeddings"

# Name -> the hidden states that are averaged, of layers 0 (embeddings) … L; None: only the last.
POOLINGS: dict[str, Callable[[int], list[int]] | None] = {
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
        check_known("pooling =", pooling, POOLINGS)


def own_head(modules: list[Any], trained: bool, model: str) -> list[nn.Module]:
    """The modules of ``cls_head``: the first token through the model's own head.

    That is the head saved with a model (``train.keep_head``), else a ``trained`` pooler.
    """
    takes_first_token = len(modules) > 2 and getattr(modules[1], "pooling_mode", None) == "cls"
    if takes_first_token and isinstance(modules[2], Dense):
        return modules[1:3]

    pooler = getattr(modules[0].auto_model, "pooler", None)
    layer = getattr(pooler, "dense", None)
    if layer is None or not trained:
        raise UserError(
            f"pooling = 'cls_head' takes the model's own head, and {model} has none",
            "train it with train.keep_head=true, or choose 'cls', or 'new_head' for a random one",
            "no-head",
        )
    first_token = Pooling(modules[0].get_embedding_dimension(), pooling_mode="cls")
    return [first_token, dense(layer.weight, layer.bias, nn.Tanh())]


def pooling_modules(transformer: Transformer, pooling: str) -> list[nn.Module]:
    """The modules that follow ``transformer`` for a pooling's name: -> (N, D)."""
    dim = transformer.get_embedding_dimension()
    config = transformer.auto_model.config
    layers = POOLINGS[pooling]
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
        generator = torch.Generator().manual_seed(0)
        weight = 0.02 * torch.randn(dim, dim, generator=generator)
        head = dense(weight, torch.zeros(dim), nn.Tanh())
        return [Pooling(dim, pooling_mode="cls"), head]
    return [Pooling(dim, pooling_mode=pooling)]


def frame_ids(tokenizer: Any, template: str) -> tuple[list[int], list[int]]:
    """The token ids before a text ([CLS] and words) and after it (words and [SEP]).

    PromptBERT: Jiang et al., EMNLP 2022, Sec. 4.1. https://aclanthology.org/2022.emnlp-main.603

    Raises:
        UserError: the tokenizer has no mask token, or the template lacks its two places.
    """
    is_fast = getattr(tokenizer, "is_fast", False)
    if not is_fast or tokenizer.mask_token is None or tokenizer.cls_token_id is None:
        raise UserError(
            "a template needs a tokenizer with a mask token, and this model's has none",
            "choose another pooling, or a masked language model such as isotrope/tiny",
            "no-mask-token",
        )
    if template.count("{text}") != 1 or template.count("{mask}") != 1:
        raise UserError(
            f"the template {template!r} is not possible",
            "write {text} once and {mask} once",
            "impossible-template",
        )
    words = template.replace("{mask}", tokenizer.mask_token)
    before, after = tokenizer(words.split("{text}"), add_special_tokens=False)["input_ids"]
    return [tokenizer.cls_token_id, *before], [*after, tokenizer.sep_token_id]


def frame_size(tokenizer: Any) -> tuple[int, int]:
    """How many tokens the tokenizer itself puts before a text and after it."""
    is_special = tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
    before = is_special.index(0)
    after = is_special[::-1].index(0)
    return before, after


def rebuilt(own: Any, backend: Tokenizer) -> PreTrainedTokenizerFast:
    """A tokenizer with another backend.

    Its class is general, because BertTokenizer would put its own frame around texts.
    """
    settings: dict[str, Any] = {}
    for name, token in own.special_tokens_map.items():
        if isinstance(token, str):
            settings[name] = token
    for name in ("model_max_length", "model_input_names", "padding_side", "truncation_side"):
        settings[name] = getattr(own, name)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **settings)


def template_modules(transformer: Transformer) -> list[nn.Module]:
    """Make the tokenizer, also the saved one, put `TEMPLATE` around every text.

    The modules that are returned take the mask's state.
    """
    tokenizer: Any = transformer.tokenizer
    before, after = frame_ids(tokenizer, TEMPLATE)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(
        single="<0> $A <1>",
        pair="<0> $A $B <1>",
        special_tokens=[
            {"id": "<0>", "ids": before, "tokens": tokenizer.convert_ids_to_tokens(before)},
            {"id": "<1>", "ids": after, "tokens": tokenizer.convert_ids_to_tokens(after)},
        ],
    )
    transformer.processor = rebuilt(tokenizer, backend)

    all_tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    words = list(map(str, all_tokens))
    only_mask = WordWeights(words, {tokenizer.mask_token: 1.0}, unknown_word_weight=0.0)
    return [only_mask, Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")]


def split_layers(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules that a model with an average of layers is saved with.

    They give the same vectors in every version of the libraries. The last entry of transformers'
    ``hidden_states`` is the last layer before its final norm in some versions and after it in
    others (ModernBERT: before it until 5.0 at least). ``token_embeddings`` never differ. So the
    last layer comes from there, and only the earlier layers from ``hidden_states``:

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
    is_average = [isinstance(module, WeightedLayerPooling) for module in modules]
    if not any(is_average[:-1]):
        return modules
    first = is_average.index(True)
    average: Any = modules[first]
    pooling: Any = modules[first + 1]
    if getattr(pooling, "pooling_mode", None) != "mean":
        return modules

    dim = average.embedding_dimension
    weights = average.layer_weights.detach().cpu().clone()
    share = weights[-1] / weights.sum()  # of the last layer
    if share == 1:
        return modules[:first] + modules[first + 1 :]
    weights[-1] = 0.0
    earlier_layers = WeightedLayerPooling(
        dim, average.num_hidden_layers, average.layer_start, nn.Parameter(weights)
    )

    identity = torch.eye(dim)
    shares = [share * identity, (1 - share) * identity]
    chain = [
        Pooling(dim, "mean", pooling.include_prompt),
        dense(identity, module_output_name=CARRIED),
        dense(torch.zeros(1, dim), module_input_name="token_embeddings"),
        earlier_layers,
        Pooling(dim, ("cls", "mean"), pooling.include_prompt),
        dense(torch.cat(shares, dim=1)),
    ]
    return modules[:first] + chain + modules[first + 2 :]


_SPLIT = [Pooling, Dense, Dense, WeightedLayerPooling, Pooling, Dense]  # what `split_layers` makes


def join_layers(encoder: SentenceTransformer) -> None:
    """Undo `split_layers`: put the two modules of an average of layers back, in place."""
    modules: list[Any] = list(encoder.children())
    outputs = [getattr(module, "module_output_name", "") for module in modules]
    if CARRIED not in outputs[1:]:
        return
    first = outputs.index(CARRIED) - 1
    end = first + len(_SPLIT)
    chain = modules[first:end]
    if [type(module) for module in chain] != _SPLIT:
        return

    last_layer, _, _, average, _, weighted_sum = chain
    weights = average.layer_weights.data
    share = weighted_sum.linear.weight.data[0, 0]
    weights[-1] = share / (1 - share) * weights.sum()
    del encoder[first:end]
    encoder.insert(first, average)
    encoder.insert(first + 1, last_layer)


def dense(
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: nn.Module | None = None,
    **names: str,
) -> nn.Module:
    """A layer with copies of W (K, D) and b (K,) in float32: x Wᵀ + b, then the activation.

    ``names`` are those of its features, as in `Dense`.
    """
    weight_copy = weight.detach().to(torch.float32, copy=True)
    bias_copy = None if bias is None else bias.detach().to(torch.float32, copy=True)
    width_out, width_in = weight.shape
    layer: nn.Module = Dense(
        width_in, width_out, bias is not None, activation, weight_copy, bias_copy, **names
    )
    return layer.to(weight.device)


def freeze(model: nn.Module) -> None:
    """Keep the weights of layers and words out of training, as a pooling promises.

    A saved model forgets to.
    """
    for module in model.modules():
        if isinstance(module, WeightedLayerPooling | WordWeights):
            module.requires_grad_(False)
