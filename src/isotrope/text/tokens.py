"""The tokens of a run's sentences, made ahead of time into a memory-mapped file: a step only copies
them.

They serve every epoch, seed and run on the same sentences, and a GPU never waits for them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import xxhash
from datasets import Dataset
from rich.console import Console
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.data_collator import SentenceTransformerDataCollator
from tokenizers import Tokenizer
from torch import Tensor

from isotrope.console.progress import tell
from isotrope.store.cache import cache_folder, cached
from isotrope.store.files import new_file
from isotrope.text.corpus import Texts
from isotrope.text.permutation import RowIds

_LAYOUT = 2  # version of the layout below; part of the key
SHARD_ROWS = 8192  # sentences made into tokens at once: enough for every core, little in memory
IDS, BOUNDS = "ids.bin", "bounds.bin"
# A model whose own features of these are not those of the store goes on with its own: one token,
# Unicode, too many.
PROBES = ["A", "  Größe, 日本語  and 3.5 WORDS don't ", "word " * 2000]

TextFeatures = dict[str, Any]
RowCollator = Callable[[Sequence[TextFeatures]], TextFeatures]


def token_data(
    model: SentenceTransformer,
    corpus: Texts,
    rows: RowIds | None,
    max_length: int,
    console: Console,
    others: str | None = None,
) -> tuple[Dataset, RowCollator]:
    """What a trainer reads: its data set, and the collator that makes a batch's features of the
    data set's rows.

    These are row ids and a `TokenStore`; for a model that the store does not serve (a tokenizer in
    Python, features other than ids, mask and zeros), the corpus and sentence-transformers'
    collator. The features are equal.

    The student's tokenizer and default prompt count; ``others`` are words before positives and hard
    negatives, in place of the default prompt. A text is cut to ``max_length`` tokens. Only the
    ``rows`` (R,) are made, None for all.
    """
    first = model.prompts.get(model.default_prompt_name) or ""
    prompts = {
        name: first if others is None or number == 0 else others
        for number, name in enumerate(corpus.columns)
    }
    readers = []
    for prompt in prompts.values():
        own = SentenceTransformerDataCollator(
            model.preprocess, max_length=max_length, prompts=prompt
        )
        if (
            reader := TextReader.from_model(model, prompt, max_length)
        ) is None or not reader.agrees(own):
            return corpus.dataset, replace(own, prompts=prompts)
        readers.append(reader)
    return corpus.dataset.select_columns("label"), TokenStore.open(
        tuple(readers), corpus, rows, console
    )


@dataclass(frozen=True, slots=True)
class TextReader:
    """How the student reads a sentence while it trains."""

    tokenizer: Tokenizer  # cuts, does not pad; encodes a list on every core
    prompt: str
    padding: int  # the id
    left: bool  # whether padding stands before the text
    # keys of the features, in order, and the values of those that are no tensors
    template: TextFeatures
    dtype: np.dtype[Any]  # of an id: two bytes, where the vocabulary allows it

    @classmethod
    def from_model(
        cls, model: SentenceTransformer, prompt: str, max_length: int
    ) -> "TextReader | None":
        """The student's, with a tokenizer of their own; None where it is not one of the
        `tokenizers` library.
        """
        own: Any = model.tokenizer
        if not getattr(own, "is_fast", False):
            return None
        tokenizer = Tokenizer.from_str(own.backend_tokenizer.to_str())
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length, direction=own.truncation_side)
        template = model.preprocess(PROBES[:1], prompt=prompt or None, max_length=max_length)
        dtype = np.dtype("<u2" if max(tokenizer.get_vocab().values()) < 1 << 16 else "<u4")
        return cls(
            tokenizer, prompt, own.pad_token_id or 0, own.padding_side == "left", template, dtype
        )

    def agrees(self, own: RowCollator) -> bool:
        """Whether the features made here are those of the model's own collator, bit for bit."""
        rows = [{"text": text, "label": place} for place, text in enumerate(PROBES)]
        ids, lengths = self(PROBES)
        store = TokenStore((self,), ("text",), None, ids, np.concatenate([[0], lengths.cumsum()]))

        def plain(value: Any) -> Any:
            return (value.dtype, value.tolist()) if isinstance(value, Tensor) else value

        expected, found = (
            {key: plain(value) for key, value in made(rows).items()} for made in (own, store)
        )
        return expected == found

    def __call__(self, texts: Sequence[str]) -> tuple[npt.NDArray[Any], RowIds]:
        """Texts -> their ids end to end (T,), and how many each has (n,)."""
        encoded = self.tokenizer.encode_batch_fast([self.prompt + text for text in texts])
        ids = [encoding.ids for encoding in encoded]
        return np.fromiter(chain.from_iterable(ids), self.dtype), np.fromiter(
            map(len, ids), np.int64, len(ids)
        )


@dataclass(frozen=True, slots=True)
class TokenStore:
    """A collator: row ids -> the features that the model's own collator makes of the sentences (N,
    L), padded.
    """

    readers: tuple[TextReader, ...]  # one a column; they differ in their prompts alone
    columns: tuple[str, ...]  # C of them
    rows: RowIds | None  # (R,) rising; None: row i is place i
    ids: npt.NDArray[Any]  # (T,) of all texts, mapped
    bounds: RowIds  # (R·C + 1,) text i has the ids bounds[i] to bounds[i + 1]; mapped
    valid_label_columns: tuple[str, ...] = ("label",)  # what the trainer asks of a collator

    @classmethod
    def open(
        cls, readers: tuple[TextReader, ...], corpus: Texts, rows: RowIds | None, console: Console
    ) -> "TokenStore":
        """Find the tokens in the cache, or make them: row after row, within it column after column."""
        rows = None if rows is None or len(rows) == len(corpus) else np.sort(rows)
        reader, prompts = replace(readers[0], prompt=""), [reader.prompt for reader in readers]
        said = prompts[0] if len(set(prompts)) == 1 else prompts
        settings = [_LAYOUT, reader.tokenizer.to_str(), said, corpus.key]
        key = xxhash.xxh3_128(json.dumps(settings).encode())
        key.update(b"" if rows is None else rows.tobytes())

        def make(draft: Path) -> None:
            chosen = corpus.dataset if rows is None else corpus.dataset.select(rows)
            console.print(f"making tokens of {len(chosen):,} sentences")
            end = np.zeros(1, "<i8")
            with new_file(draft / IDS) as tokens, new_file(draft / BOUNDS) as bounds:
                bounds.write(end.tobytes())
                for number, found in enumerate(chosen.iter(SHARD_ROWS)):
                    tell("made tokens of", number * SHARD_ROWS, len(chosen))
                    columns = zip(corpus.columns, prompts, strict=True)
                    texts = [
                        [prompt + text for text in found[column]] for column, prompt in columns
                    ]
                    ids, lengths = reader(list(chain.from_iterable(zip(*texts, strict=True))))
                    tokens.write(ids.tobytes())
                    bounds.write((ends := end + lengths.cumsum()).tobytes())
                    end = ends[-1:]

        folder = cached(cache_folder("tokens", key.hexdigest()), make)
        ids, bounds = (
            np.memmap(folder / IDS, reader.dtype, "r"),
            np.memmap(folder / BOUNDS, "<i8", "r"),
        )
        return cls(readers, corpus.columns, rows, ids, bounds)

    def __call__(self, rows: Sequence[TextFeatures]) -> TextFeatures:
        """[{"label": row id}, …] -> label (N,), and the features of each column."""
        labels = np.fromiter((row["label"] for row in rows), np.int64, len(rows))
        places = labels if self.rows is None else self.rows.searchsorted(labels)
        batch: TextFeatures = {"label": torch.from_numpy(labels)}
        for number, column in enumerate(self.columns):
            features = self._features(places * len(self.columns) + number, self.readers[number])
            batch |= {f"{column}_{key}": value for key, value in features.items()}
        return batch

    def _features(self, texts: RowIds, reader: TextReader) -> TextFeatures:
        begin, lengths = self.bounds[texts], self.bounds[texts + 1] - self.bounds[texts]  # (N,)
        longest = lengths.max()
        skipped = longest - lengths if reader.left else np.zeros_like(lengths)
        place = np.arange(longest) - skipped[:, None]  # (N, L) within the text
        real = (place >= 0) & (place < lengths[:, None])
        ids = np.where(real, self.ids[np.where(real, begin[:, None] + place, 0)], reader.padding)
        made = {"input_ids": ids, "attention_mask": real, "token_type_ids": np.zeros_like(real)}
        tensors = {key: torch.from_numpy(value.astype(np.int64)) for key, value in made.items()}
        return {
            key: tensors.get(key) if isinstance(value, Tensor) else value
            for key, value in reader.template.items()
        }
