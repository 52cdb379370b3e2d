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
from transformers import ElectraConfig, ElectraModel, PreTrainedConfig

from isotrope.console.progress import tell
from isotrope.encoder.adapters import has_adapter, merge_adapter
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.fast.packed import pack
from isotrope.encoder.pooling import frame_size
from isotrope.encoder.vocabulary import keep_tokens
from isotrope.errors import UserError
from isotrope.store.cache import cache_folder, cached

STATIC, IN_PLACE = "static", "static:in-place"  # the second has its teacher's width and directions
PLACES = ("spread", "first", "last")
_COUNT = r"([1-9]\d{0,6})"
_VOCABULARY = re.compile(rf"vocabulary:{_COUNT}")
_LAYERS = re.compile(
    rf"layers:{_COUNT}(?::({'|'.join(PLACES)}))?(?:,vocabulary:{_COUNT})?(?:,inner:{_COUNT})?(?:,embeddings:{_COUNT})?"
)
WIDTH = 256  # model2vec's
SMOOTH = 1e-4  # model2vec's sif_coefficient
_LAYOUT = 2  # version of the vectors; part of the key
_AT_ONCE = 512  # tokens a forward pass
COMMON = 500  # of a drawn token: tokens of a lower rank count as this one does
_DRAWN = 200_000  # tokens with a place, of which the directions of narrow embeddings are found
_SAME = (  # settings of an ELECTRA that are those of a BERT
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size",
    "initializer_range", "layer_norm_eps", "pad_token_id",
)  # fmt: skip
# [CLS], [unused5], <s>: they have no rank, and their vectors are zero
_NO_WORD = re.compile(r"\[\w+\]|<[^<>]+>")

Rows = npt.NDArray[np.float64]


def check_student(student: str) -> None:
    """Refuse what `student_of` does not know."""
    if student not in (STATIC, IN_PLACE) and not (
        _LAYERS.fullmatch(student) or _VOCABULARY.fullmatch(student)
    ):
        remedy = (
            "choose static, or layers:N, layers:N:first, layers:N:last for a number N of layers"
        )
        behind = "behind it ,vocabulary:N and ,inner:N and ,embeddings:N"
        raise UserError(f"the student {student!r} is unknown", f"{remedy}; {behind}")


def without_vocabulary(student: str) -> tuple[str, int]:
    """What a student is beside its vocabulary, and how many tokens it keeps; 0 for all."""
    found = _VOCABULARY.search(student)
    return (
        (student.replace(found[0], "").replace(",,", ",").strip(","), int(found[1]))
        if found
        else (student, 0)
    )


def student_of(model: SentenceTransformer, student: str | None) -> SentenceTransformer:
    """What ``student`` makes of a model; the model itself for None. Call it with a model that
    nothing else uses.

    ``layers:N`` keeps N layers, spread evenly; ``layers:N:first`` and ``layers:N:last`` keep those.
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
    if not (found := _LAYERS.fullmatch(student)):
        return keep_tokens(model, without_vocabulary(student)[1])[0]
    count, place, tokens, units, width = found.groups()
    model = keep_layers(model, int(count), place or PLACES[0])
    if tokens:
        model, _ = keep_tokens(model, int(tokens))
    if units:
        model = keep_units(model, int(units))
    return narrow_embeddings(model, int(width)) if width else model


def keep_layers(
    model: SentenceTransformer, count: int, place: str = "spread"
) -> SentenceTransformer:
    """The given model, which from now on has ``count`` of its layers: the first, the last, or
    evenly spread ones.

    Its language model is built anew from a changed configuration, so it is the same after saving
    and loading.
    """
    averaged = any(isinstance(module, WeightedLayerPooling) for module in model)
    if averaged or not isinstance(model[0], Transformer):
        why = (
            "the model's pooling averages its layers"
            if averaged
            else f"a {type(model[0]).__name__} has no layers"
        )
        raise UserError(
            f"layers:{count}: {why}", "choose the pooling mean or cls, or the student static"
        )
    if has_adapter(model):
        merge_adapter(model)
    whole = model[0].auto_model
    kind, total = whole.config.model_type, whole.config.num_hidden_layers
    stacks = [
        name
        for name, m in whole.named_modules()
        if isinstance(m, nn.ModuleList) and len(m) == total
    ]
    if len(stacks) != 1 or not 1 <= count <= total:
        where = "" if stacks else ", which share their weights"
        raise UserError(
            f"layers:{count}: the model has {total} layers{where}",
            f"choose 1 to {total}, tiny or static",
        )
    spread = np.linspace(0, total - 1, count).round().astype(int).tolist()  # of one, the first
    kept = {
        "spread": spread,
        "first": list(range(count)),
        "last": list(range(total - count, total)),
    }[place]
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
    except RuntimeError as error:
        # the first layer is unlike the others (ModernBERT, T5), or they share weights
        problem = (
            f"layers:{count}: a {kind} cannot have the layers {', '.join(map(str, kept))} alone"
        )
        raise UserError(problem, "choose the first layers (:first), or another student") from error
    pack(smaller)
    model[0].model = smaller
    return model


@torch.no_grad()
def narrow_embeddings(model: SentenceTransformer, width: int) -> SentenceTransformer:
    """The given BERT as an ELECTRA, whose tokens and places have ``width`` numbers, and one matrix
    for all after them.

    ELECTRA: Clark et al., ICLR 2020, https://openreview.net/forum?id=r1xMH1BtvB, Sec. 3.2. Those
    width - 1 directions are kept in which sums of a token, drawn by Zipf's law, and a place differ
    most (PCA). The matrix does to such a sum what the norm behind it did, which moves before it:
    all directions would give the same vectors as before.
    """
    whole = model[0].auto_model
    config = whole.config
    fits = config.model_type == "bert" and 2 <= width < config.hidden_size
    _check_fit(fits, f"embeddings:{width}", f"{config.hidden_size} numbers a token", config)
    own = whole.embeddings
    words, norm = own.word_embeddings.weight, own.LayerNorm
    places = own.position_embeddings.weight + own.token_type_embeddings.weight[0]
    drawing, ranks = torch.Generator().manual_seed(0), torch.arange(len(words))
    drawn = torch.multinomial(
        1 / (ranks + COMMON).double(), _DRAWN, replacement=True, generator=drawing
    )
    beside = torch.randint(min(128, len(places)), (_DRAWN,), generator=drawing)
    sums = _centred(words[drawn] + places[beside]).double()
    best = torch.linalg.eigh(sums.T @ sums).eigenvectors[:, -(width - 1) :].to(words)  # (D, E - 1)
    # without a mean, as the norm wants it: the columns of the identity, each against the sum of
    # those before
    # (E - 1, E)
    steps = torch.tril(torch.ones(width, width)).sub(torch.diag(torch.arange(1.0, width + 1)))[1:]
    inward = best @ F.normalize(steps, dim=-1).to(words)  # (D, E)
    like = ElectraConfig(embedding_size=width, **{key: getattr(config, key) for key in _SAME})
    narrow = ElectraModel(like).to(device=whole.device, dtype=whole.dtype).train(whole.training)
    new = narrow.embeddings
    new.word_embeddings.weight.copy_(_centred(words) @ inward)
    new.position_embeddings.weight.copy_(_centred(places) @ inward)
    types = own.token_type_embeddings.weight
    new.token_type_embeddings.weight.copy_(_centred(types - types[0]) @ inward)
    narrow.embeddings_project.weight.copy_(
        norm.weight[:, None] * inward * (config.hidden_size / width) ** 0.5
    )
    narrow.embeddings_project.bias.copy_(norm.bias)
    narrow.encoder.load_state_dict(whole.encoder.state_dict())
    pack(narrow)
    model[0].model = narrow
    return model


def _check_fit(fits: bool, what: str, there: str, config: PreTrainedConfig) -> None:
    if not fits:
        problem = f"{what} does not fit the {there} of a {config.model_type}"
        raise UserError(problem, "choose fewer for a bert, or leave it out")


def _centred(rows: Tensor) -> Tensor:
    """Without the mean of each row (N, D), which a layer norm takes away."""
    return rows - rows.mean(dim=-1, keepdim=True)


@torch.no_grad()
def keep_units(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """The given model, which from now on has ``count`` inner units in each layer's feed-forward
    part.

    They are those that do most: with the largest product of the norms of what a unit reads and of
    what it writes.
    """
    whole = model[0].auto_model
    config = whole.config
    key = "hidden_dim" if config.model_type == "distilbert" else "intermediate_size"
    total, width = getattr(config, key, 0), config.hidden_size
    linear = [module for module in whole.modules() if isinstance(module, nn.Linear)]
    reading = [
        module for module in linear if (module.in_features, module.out_features) == (width, total)
    ]
    writing = [
        module for module in linear if (module.in_features, module.out_features) == (total, width)
    ]
    fits = 1 <= count < total and len(reading) == len(writing) == config.num_hidden_layers
    _check_fit(fits, f"inner:{count}", f"{total} inner units", config)
    for up, down in zip(reading, writing, strict=True):
        norms = up.weight.norm(dim=1) * down.weight.norm(dim=0)  # (U,)
        kept = norms.topk(count).indices.sort().values
        up.weight, down.weight = nn.Parameter(up.weight[kept]), nn.Parameter(down.weight[:, kept])
        if up.bias is not None:
            up.bias = nn.Parameter(up.bias[kept])
        up.out_features = down.in_features = count
    setattr(config, key, count)
    return model


def zipf_weights(count: int) -> Rows:
    """The weights a / (a + p) of ``count`` tokens (V,), where p ∝ 1 / rank is Zipf's law: common
    tokens weigh little.

    Arora et al., ICLR 2017, https://openreview.net/forum?id=SyK00v5xx. Vocabularies begin with
    their most common tokens; ranks begin with 2, as in model2vec.
    """
    p = 1 / np.arange(2, count + 2)
    return np.asarray(SMOOTH / (SMOOTH + p / p.sum()))


def stand_for_text(tokenizer: Tokenizer, count: int) -> npt.NDArray[np.bool_]:
    """Which of ``count`` tokens stand for text (V,)."""
    names = (tokenizer.id_to_token(token) for token in range(count))
    return np.array([name is not None and not _NO_WORD.fullmatch(name) for name in names])


def static_model(model: SentenceTransformer, width: int | None = WIDTH) -> SentenceTransformer:
    """A model of sentence-transformers' `StaticEmbedding` with what ``model`` says of every token
    of its vocabulary.

    A ``width`` of None keeps those of ``model``, and its directions. The pass over the vocabulary
    is kept in the cache.
    """
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, Tokenizer):
        remedy = "choose a language model with a fast tokenizer, or another student"
        raise UserError(f"static: the teacher begins with a {type(model[0]).__name__}", remedy)
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    folder = cache_folder("static", model_checksum(model, _LAYOUT))
    cached(folder, lambda draft: np.save(draft / "vectors.npy", _of_tokens(model, tokenizer)))
    vectors = np.load(folder / "vectors.npy").astype(np.float64)  # (V, D)
    is_word = stand_for_text(tokenizer, len(vectors))
    # what all tokens have in common says nothing
    said = vectors[is_word] - vectors[is_word].mean(axis=0)
    if width is not None:  # by an exact solver: others draw random numbers
        said = PCA(min(width, *said.shape), svd_solver="covariance_eigh").fit_transform(
            vectors[is_word]
        )
    rows = np.zeros((len(vectors), said.shape[1]))  # (V, K)
    rows[is_word] = said * zipf_weights(len(said))[:, None]
    words = StaticEmbedding(tokenizer, embedding_weights=torch.from_numpy(rows).float())
    modules = [words, *([Normalize()] if isinstance(model[-1], Normalize) else [])]
    return SentenceTransformer(modules=modules, device=str(model.device))


@torch.no_grad()
def _of_tokens(model: SentenceTransformer, tokenizer: Tokenizer) -> npt.NDArray[np.float32]:
    """The teacher's vector of each token between its first and its last mark, before unit length:
    (V, D).

    At unit length, the vectors would no longer tell how much the teacher makes of a token.
    """
    modules = [module for module in model if not isinstance(module, Normalize)]
    example = tokenizer.encode("a").ids
    first, last = frame_size(model.tokenizer)
    before, after = example[:first], example[len(example) - last :]
    count, parts = max(tokenizer.get_vocab().values()) + 1, list[Tensor]()
    model.eval()
    for start in range(0, count, _AT_ONCE):
        tell("tokens", start, count)
        tokens = range(start, min(start + _AT_ONCE, count))
        # (n, L)
        ids = torch.tensor([[*before, token, *after] for token in tokens], device=model.device)
        read = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        for module in modules:
            read = module(read)
        parts.append(read["sentence_embedding"].float().cpu())
    return torch.cat(parts).numpy()
