"""How much of its text a model will read: texts that are cut, and tokens that its tokenizer does
not know.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

from isotrope.text.permutation import evenly
from isotrope.text.sample import Sample
from isotrope.text.tokens import TextReader

# texts: their share is the corpus's to 2.2 points in a hundred, in 95 of 100 cases
LOOKED_AT = 2_000
_AT_ONCE = 200  # texts that are read at once: they may be long
MUCH = 0.25  # of the text; so much left unread is worth a warning
STRANGE = 500  # texts that are enough to see whether the tokenizer knows their language
MANY_UNKNOWN = 0.02  # of the tokens
# of the tokens, which stand for single letters: German has few, Russian without words nearly all
MANY_LETTERS = 0.5
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
    """A line on how much of its text a model will read, and a warning with remedies if much is cut
    off.

    It looks at the first `LOOKED_AT` rows of a sample, and says nothing of a tokenizer in Python.
    The model will read ``limit`` tokens of a text, and could read ``longest``; ``split``: the texts
    may be split into sentences.
    """
    if (reader := TextReader.from_model(model, prompt, limit)) is None:
        return []
    reader.tokenizer.no_truncation()
    columns, rows = sample.corpus.columns, sample.order.rows(0, min(LOOKED_AT, len(sample)))
    found = sample.corpus.dataset[rows.tolist()]
    texts = [text for column in columns for text in found[column]]
    parts = [reader(texts[begin : begin + _AT_ONCE])[1] for begin in range(0, len(texts), _AT_ONCE)]
    lengths = np.concatenate(parts)  # (n,) tokens of each text, uncut
    read = np.minimum(lengths, limit).sum() / lengths.sum()
    looked = "" if len(rows) == len(sample) else " looked at"
    longer = f"{(lengths > limit).sum():,} of {len(lengths):,} texts{looked} are longer than {limit} tokens"
    said = [f"{longer}; {100 * read:.0f} % of the text is read"]
    if read < 1 - MUCH:
        remedies = ["add --split sentences"] if split else []
        # 95 of 100 texts are then read whole
        enough = min(longest, int(np.quantile(lengths, 0.95, method="higher")))
        if enough > limit:
            remedies.append(f"read more with --set train.max_length={enough}")
        said.append(
            f"warning: much of the text is cut off: {', or '.join(remedies) or 'give shorter texts'}"
        )
    return said


def unknown_warning(model: SentenceTransformer, texts: Sequence[str]) -> str:
    """One line if the model's tokenizer does not know the language of these texts; else "", as for
    one in Python.

    It does not if more than `MANY_UNKNOWN` of the tokens are unknown, or if it has the letters of a
    script but none of its words: then more than `MANY_LETTERS` of the tokens are single letters, or
    bytes of one. Letters of ASCII do not count, nor do Chinese characters and kana, which may be
    words. At most `STRANGE` of the texts are read, evenly.
    """
    own: Any = model.tokenizer
    backend = getattr(own, "backend_tokenizer", own)
    if not isinstance(backend, Tokenizer):
        return ""
    tokenizer = Tokenizer.from_str(backend.to_str())
    tokenizer.enable_truncation(_READ)
    tokenizer.no_padding()  # which the model has switched on if it has encoded anything
    mark = getattr(own, "unk_token", None) or getattr(tokenizer.model, "unk_token", None)
    unknown = tokenizer.token_to_id(mark) if mark else None
    tokens, letters, strangers = 0, 0, Counter[str]()
    some = [texts[place] for place in evenly(len(texts), STRANGE)]
    for text, encoded in zip(
        some, tokenizer.encode_batch(some, add_special_tokens=False), strict=True
    ):
        tokens += len(encoded.ids)
        before = None
        for token, (begin, end) in zip(encoded.ids, encoded.offsets, strict=True):
            part = text[begin:end]
            if token == unknown:
                strangers[part[:12]] += 1
            is_letter = (
                len(part) == 1
                and part > "\x7f"
                and part.isalpha()
                and not "\u2e80" <= part <= "\u9fff"
            )
            letters += is_letter or (begin, end) == before
            before = begin, end
    if (count := strangers.total()) > MANY_UNKNOWN * tokens:
        shown = " ".join(part for part, _ in strangers.most_common(3))
        problem = f"{100 * count / tokens:.0f} % of the tokens are unknown to the model's tokenizer, such as {shown}"
    elif letters > MANY_LETTERS * tokens:
        share = f"{100 * letters / tokens:.0f} % of the tokens are single letters"
        problem = f"the model's tokenizer has no words of this script: {share}"
    else:
        return ""
    return f"warning: {problem}; take a multilingual model, or one of this language"
