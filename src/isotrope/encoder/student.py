"""A smaller model made of a larger one, to begin training with: ``layers:3`` or ``static``.

Every second layer: DistilBERT, Sanh et al., 2019, https://arxiv.org/abs/1910.01108, Sec. 3. Which
layers are best to keep: Sajjad et al., 2023, https://arxiv.org/abs/2004.03844. A static student is
model2vec's (Tulkens and van Dongen, 2024, https://github.com/MinishLab/model2vec): each token
through the teacher, PCA, and weights by the token's frequency, which its place in the vocabulary
tells (Zipf).
"""

import re
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import (
    StaticEmbedding,
    Transformer,
    WeightedLayerPooling,
)
from sklearn.decomposition import PCA
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel

from isotrope.console.progress import tell
from isotrope.encoder.adapters import has_adapter, merge_adapter
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.fast.packed import pack
from isotrope.encoder.pooling import frame_size
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached

STATIC = "static"
IN_PLACE = "static:in-place"  # it has its teacher's width and directions
PLACES = ("spread", "first", "last")

_LAYERS = re.compile(rf"layers:[1-9]\d{{0,3}}(:({'|'.join(PLACES)}))?")
WIDTH = 256  # model2vec's
SMOOTH = 1e-4  # model2vec's sif_coefficient
_LAYOUT = 2  # version of the vectors; part of the key
_FILE = "vectors.npy"  # of the cache
_TOKENS_A_PASS = 512
# [CLS], [unused5], <s>: they have no rank, and their vectors are zero
_NO_WORD = re.compile(r"\[\w+\]|<[^<>]+>")

Rows = npt.NDArray[np.float64]


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know."""
    if student in (STATIC, IN_PLACE) or _LAYERS.fullmatch(student):
        return
    raise UserError(
        f"the student {student!r} is unknown",
        "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers",
        "unknown-student",
    )


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None.

    Call it with a model that nothing else uses. ``layers:N`` keeps N layers, spread evenly;
    ``layers:N:first`` and ``layers:N:last`` keep those. ``static`` gives each token one vector, and
    ``static:in-place`` one that can be compared with its teacher's vectors.
    """
    if student is None:
        return model
    check_student(student)
    if student in (STATIC, IN_PLACE):
        return static_model(model, WIDTH if student == STATIC else None)
    _, count, *place = student.split(":")
    return keep_layers(model, int(count), *place)


def keep_layers(
    model: SentenceTransformer, count: int, place: str = "spread"
) -> SentenceTransformer:
    """Let the given model have ``count`` of its layers: the first, the last, or evenly spread ones.

    Its language model is built anew from a changed configuration, so it is the same after saving
    and loading.
    """
    _refuse_without_layers(model, count)
    if has_adapter(model):
        merge_adapter(model)
    full_model = model[0].auto_model
    stack = _layer_stack(full_model, count)
    layers = _kept_layers(full_model.config.num_hidden_layers, count, place)

    config = deepcopy(full_model.config)
    config.num_hidden_layers = count
    kinds = getattr(config, "layer_types", None)
    if kinds:  # ModernBERT: which layers see far
        config.layer_types = [kinds[layer] for layer in layers]

    smaller: Any = type(full_model)(config)
    smaller.to(device=full_model.device, dtype=full_model.dtype)
    smaller.train(full_model.training)
    try:
        smaller.load_state_dict(_weights_of_layers(full_model, stack, layers))
    except RuntimeError as error:
        # The first layer is unlike the others (ModernBERT, T5), or they share weights.
        listed = ", ".join(map(str, layers))
        kind = full_model.config.model_type
        raise UserError(
            f"layers:{count}: a {kind} cannot have only the layers {listed}",
            "choose the first layers (:first), or another student",
            "student-does-not-fit",
        ) from error
    pack(smaller)
    model[0].model = smaller
    return model


def _refuse_without_layers(model: SentenceTransformer, count: int) -> None:
    averages_layers = any(isinstance(module, WeightedLayerPooling) for module in model)
    if averages_layers or not isinstance(model[0], Transformer):
        raise UserError(
            f"layers:{count}: the model has no layers, or its pooling averages them",
            "choose the pooling mean or cls, or the student static",
            "student-does-not-fit",
        )


def _layer_stack(full_model: PreTrainedModel, count: int) -> str:
    """The name of the list of layers; UserError if there are several lists, or too few layers."""
    total = full_model.config.num_hidden_layers
    stacks = []
    for name, module in full_model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == total:
            stacks.append(name)
    if len(stacks) != 1 or not 1 <= count <= total:
        shared = "" if stacks else ", which share their weights"
        raise UserError(
            f"layers:{count}: the model has {total} layers{shared}",
            f"choose 1 to {total}, tiny or static",
            "student-does-not-fit",
        )
    return str(stacks[0])


def _kept_layers(total: int, count: int, place: str) -> list[int]:
    if place == "first":
        return list(range(count))
    if place == "last":
        return list(range(total - count, total))
    evenly_spread = np.linspace(0, total - 1, count).round()  # of one, the first
    return [int(layer) for layer in evenly_spread]


def _weights_of_layers(
    full_model: PreTrainedModel, stack: str, layers: list[int]
) -> dict[str, Tensor]:
    """The weights of a model with only these layers of a stack, by their new names."""
    prefix = f"{stack}."
    weights = {}
    for name, value in full_model.state_dict().items():
        if not name.startswith(prefix):
            weights[name] = value
            continue
        number, _, within = name.removeprefix(prefix).partition(".")
        old_layer = int(number)
        if old_layer in layers:
            new_layer = layers.index(old_layer)
            weights[f"{prefix}{new_layer}.{within}"] = value
    return weights


def zipf_weights(count: int) -> Rows:
    """The weights a / (a + p) of ``count`` tokens (V,): common tokens weigh little.

    p ∝ 1 / rank is Zipf's law. Arora et al., ICLR 2017, https://openreview.net/forum?id=SyK00v5xx.
    Vocabularies begin with their most common tokens; ranks begin with 2, as in model2vec.
    """
    frequencies = 1 / np.arange(2, count + 2)
    probabilities = frequencies / frequencies.sum()
    weights: Rows = SMOOTH / (SMOOTH + probabilities)
    return weights


def stand_for_text(tokenizer: Tokenizer, count: int) -> npt.NDArray[np.bool_]:
    """Which of ``count`` tokens stand for text (V,)."""
    is_word = np.zeros(count, dtype=np.bool_)
    for token in range(count):
        name = tokenizer.id_to_token(token)
        is_word[token] = name is not None and not _NO_WORD.fullmatch(name)
    return is_word


def static_model(model: SentenceTransformer, width: int | None = WIDTH) -> SentenceTransformer:
    """A static model, with the vector that ``model`` gives each token of its vocabulary.

    It is one of sentence-transformers' `StaticEmbedding`. A ``width`` of None keeps those of
    ``model``, and its directions. The pass over the vocabulary is kept in the cache.
    """
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        raise UserError(
            f"static: the teacher begins with a {type(model[0]).__name__}",
            "choose a language model with a fast tokenizer, or another student",
            "student-does-not-fit",
        )
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()

    folder = cache_folder("static", model_checksum(model, _LAYOUT))
    cached(folder, lambda draft: np.save(draft / _FILE, _token_vectors(model, tokenizer)))
    token_vectors: Rows = np.load(folder / _FILE).astype(np.float64)  # (V, D)
    is_word = stand_for_text(tokenizer, len(token_vectors))
    word_vectors = token_vectors[is_word]  # (W, D)

    if width is None:
        # All tokens share a large common direction, which tells nothing about any of them.
        word_vectors = word_vectors - word_vectors.mean(axis=0)
    else:  # by an exact solver: others draw random numbers
        pca = PCA(min(width, *word_vectors.shape), svd_solver="covariance_eigh")
        word_vectors = pca.fit_transform(word_vectors)  # (W, K)
    # Frequent tokens get less weight, as in SIF.
    count, dimensions = word_vectors.shape
    word_vectors = word_vectors * zipf_weights(count)[:, None]

    table = np.zeros((len(token_vectors), dimensions))  # (V, K)
    table[is_word] = word_vectors
    weights = torch.from_numpy(table).float()
    modules: list[nn.Module] = [StaticEmbedding(tokenizer, embedding_weights=weights)]
    if isinstance(model[-1], Normalize):
        modules.append(Normalize())
    return SentenceTransformer(
        modules=modules, device=str(model.device), similarity_fn_name=model.similarity_fn_name
    )


@torch.no_grad()
def _token_vectors(model: SentenceTransformer, tokenizer: Tokenizer) -> npt.NDArray[np.float32]:
    """The teacher's vector of each token between its first and its last mark (V, D).

    They are those before unit length. At unit length, the vectors would no longer tell how much the
    teacher makes of a token.
    """
    modules = [module for module in model if not isinstance(module, Normalize)]
    example = tokenizer.encode("a").ids
    before, after = frame_size(model.tokenizer)
    marks_before = example[:before]
    marks_after = example[len(example) - after :]
    count = max(tokenizer.get_vocab().values()) + 1
    model.eval()

    vectors = []
    for start in range(0, count, _TOKENS_A_PASS):
        tell("tokens", start, count)
        tokens = range(start, min(start + _TOKENS_A_PASS, count))
        texts = [[*marks_before, token, *marks_after] for token in tokens]
        ids = torch.tensor(texts, device=model.device)  # (n, L)
        mask = torch.ones_like(ids)
        features: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        for module in modules:
            features = module(features)
        vectors.append(features["sentence_embedding"].float().cpu())
    return torch.cat(vectors).numpy()
