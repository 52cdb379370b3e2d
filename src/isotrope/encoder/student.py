"""A smaller model made of a larger one, to begin training with: ``layers:3`` or ``static``.

Every second layer: DistilBERT, Sanh et al., 2019, https://arxiv.org/abs/1910.01108, Sec. 3. Which
layers are best to keep: Sajjad et al., 2023, https://arxiv.org/abs/2004.03844. Units that neither
read nor write much are left out: Li et al., ICLR 2017, https://arxiv.org/abs/1608.08710, Sec. 3.1,
there for channels. A static student is model2vec's (Tulkens and van Dongen, 2024,
https://github.com/MinishLab/model2vec): each token through the teacher, PCA, and weights by the
token's frequency, which its place in the vocabulary tells (Zipf).
"""

import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
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
from transformers import ElectraConfig, ElectraModel, PreTrainedConfig, PreTrainedModel

from isotrope.console.progress import tell
from isotrope.encoder.adapters import has_adapter, merge_adapter
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.fast.packed import pack
from isotrope.encoder.pooling import frame_size
from isotrope.encoder.similarity import model_similarity
from isotrope.encoder.vocabulary import keep_tokens
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached

STATIC = "static"
IN_PLACE = "static:in-place"  # it has its teacher's width and directions
PLACES = ("spread", "first", "last")
_COUNT = r"[1-9]\d{0,6}"
_VOCABULARY = re.compile(rf"vocabulary:({_COUNT})")
_LAYERS = re.compile(
    rf"""
    layers:(?P<layers>{_COUNT})
    (:(?P<place>{"|".join(PLACES)}))?
    (,vocabulary:(?P<tokens>{_COUNT}))?
    (,inner:(?P<inner_units>{_COUNT}))?
    (,embeddings:(?P<embedding_width>{_COUNT}))?
    """,
    re.VERBOSE,
)
WIDTH = 256  # model2vec's
SMOOTH = 1e-4  # model2vec's sif_coefficient
_LAYOUT = 2  # version of the vectors; part of the key
_TOKENS_A_PASS = 512
COMMON = 500  # of a drawn token: tokens of a lower rank count as this one does
_DRAWN = 200_000  # tokens with a place, of which the directions of narrow embeddings are found
_USUAL_PLACES = 128  # most texts are no longer
_SAME = (  # settings of an ELECTRA that are those of a BERT
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "max_position_embeddings",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
)
# [CLS], [unused5], <s>: they have no rank, and their vectors are zero
_NO_WORD = re.compile(r"\[\w+\]|<[^<>]+>")

Rows = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _LayerStudent:
    """What ``layers:N:PLACE,vocabulary:V,inner:U,embeddings:E`` asks for; None: as it is."""

    layers: int
    place: str
    tokens: int | None
    inner_units: int | None
    embedding_width: int | None

    @classmethod
    def parse(cls, student: str) -> "_LayerStudent | None":
        match = _LAYERS.fullmatch(student)
        if match is None:
            return None

        def count(name: str) -> int | None:
            return int(match[name]) if match[name] else None

        return cls(
            layers=int(match["layers"]),
            place=match["place"] or PLACES[0],
            tokens=count("tokens"),
            inner_units=count("inner_units"),
            embedding_width=count("embedding_width"),
        )


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know."""
    if student in (STATIC, IN_PLACE):
        return
    if _LAYERS.fullmatch(student) or _VOCABULARY.fullmatch(student):
        return
    raise UserError(
        f"the student {student!r} is unknown",
        "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers; "
        "after it ,vocabulary:N and ,inner:N and ,embeddings:N",
        "unknown-student",
    )


def without_vocabulary(student: str) -> tuple[str, int]:
    """What a student is beside its vocabulary, and how many tokens it keeps; 0 for all."""
    match = _VOCABULARY.search(student)
    if match is None:
        return student, 0
    remaining = student.replace(match[0], "").replace(",,", ",").strip(",")
    return remaining, int(match[1])


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None.

    Call it with a model that nothing else uses. ``layers:N`` keeps N layers, spread evenly;
    ``layers:N:first`` and ``layers:N:last`` keep those.
    ``layers:N,vocabulary:V,inner:U,embeddings:E`` also keeps V tokens, the first ones where it can,
    U units within each layer, and E numbers a token; each may stand without the others, and
    ``vocabulary:V`` without layers. ``static`` gives each token one vector, and ``static:in-place``
    one that can be compared with its teacher's vectors.
    """
    if student is None:
        return model
    check_student(student)
    if student in (STATIC, IN_PLACE):
        return static_model(model, WIDTH if student == STATIC else None)
    plan = _LayerStudent.parse(student)
    if plan is None:
        _, count = without_vocabulary(student)
        smaller, _ = keep_tokens(model, count)
        return smaller

    model = keep_layers(model, plan.layers, plan.place)
    if plan.tokens:
        model, _ = keep_tokens(model, plan.tokens)
    if plan.inner_units:
        model = keep_units(model, plan.inner_units)
    if plan.embedding_width:
        model = narrow_embeddings(model, plan.embedding_width)
    return model


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

    smaller = _like(full_model, type(full_model)(config))
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


def _like(full_model: PreTrainedModel, new: Any) -> Any:
    """A new model with the device, the precision and the mode of another one."""
    return new.to(device=full_model.device, dtype=full_model.dtype).train(full_model.training)


def _refuse_without_layers(model: SentenceTransformer, count: int) -> None:
    remedy = "choose the pooling mean or cls, or the student static"
    if any(isinstance(module, WeightedLayerPooling) for module in model):
        problem = "the model's pooling averages its layers"
        raise UserError(f"layers:{count}: {problem}", remedy, "student-does-not-fit")
    if not isinstance(model[0], Transformer):
        problem = f"a {type(model[0]).__name__} has no layers"
        raise UserError(f"layers:{count}: {problem}", remedy, "student-does-not-fit")


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
    weights = {}
    for name, value in full_model.state_dict().items():
        if not name.startswith(f"{stack}."):
            weights[name] = value
            continue
        old_layer, _, within = name.removeprefix(f"{stack}.").partition(".")
        if int(old_layer) in layers:
            new_layer = layers.index(int(old_layer))
            weights[f"{stack}.{new_layer}.{within}"] = value
    return weights


@torch.no_grad()
def narrow_embeddings(model: SentenceTransformer, width: int) -> SentenceTransformer:
    """Make the given BERT an ELECTRA, whose tokens and places have ``width`` numbers.

    One matrix takes them to the width of the layers. ELECTRA: Clark et al., ICLR 2020,
    https://openreview.net/forum?id=r1xMH1BtvB, Sec. 3.2. Those width - 1 directions are kept in
    which sums of a token, drawn by Zipf's law, and a place differ most (PCA). The matrix does to
    such a sum what the norm after it did, which moves before it: all directions would give the same
    vectors as before.
    """
    encoder = model[0].auto_model
    config = encoder.config
    fits = config.model_type == "bert" and 2 <= width < config.hidden_size
    _check_fit(fits, f"embeddings:{width}", f"{config.hidden_size} numbers a token", config)
    embeddings = encoder.embeddings
    words = embeddings.word_embeddings.weight  # (V, D)
    types = embeddings.token_type_embeddings.weight  # (2, D)
    places = embeddings.position_embeddings.weight + types[0]  # (L, D)
    norm = embeddings.LayerNorm
    inward = _directions_without_mean(words, places, width)  # (D, E)

    settings = {key: getattr(config, key) for key in _SAME}
    narrow = _like(encoder, ElectraModel(ElectraConfig(embedding_size=width, **settings)))
    new = narrow.embeddings
    new.word_embeddings.weight.copy_(_centred(words) @ inward)
    new.position_embeddings.weight.copy_(_centred(places) @ inward)
    new.token_type_embeddings.weight.copy_(_centred(types - types[0]) @ inward)
    scale = (config.hidden_size / width) ** 0.5
    narrow.embeddings_project.weight.copy_(norm.weight[:, None] * inward * scale)
    narrow.embeddings_project.bias.copy_(norm.bias)
    narrow.encoder.load_state_dict(encoder.encoder.state_dict())
    pack(narrow)
    model[0].model = narrow
    return model


def _directions_without_mean(words: Tensor, places: Tensor, width: int) -> Tensor:
    """The projection (D, E) to the directions in which sums of a token and a place differ most.

    What it gives has no mean over its E numbers, as the norm of narrow embeddings wants it.
    """
    drawing = torch.Generator().manual_seed(0)
    frequencies = 1 / (torch.arange(len(words)) + COMMON).double()
    drawn_words = torch.multinomial(frequencies, _DRAWN, replacement=True, generator=drawing)
    usual = min(_USUAL_PLACES, len(places))
    drawn_places = torch.randint(usual, (_DRAWN,), generator=drawing)
    sums = _centred(words[drawn_words] + places[drawn_places]).double()  # (drawn, D)
    eigenvectors = torch.linalg.eigh(sums.T @ sums).eigenvectors  # by rising variance
    best = eigenvectors[:, -(width - 1) :].to(words)  # (D, E - 1)

    # Rows without a mean: a column of the identity against the sum of those before.
    steps = torch.ones(width, width).tril() - torch.arange(1.0, width + 1).diag()
    projection: Tensor = best @ F.normalize(steps[1:], dim=-1).to(words)
    return projection


def _check_fit(fits: bool, what: str, there: str, config: PreTrainedConfig) -> None:
    if not fits:
        raise UserError(
            f"{what} does not fit the {there} of a {config.model_type}",
            "choose fewer for a bert, or leave it out",
            "student-does-not-fit",
        )


def _centred(rows: Tensor) -> Tensor:
    """Without the mean of each row (N, D), which a layer norm takes away."""
    return rows - rows.mean(dim=-1, keepdim=True)


@torch.no_grad()
def keep_units(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """Let the given model have ``count`` inner units in each layer's feed-forward part.

    They are those that do most: with the largest product of the norms of what a unit reads and of
    what it writes.
    """
    encoder = model[0].auto_model
    config = encoder.config
    key = "hidden_dim" if config.model_type == "distilbert" else "intermediate_size"
    total = getattr(config, key, 0)
    width = config.hidden_size
    reading = _linear_layers(encoder, width, total)
    writing = _linear_layers(encoder, total, width)
    fits = 1 <= count < total and len(reading) == len(writing) == config.num_hidden_layers
    _check_fit(fits, f"inner:{count}", f"{total} inner units", config)

    for up, down in zip(reading, writing, strict=True):
        norms = up.weight.norm(dim=1) * down.weight.norm(dim=0)  # (U,)
        units = norms.topk(count).indices.sort().values
        up.weight = nn.Parameter(up.weight[units])
        if up.bias is not None:
            up.bias = nn.Parameter(up.bias[units])
        up.out_features = count
        down.weight = nn.Parameter(down.weight[:, units])
        down.in_features = count
    setattr(config, key, count)
    return model


def _linear_layers(encoder: nn.Module, width_in: int, width_out: int) -> list[Any]:
    layers = []
    for module in encoder.modules():
        if not isinstance(module, nn.Linear):
            continue
        if (module.in_features, module.out_features) == (width_in, width_out):
            layers.append(module)
    return layers


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
    token_vectors = _cached_token_vectors(model, tokenizer)  # (V, D)
    is_word = stand_for_text(tokenizer, len(token_vectors))
    word_vectors = token_vectors[is_word]  # (W, D)

    if width is None:
        # All tokens share a large common direction, which tells nothing about any of them.
        word_vectors = word_vectors - word_vectors.mean(axis=0)
    else:  # by an exact solver: others draw random numbers
        pca = PCA(min(width, *word_vectors.shape), svd_solver="covariance_eigh")
        word_vectors = pca.fit_transform(word_vectors)  # (W, K)
    # Frequent tokens get less weight, as in SIF.
    word_vectors = word_vectors * zipf_weights(len(word_vectors))[:, None]

    table = np.zeros((len(token_vectors), word_vectors.shape[1]))  # (V, K)
    table[is_word] = word_vectors
    weights = torch.from_numpy(table).float()
    modules: list[nn.Module] = [StaticEmbedding(tokenizer, embedding_weights=weights)]
    if isinstance(model[-1], Normalize):
        modules.append(Normalize())
    return SentenceTransformer(
        modules=modules, device=str(model.device), similarity_fn_name=model_similarity(model)
    )


def _cached_token_vectors(model: SentenceTransformer, tokenizer: Tokenizer) -> Rows:
    folder = cache_folder("static", model_checksum(model, _LAYOUT))
    file = "vectors.npy"
    cached(folder, lambda draft: np.save(draft / file, _token_vectors(model, tokenizer)))
    return np.asarray(np.load(folder / file).astype(np.float64))


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
        features: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for module in modules:
            features = module(features)
        vectors.append(features["sentence_embedding"].float().cpu())
    return torch.cat(vectors).numpy()
