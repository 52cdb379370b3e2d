"""Fewer tokens: a model keeps those that its documents need most, and reads all other words in
smaller pieces.

A text whose tokens are all kept has the same vector to the last bit, because each algorithm finds
its pieces again: WordPiece takes the longest that there is, byte-pair encoding goes the same way up
as long as the parts of each token are kept, and Unigram keeps its scores. On cutting Unigram
vocabularies: https://arxiv.org/abs/2606.13647.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Set
from itertools import islice
from string import ascii_lowercase
from typing import Any

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from isotrope.encoder.fast.packed import BEHIND_PADDING_INDEX
from isotrope.encoder.pooling import rebuilt
from isotrope.errors import UserError

KINDS = ("WordPiece", "Unigram", "BPE")
_BYTE = re.compile("<0x[0-9A-F]{2}>")  # of tokenizers that fall back to bytes
_UNUSED = re.compile(r"\[unused\d+\]")  # BERT's empty places: they are the last to be kept

Counts = npt.NDArray[np.int64]


def tokenizer_kind(model: SentenceTransformer) -> str:
    """The algorithm of a model's tokenizer: one of `KINDS`, or another name."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    return type(backend.model).__name__ if backend else type(model.tokenizer).__name__


def token_counts(model: SentenceTransformer, texts: Iterable[str]) -> Counts:
    """How often each token occurs in texts that are read whole: (V,), by its number."""
    tokenizer, every = _whole(model), iter(texts)
    counts = np.zeros(1 + max(tokenizer.get_vocab().values()), dtype=np.int64)
    while some := list(islice(every, 256)):
        for found in tokenizer.encode_batch_fast(some, add_special_tokens=False):
            counts += np.bincount(found.ids, minlength=len(counts))
    return counts


def keep_tokens(
    model: SentenceTransformer, count: int, counts: Counts | None = None
) -> tuple[SentenceTransformer, list[int]]:
    """The given model, which from now on knows only ``count`` tokens, and the numbers (count,) that
    they had.

    Kept are marks, such as ``<s>``, the characters or bytes that words can be put together from,
    and the most frequent tokens by ``counts`` (V,). Without counts, or where these agree, the first
    come first: vocabularies begin with their most common tokens. Of a byte-pair encoding, the parts
    of each kept token are kept too. UserError: the tokenizer is of another kind, or has not so many
    tokens, or needs more.
    """
    state, whole = json.loads(_whole(model).to_str()), model.tokenizer
    tokens: dict[str, int] = whole.get_vocab()
    names, parts = (
        {number: name for name, number in tokens.items()},
        defaultdict[str, set[str]](set),
    )
    for first, second, made in _merges(state["model"]):
        parts[made] |= {first, second}

    def with_parts(token: int) -> set[int]:
        together, further = {token}, [token]
        while further:
            more = {tokens[part] for part in parts.get(names[further.pop()], ())} - together
            together |= more
            further += more
        return together

    kept = set[int]().union(
        *map(with_parts, _needed(model, state, tokens, parts.keys(), counts is not None))
    )
    if not len(kept) <= count < len(tokens):
        problem = f"vocabulary:{count}: the model has {len(tokens)} tokens, and needs its letters and marks"
        raise UserError(problem, f"choose {len(kept)} to {len(tokens) - 1}, or leave it out")
    times = np.zeros(1 + max(tokens.values()), dtype=np.int64) if counts is None else counts
    for token in sorted(
        names, key=lambda number: (-times[number], bool(_UNUSED.fullmatch(names[number])), number)
    ):
        if len(kept) < count and len(more := with_parts(token) - kept) <= count - len(kept):
            kept |= more
    order = sorted(kept)
    new = {old: place for place, old in enumerate(order)}
    _renumber(state, new)
    model[0].processor = rebuilt(whole, Tokenizer.from_str(json.dumps(state)))
    encoder = model[0].auto_model
    table = encoder.get_input_embeddings()
    table.weight.data[: len(order)] = table.weight.data[order]
    encoder.resize_token_embeddings(len(order))
    for key, value in encoder.config.to_dict().items():
        if key.endswith("_token_id") and isinstance(value, int):
            setattr(encoder.config, key, new.get(value))
    if table.padding_idx is not None:  # the row that training leaves as it is
        encoder.get_input_embeddings().padding_idx = new.get(table.padding_idx)
    return model, order


def _whole(model: SentenceTransformer) -> Tokenizer:
    """A model's tokenizer anew, which neither cuts nor pads; UserError if it is of another kind."""
    if (kind := tokenizer_kind(model)) not in KINDS:
        raise UserError(
            f"vocabulary:N: the tokenizer is a {kind}, none of {', '.join(KINDS)}", "leave it out"
        )
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _merges(model: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The merges of a byte-pair encoding: two parts, and what they make."""
    prefix = model.get("continuing_subword_prefix") or ""
    pairs = (
        merge.split(" ") if isinstance(merge, str) else merge for merge in model.get("merges", ())
    )
    return [(first, second, first + second.removeprefix(prefix)) for first, second in pairs]


def _needed(
    model: SentenceTransformer,
    state: dict[str, Any],
    tokens: dict[str, int],
    made: Set[str],
    counted: bool,
) -> set[int]:
    """The tokens that must stay, by their numbers. Without counts a WordPiece keeps the letters of
    English only.
    """
    own, whole = state["model"], model.tokenizer
    marks = {*whole.all_special_ids, *(added["id"] for added in state["added_tokens"])}
    for words in model.prompts.values():
        marks |= {*whole(words, add_special_tokens=False)["input_ids"]}
    prefix = own.get("continuing_subword_prefix") or ""
    if own["type"] == "BPE":
        letters = tokens.keys() - made
    elif own["type"] == "WordPiece" and not counted:
        letters = {*ascii_lowercase} & tokens.keys()
    else:
        letters = {
            name for name in tokens if len(name.removeprefix(prefix)) == 1 or _BYTE.fullmatch(name)
        }
    marks |= {tokens[name] for name in letters | ({own.get("unk_token")} & tokens.keys())}
    if own["type"] == "Unigram":  # the lowest score decides what an unknown character costs
        scores = [score for _, score in own["vocab"]]
        marks |= {own["unk_id"] or 0, int(np.argmin(scores))}
    # places are counted from the padding's number
    if model[0].auto_model.config.model_type in BEHIND_PADDING_INDEX:
        marks |= {*range(whole.pad_token_id + 1)}
    return marks


def _renumber(state: dict[str, Any], new: dict[int, int]) -> None:
    """Let a tokenizer's state, in place, have the kept tokens only, by their new numbers."""
    own = state["model"]
    if own["type"] == "Unigram":
        own["vocab"] = [entry for number, entry in enumerate(own["vocab"]) if number in new]
        own["unk_id"] = None if own["unk_id"] is None else new[own["unk_id"]]
    else:
        own["vocab"] = {name: new[number] for name, number in own["vocab"].items() if number in new}
    if own["type"] == "BPE":
        own["merges"] = [merge[:2] for merge in _merges(own) if {*merge} <= own["vocab"].keys()]
    for added in state["added_tokens"]:
        added["id"] = new[added["id"]]
    state["post_processor"] = _marks_renumbered(state["post_processor"], new)


def _marks_renumbered(value: Any, new: dict[int, int]) -> Any:
    """A post-processor's settings, in which numbers stand as "ids": [0], or as ["<s>", 0]."""
    if isinstance(value, dict):
        return {
            k: [new[i] for i in v] if k == "ids" else _marks_renumbered(v, new)
            for k, v in value.items()
        }
    if isinstance(value, list) and [type(one) for one in value] == [str, int]:
        return [value[0], new[value[1]]]
    return [_marks_renumbered(one, new) for one in value] if isinstance(value, list) else value
