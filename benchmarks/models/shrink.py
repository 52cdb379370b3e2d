"""Parts of a BERT that a student of few numbers goes without: tokens, inner units, and numbers a
token. isotrope/small was begun so (`benchmarks/models/small.py`).

Units that neither read nor write much are left out: Li et al., ICLR 2017,
https://arxiv.org/abs/1608.08710, Sec. 3.1, there for channels.
"""

import json
import re
from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

import torch
import torch.nn.functional as F
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import ElectraConfig, ElectraModel

from isotrope.encoder.fast.packed import pack
from isotrope.encoder.pooling import rebuilt

COMMON = 500  # of a drawn token: tokens of a lower rank count as this one does
_DRAWN = 200_000  # tokens with a place, of which the directions of narrow embeddings are found
_USUAL_PLACES = 128  # most texts are no longer
_UNUSED = re.compile(r"\[unused\d+\]")  # BERT's empty places: they are the last to be kept
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


def keep_tokens(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """Let a model with a WordPiece tokenizer know only ``count`` tokens.

    Kept are its marks, the letters of English, and the first tokens: vocabularies begin with their
    most common ones. A text whose tokens are all kept has the same vector to the last bit, because
    WordPiece takes the longest token that there is.
    """
    backend = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    backend.no_truncation()
    backend.no_padding()
    state = json.loads(backend.to_str())
    numbers = state["model"]["vocab"]  # token -> its number

    tokens = {added["id"] for added in state["added_tokens"]}
    tokens.update(model.tokenizer.all_special_ids)
    tokens.update(numbers[letter] for letter in ascii_lowercase)
    by_place = sorted(numbers, key=lambda name: (bool(_UNUSED.fullmatch(name)), numbers[name]))
    for name in by_place:
        if len(tokens) == count:
            break
        tokens.add(numbers[name])

    old_numbers = sorted(tokens)
    new_number = {old: new for new, old in enumerate(old_numbers)}
    state["model"]["vocab"] = {
        name: new_number[old] for name, old in numbers.items() if old in new_number
    }
    for added in state["added_tokens"]:
        added["id"] = new_number[added["id"]]
    for mark in state["post_processor"]["special_tokens"].values():
        mark["ids"] = [new_number[number] for number in mark["ids"]]
    model[0].processor = rebuilt(model.tokenizer, Tokenizer.from_str(json.dumps(state)))
    _renumber_model(model[0].auto_model, old_numbers, new_number)
    return model


def _renumber_model(encoder: Any, old_numbers: list[int], new_number: Mapping[int, int]) -> None:
    """Let a language model have the vectors of the kept tokens only, by their new numbers."""
    table = encoder.get_input_embeddings()
    table.weight.data[: len(old_numbers)] = table.weight.data[old_numbers]
    encoder.resize_token_embeddings(len(old_numbers))
    for key, value in encoder.config.to_dict().items():
        if key.endswith("_token_id") and isinstance(value, int):
            setattr(encoder.config, key, new_number.get(value))
    if table.padding_idx is not None:  # the row that training leaves as it is
        encoder.get_input_embeddings().padding_idx = new_number.get(table.padding_idx)


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
    embeddings = encoder.embeddings
    words = embeddings.word_embeddings.weight  # (V, D)
    types = embeddings.token_type_embeddings.weight  # (2, D)
    places = embeddings.position_embeddings.weight + types[0]  # (L, D)
    norm = embeddings.LayerNorm
    inward = _directions_without_mean(words, places, width)  # (D, E)

    settings = {key: getattr(config, key) for key in _SAME}
    narrow = ElectraModel(ElectraConfig(embedding_size=width, **settings))
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


def _centred(rows: Tensor) -> Tensor:
    """Without the mean of each row (N, D), which a layer norm takes away."""
    return rows - rows.mean(dim=-1, keepdim=True)


@torch.no_grad()
def keep_units(model: SentenceTransformer, count: int) -> SentenceTransformer:
    """Let the given BERT have ``count`` inner units in each layer's feed-forward part.

    They are those that do most: with the largest product of the norms of what a unit reads and of
    what it writes.
    """
    encoder = model[0].auto_model
    for layer in encoder.encoder.layer:
        up = layer.intermediate.dense
        down = layer.output.dense
        norms = up.weight.norm(dim=1) * down.weight.norm(dim=0)  # (U,)
        units = norms.topk(count).indices.sort().values
        up.weight = nn.Parameter(up.weight[units])
        up.bias = nn.Parameter(up.bias[units])
        up.out_features = count
        down.weight = nn.Parameter(down.weight[:, units])
        down.in_features = count
    encoder.config.intermediate_size = count
    return model
