"""A smaller model made of a larger one, to begin training with: ``layers:3`` or ``static``.

Every second layer is what DistilBERT begins with: Sanh et al., 2019, https://arxiv.org/abs/1910.01108, Sec. 3. Which
layers are best to keep: Sajjad et al., 2023, https://arxiv.org/abs/2004.03844. Embeddings, final norm, pooling and all
that follows are kept.

The vocabularies of BERT and its kin begin with their most common tokens. A word without a token of its own is read in
pieces, as rare words always are. Units that neither read nor write much are those to leave out: Li et al., Pruning
Filters for Efficient ConvNets, ICLR 2017, https://arxiv.org/abs/1608.08710, Sec. 3.1, there for channels.
"""

import json
import re
from copy import deepcopy
from string import ascii_lowercase

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Transformer, WeightedLayerPooling
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from isotrope.encoder.adapters import has_adapter, merge_adapter
from isotrope.encoder.fast.packed import pack
from isotrope.encoder.token_vectors import static_model
from isotrope.errors import UserError

STATIC = "static"
PLACES = ("spread", "first", "last")
_COUNT = r"([1-9]\d{0,6})"
_LAYERS = re.compile(rf"layers:{_COUNT}(?::({'|'.join(PLACES)}))?(?:,vocabulary:{_COUNT})?(?:,inner:{_COUNT})?")


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know."""
    if student != STATIC and not _LAYERS.fullmatch(student):
        remedy = "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers"
        raise UserError(f"the student {student!r} is unknown", f"{remedy}; behind it ,vocabulary:N and ,inner:N")


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None. Call it with a model that nothing else uses.

    Args:
        model: the teacher.
        student: ``layers:N`` keeps N layers, spread evenly; ``layers:N:first`` and ``layers:N:last`` keep those.
            ``layers:N,vocabulary:V,inner:U`` also keeps only the first V tokens, and U units within each layer; either
            may stand without the other. ``static`` gives each token one vector: `isotrope.encoder.token_vectors`.
    """
    if student is None:
        return model
    check_student(student)
    if student == STATIC:
        return static_model(model)
    count, place, tokens, units = _LAYERS.fullmatch(student).groups()  # type: ignore[union-attr]  # checked above
    model = keep_layers(model, int(count), place or PLACES[0])
    if tokens:
        model = keep_tokens(model, int(tokens))
    return keep_units(model, int(units)) if units else model


def chosen_layers(total: int, count: int, place: str = "spread") -> list[int]:
    """Which of ``total`` layers are kept. Spread: evenly, the first and the last among them; of one, the first."""
    if place == "spread":
        return [int(layer) for layer in np.linspace(0, total - 1, count).round()]
    return list(range(count)) if place == "first" else list(range(total - count, total))


def keep_layers(model: SentenceTransformer, count: int, place: str = "spread") -> SentenceTransformer:
    """The given model, which from now on has ``count`` of its layers.

    Its language model is built anew from a changed configuration, so it is the same after saving and loading.
    """
    if not isinstance(model[0], Transformer):
        raise UserError(f"layers:{count}: a {type(model[0]).__name__} has no layers", "choose static, tiny or a folder")
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        raise UserError(f"layers:{count}: the model's pooling averages its layers", "choose the pooling mean or cls")
    if has_adapter(model):
        merge_adapter(model)
    whole = model[0].auto_model
    kind, total = whole.config.model_type, whole.config.num_hidden_layers
    if not 1 <= count <= total:
        raise UserError(f"layers:{count}: the model has {total} layers", f"choose 1 to {total}")
    stacks = [name for name, m in whole.named_modules() if isinstance(m, nn.ModuleList) and len(m) == total]
    if len(stacks) != 1:
        raise UserError(
            f"layers:{count}: {kind} has no plain list of {total} layers",
            "choose another student, such as tiny or static",
        )
    kept = chosen_layers(total, count, place)
    config = deepcopy(whole.config)
    config.num_hidden_layers = count
    if kinds := getattr(config, "layer_types", None):  # ModernBERT: which layers see far
        config.layer_types = [kinds[layer] for layer in kept]
    new_name = {f"{stacks[0]}.{old}.": f"{stacks[0]}.{new}." for new, old in enumerate(kept)}
    weights = {}
    for name, value in whole.state_dict().items():
        layer = next((old for old in new_name if name.startswith(old)), "")
        if layer or not name.startswith(f"{stacks[0]}."):
            weights[new_name.get(layer, "") + name.removeprefix(layer)] = value
    smaller = type(whole)(config).to(device=whole.device, dtype=whole.dtype).train(whole.training)
    try:
        smaller.load_state_dict(weights)
    except RuntimeError as error:  # the first layer is unlike the others (ModernBERT, T5), or they share weights
        problem = f"layers:{count}: a {kind} cannot have the layers {', '.join(map(str, kept))} alone"
        raise UserError(problem, "choose the first layers (:first), or another student") from error
    pack(smaller)
    model[0].model = smaller
    return model


def keep_tokens(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """The given model, which from now on knows only the first ``count`` tokens of its vocabulary.

    Tokens keep their numbers.
    """
    what, whole = f"vocabulary:{count}", model.tokenizer
    state = json.loads(whole.backend_tokenizer.to_str()) if hasattr(whole, "backend_tokenizer") else {}
    kind = state.get("model", {}).get("type", "")
    if kind != "WordPiece":
        raise UserError(f"{what}: the tokenizer is a {kind or type(whole).__name__}, no WordPiece", "leave it out")
    tokens: dict[str, int] = state["model"]["vocab"]
    needed = {*whole.all_special_ids, *(tokens.get(letter, 0) for letter in ascii_lowercase)}
    if not max(needed) < count < len(tokens):
        remedy = f"choose {max(needed) + 1} to {len(tokens) - 1}, or leave it out"
        raise UserError(f"{what}: the model has {len(tokens)} tokens, and needs its letters and marks", remedy)
    state["model"]["vocab"] = {token: number for token, number in tokens.items() if number < count}
    special = {name: str(token) for name, token in whole.special_tokens_map.items() if isinstance(token, str)}
    model[0].processor = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), model_max_length=whole.model_max_length,
        model_input_names=whole.model_input_names, **special,
    )  # fmt: skip
    model[0].auto_model.resize_token_embeddings(count)
    return model


def unit_norms(reads: Tensor, writes: Tensor) -> Tensor:
    """How much each of U inner units does: ‖what it reads‖ · ‖what it writes‖. (U, D), (D, U) -> (U,)."""
    return torch.mul(torch.linalg.vector_norm(reads, dim=1), torch.linalg.vector_norm(writes, dim=0))


@torch.no_grad()
def keep_units(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """The given model, which from now on has ``count`` inner units in each layer: those with the largest `unit_norms`.

    Inner units stand between the two matrices of a layer's feed-forward part.
    """
    what, whole = f"inner:{count}", model[0].auto_model
    config = whole.config
    key = "hidden_dim" if config.model_type == "distilbert" else "intermediate_size"
    total, width = getattr(config, key, 0), config.hidden_size
    if not 1 <= count < total:
        raise UserError(f"{what}: the model has {total} inner units", f"choose fewer than {total}, or leave it out")
    linear = [module for module in whole.modules() if isinstance(module, nn.Linear)]
    reading = [module for module in linear if (module.in_features, module.out_features) == (width, total)]
    writing = [module for module in linear if (module.in_features, module.out_features) == (total, width)]
    if not len(reading) == len(writing) == config.num_hidden_layers:
        raise UserError(f"{what}: a {config.model_type} has no two matrices of {total} units a layer", "leave it out")
    for up, down in zip(reading, writing, strict=True):
        kept = unit_norms(up.weight, down.weight).topk(count).indices.sort().values
        up.weight, down.weight = nn.Parameter(up.weight[kept]), nn.Parameter(down.weight[:, kept])
        if up.bias is not None:
            up.bias = nn.Parameter(up.bias[kept])
        up.out_features = down.in_features = count
    setattr(config, key, count)
    return model
