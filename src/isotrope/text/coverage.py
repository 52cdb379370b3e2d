"""How much of its text a model will read.

Texts may be cut, and the tokenizer may not know their words.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Encoding, Tokenizer

from isotrope.text.permutation import RowIds, evenly
from isotrope.text.sample import Sample
from isotrope.text.tokens import TextReader

# Texts: their share is the corpus's to 2.2 points in a hundred, in 95 of 100 cases.
LOOKED_AT = 2_000
_TEXTS_AT_ONCE = 200  # they may be long
MUCH = 0.25  # of the text; so much left unread is worth a warning
STRANGE = 500  # texts that are enough to see whether the tokenizer knows their language
MANY_UNKNOWN = 0.02  # of the tokens
# Of the tokens, which stand for single letters: German has few, Russian without words nearly all.
MANY_LETTERS = 0.5
_SHOWN = 12  # characters of an unknown token
_READ = 256  # tokens of a text that are enough to see its language


def coverage(
    model: SentenceTransformer,
    prompt: str,
    sample: Sample,
    limit: int,
    *,
    longest: int,
    split: bool,
) -> list[str]:
    """A line on how much of its text a model will read, and a warning if much is cut off.

    It looks at the first `LOOKED_AT` rows of a sample, and says nothing of a tokenizer in Python.
    The model will read ``limit`` tokens of a text, and could read ``longest``; ``split``: the texts
    may be split into sentences.
    """
    reader = TextReader.from_model(model, prompt, limit)
    if reader is None:
        return []
    reader.tokenizer.no_truncation()
    count = min(LOOKED_AT, len(sample))
    rows = sample.order.rows(0, count)
    corpus = sample.corpus
    dataset = corpus.dataset.select_columns(list(corpus.columns))
    columns = dataset[rows.tolist()]
    texts = list(chain.from_iterable(columns.values()))
    lengths = _token_counts(reader, texts)

    share_read = lengths.clip(max=limit).sum() / lengths.sum()
    longer = (lengths > limit).sum()
    looked_at = "" if count == len(sample) else " looked at"
    lines = [
        f"{longer:,} of {len(lengths):,} texts{looked_at} are longer than {limit} tokens; "
        f"{100 * share_read:.0f} % of the text is read"
    ]
    if share_read < 1 - MUCH:
        remedies = _remedies(lengths, limit, longest=longest, split=split)
        lines.append(f"warning: much of the text is cut off: {remedies}")
    return lines


def _token_counts(reader: TextReader, texts: Sequence[str]) -> RowIds:
    """Tokens of each text (n,), which are not cut."""
    counts = []
    for begin in range(0, len(texts), _TEXTS_AT_ONCE):
        some_texts = texts[begin : begin + _TEXTS_AT_ONCE]
        _, lengths = reader(some_texts)
        counts.append(lengths)
    return np.concatenate(counts)


def _remedies(lengths: RowIds, limit: int, *, longest: int, split: bool) -> str:
    """What helps if much of the text is cut off."""
    remedies = ["add --split sentences"] if split else []
    # Then 95 of 100 texts are read whole.
    most = int(np.quantile(lengths, 0.95, method="higher"))
    enough = min(longest, most)
    if enough > limit:
        remedies.append(f"read more with --set train.max_length={enough}")
    return ", or ".join(remedies) or "give shorter texts"


@dataclass
class _TokenCounts:
    """Tokens of some texts."""

    total: int = 0
    single_letters: int = 0  # letters of a script, or bytes of one
    unknown: Counter[str] = field(default_factory=Counter)  # the text of unknown tokens

    def add(self, text: str, encoding: Encoding, unknown_id: int | None) -> None:
        """Count the tokens of a text."""
        self.total += len(encoding.ids)
        last_offsets = None
        for token, offsets in zip(encoding.ids, encoding.offsets, strict=True):
            piece = text[slice(*offsets)]
            if token == unknown_id:
                self.unknown[piece[:_SHOWN]] += 1
            # A byte of a letter has the offsets of the byte before it.
            self.single_letters += _is_letter(piece) or offsets == last_offsets
            last_offsets = offsets


def _is_letter(piece: str) -> bool:
    """Whether it is one letter, but not of ASCII, and no Chinese character or kana."""
    is_one_letter = len(piece) == 1 and piece.isalpha()
    return is_one_letter and piece > "\x7f" and not "\u2e80" <= piece <= "\u9fff"


def unknown_warning(model: SentenceTransformer, texts: Sequence[str]) -> str:
    """A warning if the model's tokenizer does not know the language of these texts; else "".

    There is none for a tokenizer in Python. It does not if more than `MANY_UNKNOWN` of the tokens
    are unknown, or if it has the letters of a script but none of its words: then more than
    `MANY_LETTERS` of the tokens are single letters, or bytes of one. Letters of ASCII do not count,
    nor do Chinese characters and kana, which may be words. At most `STRANGE` of the texts are read,
    evenly.
    """
    original: Any = model.tokenizer
    backend = getattr(original, "backend_tokenizer", original)
    if not isinstance(backend, Tokenizer):
        return ""
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.enable_truncation(_READ)
    tokenizer.no_padding()  # which the model has switched on if it has encoded anything
    own_token = getattr(original, "unk_token", None)
    unknown_token = own_token or getattr(tokenizer.model, "unk_token", None)
    unknown_id = tokenizer.token_to_id(unknown_token) if unknown_token else None

    counts = _TokenCounts()
    sampled = [texts[row] for row in evenly(len(texts), STRANGE)]
    encodings = tokenizer.encode_batch(sampled, add_special_tokens=False)
    for text, encoding in zip(sampled, encodings, strict=True):
        counts.add(text, encoding, unknown_id)
    return _language_warning(counts)


def _language_warning(counts: _TokenCounts) -> str:
    unknown = counts.unknown.total()
    if unknown > MANY_UNKNOWN * counts.total:
        most_common = dict(counts.unknown.most_common(3))
        examples = " ".join(most_common)
        share = f"{100 * unknown / counts.total:.0f} % of the tokens"
        problem = f"{share} are unknown to the model's tokenizer, such as {examples}"
    elif counts.single_letters > MANY_LETTERS * counts.total:
        share = f"{100 * counts.single_letters / counts.total:.0f} % of the tokens"
        problem = f"the model's tokenizer has no words of this script: {share} are single letters"
    else:
        return ""
    return f"warning: {problem}; take a multilingual model, or one of this language"
