"""How much of its text a model will read: texts that are cut, and tokens that its tokenizer does not know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt
from sentence_transformers import SentenceTransformer

from isotrope.text.sample import Sample
from isotrope.text.tokens import TextReader

LOOKED_AT = 5_000  # texts: their share is the corpus's to 1.4 points in a hundred, in 95 of 100 cases
_CHARACTERS = 1 << 22  # of them, at most: about a second's work
MUCH = 0.25  # of the text; so much left unread is worth a warning
MANY = 0.01  # of the tokens; so many unknown ones are worth a line
_ROWS = 500  # read at a time


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was found in a random part of a run's texts.

    Attributes:
        lengths: (n,) tokens of each text that was looked at, uncut.
        whole: whether these are all texts of the run.
        limit: tokens that are read of a text.
        unknown: tokens that the tokenizer does not know, as a share of all but its own marks.
        examples: what some unknown tokens stand for.
    """

    lengths: npt.NDArray[np.int64]
    whole: bool
    limit: int
    unknown: float
    examples: tuple[str, ...]

    @property
    def read(self) -> float:
        """The share of the tokens that is read."""
        return float(np.minimum(self.lengths, self.limit).sum() / self.lengths.sum())

    @property
    def enough(self) -> int:
        """Tokens that hold 95 of 100 texts whole."""
        return int(np.quantile(self.lengths, 0.95, method="higher"))

    def __str__(self) -> str:
        """One line on the cuts; a second one if many tokens are unknown."""
        longer, count = int((self.lengths > self.limit).sum()), len(self.lengths)
        looked = f"{longer:,} of {count:,} texts" + ("" if self.whole else " looked at")
        said = f"{looked} are longer than {self.limit} tokens; {_percent(self.read)} of the text is read"
        if self.unknown > MANY:
            shown = f", such as {' '.join(self.examples)}" if self.examples else ""
            said += f"\n{_percent(self.unknown)} of the tokens are unknown to the model's tokenizer{shown}"
        return said

    def warning(self, remedies: Sequence[str]) -> str:
        """One line, if much of the text is cut off; else nothing."""
        if self.read >= 1 - MUCH:
            return ""
        return f"warning: much of the text is cut off: {', or '.join(remedies) or 'give shorter texts'}"


def coverage(model: SentenceTransformer, prompt: str, sample: Sample, limit: int) -> Coverage | None:
    """Look at `LOOKED_AT` texts of a sample, in the order of its first epoch; at fewer, if they are long.

    Args:
        model: whose tokenizer reads them.
        prompt: words before every text.
        sample: the rows of the run; all of their columns count.
        limit: tokens that the model will read of a text.

    Returns:
        What was found; None for a tokenizer that is not of the `tokenizers` library.
    """
    if (reader := TextReader.from_model(model, prompt, limit)) is None:
        return None
    tokenizer, unknown = reader.tokenizer, model.tokenizer.unk_token_id
    tokenizer.no_truncation()
    if unknown in tokenizer.encode("").ids:  # one mark for many ends, as GPT-2 has it
        unknown = None
    lengths, strangers, examples, looked = list[npt.NDArray[np.int64]](), 0, dict[str, None](), 0
    for texts in _texts(sample):
        ids, counts = reader(texts)
        lengths.append(counts)
        looked += len(texts)
        if unknown is not None and (found := int((ids == unknown).sum())):
            strangers += found
            if len(examples) < 3:
                examples |= dict.fromkeys(islice(_unknown(reader, texts, unknown), 3))
    total = np.concatenate(lengths)
    words = total.sum() - looked * tokenizer.num_special_tokens_to_add(False)
    whole = looked == len(sample) * len(sample.corpus.columns)
    return Coverage(total, whole, limit, strangers / max(1, int(words)), tuple(examples)[:3])


def _texts(sample: Sample) -> Iterator[list[str]]:
    size, characters = min(LOOKED_AT, len(sample)), 0
    for begin in range(0, size, _ROWS):
        rows = sample.order.rows(begin, min(begin + _ROWS, size))
        found = sample.corpus.dataset[rows.tolist()]
        texts = [text for column in sample.corpus.columns for text in found[column]]
        yield texts
        if (characters := characters + sum(map(len, texts))) >= _CHARACTERS:
            return


def _unknown(reader: TextReader, texts: list[str], unknown: int) -> Iterator[str]:
    """What the unknown tokens of some texts stand for, shortened."""
    for text in texts:
        encoded = reader.tokenizer.encode(reader.prompt + text)
        for token, (begin, end) in zip(encoded.ids, encoded.offsets, strict=True):
            if token == unknown and begin < end:
                yield (reader.prompt + text)[begin : min(end, begin + 12)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 1 or 0.095 <= share < 0.995 else f"{100 * share:.1f} %"
