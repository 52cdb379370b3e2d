"""Fewer tokens: a model keeps those that its documents need most.

It reads all other words in smaller pieces. A text whose tokens are all kept has the same vector to
the last bit, because each algorithm finds its pieces again: WordPiece takes the longest that there
is, byte-pair encoding goes the same way up as long as the parts of each token are kept, and Unigram
keeps its scores. On cutting Unigram vocabularies: https://arxiv.org/abs/2606.13647.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from string import ascii_lowercase
from typing import Any, NamedTuple

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
    size = 1 + max(tokenizer.get_vocab().values())
    counts = np.zeros(size, dtype=np.int64)
    for batch in _batches(texts):
        for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
            counts += np.bincount(encoding.ids, minlength=size)
    return counts


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(texts)
    batch = list(islice(remaining, _TEXTS_AT_ONCE))
    while batch:
        yield batch
        batch = list(islice(remaining, _TEXTS_AT_ONCE))


@dataclass(frozen=True)
class _Vocabulary:
    """A tokenizer's tokens, and of which other tokens each is merged.

    Attributes:
        state: the tokenizer's own, as JSON.
        number: of each token.
        pieces: of each token that a byte-pair encoding merges: those that it is merged of.
    """

    state: dict[str, Any]
    number: Mapping[str, int]
    pieces: Mapping[str, set[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: SentenceTransformer) -> "_Vocabulary":
        state = json.loads(_fresh_tokenizer(model).to_str())
        pieces = defaultdict[str, set[str]](set)
        for merge in _merges(state["model"]):
            pieces[merge.result] |= {merge.first, merge.second}
        return cls(state, model.tokenizer.get_vocab(), dict(pieces))

    @property
    def algorithm(self) -> dict[str, Any]:
        """The settings of the algorithm within the state."""
        return self.state["model"]  # type: ignore[no-any-return]

    @cached_property
    def name(self) -> Mapping[int, str]:
        """The token of each number."""
        return {number: name for name, number in self.number.items()}

    def with_pieces(self, token: int) -> set[int]:
        """A token and all tokens that it is merged of, by their numbers."""
        numbers = {token}
        waiting = [token]
        while waiting:
            name = self.name[waiting.pop()]
            pieces = {self.number[piece] for piece in self.pieces.get(name, ())}
            waiting += pieces - numbers
            numbers |= pieces
        return numbers


def keep_tokens(
    model: SentenceTransformer, count: int, counts: Counts | None = None
) -> tuple[SentenceTransformer, list[int]]:
    """Let the given model know only ``count`` tokens -> it, and the numbers (count,) they had.

    Kept are marks, such as ``<s>``, the characters or bytes that words can be put together from,
    and the most frequent tokens by ``counts`` (V,). Without counts, or where these agree, the first
    come first: vocabularies begin with their most common tokens. Of a byte-pair encoding, the parts
    of each kept token are kept too.

    Raises:
        UserError: the tokenizer is of another kind, or has not so many tokens, or needs more.
    """
    vocabulary = _Vocabulary.of(model)
    tokens = _needed_tokens(model, vocabulary, every_letter=counts is not None)
    total = len(vocabulary.number)
    if not len(tokens) <= count < total:
        raise UserError(
            f"vocabulary:{count}: the model has {total} tokens, and needs its letters and marks",
            f"choose {len(tokens)} to {total - 1}, or leave it out",
            "student-does-not-fit",
        )
    _add_most_frequent(tokens, count, vocabulary, counts)

    old_numbers = sorted(tokens)
    new_number = {old: new for new, old in enumerate(old_numbers)}
    _renumber_tokenizer(vocabulary.state, new_number)
    backend = Tokenizer.from_str(json.dumps(vocabulary.state))
    model[0].processor = rebuilt(model.tokenizer, backend)
    _renumber_model(model[0].auto_model, old_numbers, new_number)
    return model, old_numbers


def _add_most_frequent(
    tokens: set[int], count: int, vocabulary: _Vocabulary, counts: Counts | None
) -> None:
    """Add the most frequent tokens, with those that they are merged of, until there are ``count``."""

    def rank(number: int) -> tuple[int, bool, int]:
        times = 0 if counts is None else int(counts[number])
        is_unused = bool(_UNUSED.fullmatch(vocabulary.name[number]))
        return -times, is_unused, number

    for token in sorted(vocabulary.name, key=rank):
        if len(tokens) == count:
            return
        new = vocabulary.with_pieces(token) - tokens
        if len(tokens) + len(new) <= count:
            tokens |= new


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
    """A copy of a model's tokenizer, which neither cuts nor pads.

    UserError if it is of another kind.
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


class _Merge(NamedTuple):
    """A merge of a byte-pair encoding: two tokens, and what they make."""

    first: str
    second: str
    result: str


def _merges(algorithm: dict[str, Any]) -> list[_Merge]:
    prefix = algorithm.get("continuing_subword_prefix") or ""
    merges = []
    for merge in algorithm.get("merges", ()):
        first, second = merge.split(" ") if isinstance(merge, str) else merge
        merges.append(_Merge(first, second, first + second.removeprefix(prefix)))
    return merges


def _needed_tokens(
    model: SentenceTransformer, vocabulary: _Vocabulary, every_letter: bool
) -> set[int]:
    """The tokens that must stay, with those that they are merged of, by their numbers."""
    tokenizer = model.tokenizer
    algorithm = vocabulary.algorithm
    needed = {added["id"] for added in vocabulary.state["added_tokens"]}
    needed.update(tokenizer.all_special_ids)
    for prompt in model.prompts.values():
        needed.update(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    for name in _letters(vocabulary, every_letter):
        needed.add(vocabulary.number[name])
    unknown: str | None = algorithm.get("unk_token")
    if unknown is not None and unknown in vocabulary.number:
        needed.add(vocabulary.number[unknown])
    if algorithm["type"] == "Unigram":  # the lowest score decides what an unknown character costs
        scores = [score for _, score in algorithm["vocab"]]
        needed |= {algorithm["unk_id"] or 0, int(np.argmin(scores))}
    # Places are counted from the padding's number.
    if model[0].auto_model.config.model_type in BEHIND_PADDING_INDEX:
        needed.update(range(tokenizer.pad_token_id + 1))
    return set[int]().union(*map(vocabulary.with_pieces, needed))


def _letters(vocabulary: _Vocabulary, every_letter: bool) -> set[str]:
    """The tokens from which any word can be put together.

    A WordPiece without ``every_letter`` keeps those of English only.
    """
    names = vocabulary.number.keys()
    algorithm = vocabulary.algorithm
    if algorithm["type"] == "BPE":
        return names - vocabulary.pieces.keys()
    if algorithm["type"] == "WordPiece" and not every_letter:
        return {*ascii_lowercase} & names
    prefix = algorithm.get("continuing_subword_prefix") or ""
    letters = {name for name in names if len(name.removeprefix(prefix)) == 1}
    return letters | {name for name in names if _BYTE.fullmatch(name)}


def _renumber_tokenizer(state: dict[str, Any], new_number: Mapping[int, int]) -> None:
    """Let a tokenizer's state, in place, have the kept tokens only, by their new numbers."""
    algorithm = state["model"]
    if algorithm["type"] == "Unigram":
        entries = enumerate(algorithm["vocab"])
        algorithm["vocab"] = [entry for number, entry in entries if number in new_number]
        if algorithm["unk_id"] is not None:
            algorithm["unk_id"] = new_number[algorithm["unk_id"]]
    else:
        vocabulary = dict[str, int]()
        for name, number in algorithm["vocab"].items():
            if number in new_number:
                vocabulary[name] = new_number[number]
        algorithm["vocab"] = vocabulary
    if algorithm["type"] == "BPE":
        names = algorithm["vocab"].keys()
        merges = [merge for merge in _merges(algorithm) if {*merge} <= names]
        algorithm["merges"] = [(merge.first, merge.second) for merge in merges]

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
