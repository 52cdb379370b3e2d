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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
_TEXTS_AT_ONCE = 256

Counts = npt.NDArray[np.int64]


def tokenizer_kind(model: SentenceTransformer) -> str:
    """The algorithm of a model's tokenizer: one of `KINDS`, or another name."""
    backend = getattr(model.tokenizer, "backend_tokenizer", None)
    return type(backend.model).__name__ if backend else type(model.tokenizer).__name__


def token_counts(model: SentenceTransformer, texts: Iterable[str]) -> Counts:
    """How often each token occurs in texts that are read whole: (V,), by its number."""
    tokenizer = _fresh_tokenizer(model)
    counts = np.zeros(1 + max(tokenizer.get_vocab().values()), dtype=np.int64)
    remaining = iter(texts)
    while batch := list(islice(remaining, _TEXTS_AT_ONCE)):
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            counts += np.bincount(encoding.ids, minlength=len(counts))
    return counts


@dataclass(frozen=True)
class _Vocabulary:
    """A tokenizer's tokens, and of which other tokens each is merged."""

    state: dict[str, Any]  # the tokenizer's own, as JSON
    number: Mapping[str, int]  # of each token
    parts: Mapping[str, set[str]] = field(default_factory=dict)  # of a byte-pair encoding

    @classmethod
    def of(cls, model: SentenceTransformer) -> "_Vocabulary":
        state = json.loads(_fresh_tokenizer(model).to_str())
        parts = defaultdict[str, set[str]](set)
        for first, second, merged in _merges(state["model"]):
            parts[merged] |= {first, second}
        return cls(state, model.tokenizer.get_vocab(), dict(parts))

    @property
    def algorithm(self) -> dict[str, Any]:
        """The settings of the algorithm within the state."""
        return self.state["model"]  # type: ignore[no-any-return]

    @cached_property
    def name(self) -> Mapping[int, str]:
        """The token of each number."""
        return {number: name for name, number in self.number.items()}

    def with_parts(self, token: int) -> set[int]:
        """A token and all tokens that it is merged of, by their numbers."""
        found, waiting = {token}, [token]
        while waiting:
            parts = self.parts.get(self.name[waiting.pop()], set())
            new = {self.number[part] for part in parts} - found
            found |= new
            waiting += new
        return found


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
    vocabulary = _Vocabulary.of(model)
    kept = _needed_tokens(model, vocabulary, every_letter=counts is not None)
    total = len(vocabulary.number)
    if not len(kept) <= count < total:
        raise UserError(
            f"vocabulary:{count}: the model has {total} tokens, and needs its letters and marks",
            f"choose {len(kept)} to {total - 1}, or leave it out",
            "student-does-not-fit",
        )
    _add_most_frequent(kept, count, vocabulary, counts)

    old_numbers = sorted(kept)
    new_number = {old: new for new, old in enumerate(old_numbers)}
    _renumber_tokenizer(vocabulary.state, new_number)
    backend = Tokenizer.from_str(json.dumps(vocabulary.state))
    model[0].processor = rebuilt(model.tokenizer, backend)
    _renumber_model(model[0].auto_model, old_numbers, new_number)
    return model, old_numbers


def _add_most_frequent(
    kept: set[int], count: int, vocabulary: _Vocabulary, counts: Counts | None
) -> None:
    """Add the most frequent tokens with their parts until ``count`` are kept."""

    def rank(number: int) -> tuple[int, bool, int]:
        times = 0 if counts is None else int(counts[number])
        is_unused = bool(_UNUSED.fullmatch(vocabulary.name[number]))
        return -times, is_unused, number

    for token in sorted(vocabulary.name, key=rank):
        if len(kept) == count:
            return
        new = vocabulary.with_parts(token) - kept
        if len(kept) + len(new) <= count:
            kept |= new


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


def _fresh_tokenizer(model: SentenceTransformer) -> Tokenizer:
    """A copy of a model's tokenizer, which neither cuts nor pads; UserError if it is of another
    kind.
    """
    kind = tokenizer_kind(model)
    if kind not in KINDS:
        raise UserError(
            f"vocabulary:N: the tokenizer is a {kind}, none of {', '.join(KINDS)}",
            "leave it out",
            "student-does-not-fit",
        )
    tokenizer = Tokenizer.from_str(model.tokenizer.backend_tokenizer.to_str())
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _merges(algorithm: dict[str, Any]) -> list[tuple[str, str, str]]:
    """The merges of a byte-pair encoding: two parts, and what they make."""
    prefix = algorithm.get("continuing_subword_prefix") or ""
    merges = []
    for merge in algorithm.get("merges", ()):
        first, second = merge.split(" ") if isinstance(merge, str) else merge
        merges.append((first, second, first + second.removeprefix(prefix)))
    return merges


def _needed_tokens(
    model: SentenceTransformer, vocabulary: _Vocabulary, every_letter: bool
) -> set[int]:
    """The tokens that must stay, with their parts, by their numbers."""
    tokenizer = model.tokenizer
    algorithm = vocabulary.algorithm
    needed = {added["id"] for added in vocabulary.state["added_tokens"]}
    needed.update(tokenizer.all_special_ids)
    for prompt in model.prompts.values():
        needed.update(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    needed.update(vocabulary.number[name] for name in _letters(vocabulary, every_letter))
    if algorithm.get("unk_token") in vocabulary.number:
        needed.add(vocabulary.number[algorithm["unk_token"]])
    if algorithm["type"] == "Unigram":  # the lowest score decides what an unknown character costs
        scores = [score for _, score in algorithm["vocab"]]
        needed |= {algorithm["unk_id"] or 0, int(np.argmin(scores))}
    # Places are counted from the padding's number.
    if model[0].auto_model.config.model_type in BEHIND_PADDING_INDEX:
        needed.update(range(tokenizer.pad_token_id + 1))
    return set[int]().union(*map(vocabulary.with_parts, needed))


def _letters(vocabulary: _Vocabulary, every_letter: bool) -> set[str]:
    """The tokens from which any word can be put together.

    A WordPiece without ``every_letter`` keeps those of English only.
    """
    names = vocabulary.number.keys()
    algorithm = vocabulary.algorithm
    if algorithm["type"] == "BPE":
        return names - vocabulary.parts.keys()
    if algorithm["type"] == "WordPiece" and not every_letter:
        return {*ascii_lowercase} & names
    prefix = algorithm.get("continuing_subword_prefix") or ""
    return {name for name in names if len(name.removeprefix(prefix)) == 1 or _BYTE.fullmatch(name)}


def _renumber_tokenizer(state: dict[str, Any], new_number: Mapping[int, int]) -> None:
    """Let a tokenizer's state, in place, have the kept tokens only, by their new numbers."""
    algorithm = state["model"]
    if algorithm["type"] == "Unigram":
        entries = enumerate(algorithm["vocab"])
        algorithm["vocab"] = [entry for number, entry in entries if number in new_number]
        if algorithm["unk_id"] is not None:
            algorithm["unk_id"] = new_number[algorithm["unk_id"]]
    else:
        tokens = algorithm["vocab"].items()
        algorithm["vocab"] = {
            name: new_number[number] for name, number in tokens if number in new_number
        }
    if algorithm["type"] == "BPE":
        names = algorithm["vocab"].keys()
        algorithm["merges"] = [
            (first, second)
            for first, second, merged in _merges(algorithm)
            if {first, second, merged} <= names
        ]
    for added in state["added_tokens"]:
        added["id"] = new_number[added["id"]]
    state["post_processor"] = _renumber_marks(state["post_processor"], new_number)


def _renumber_marks(setting: Any, new_number: Mapping[int, int]) -> Any:
    """A post-processor's settings, in which numbers stand as "ids": [0], or as ["<s>", 0]."""
    if isinstance(setting, dict):
        renumbered = {key: _renumber_marks(value, new_number) for key, value in setting.items()}
        if "ids" in setting:
            renumbered["ids"] = [new_number[number] for number in setting["ids"]]
        return renumbered
    if not isinstance(setting, list):
        return setting
    if [type(item) for item in setting] == [str, int]:
        name, number = setting
        return [name, new_number[number]]
    return [_renumber_marks(item, new_number) for item in setting]
