"""The tokens of a run's sentences, made ahead of time into a memory-mapped file.

A step only copies them. They serve every epoch, seed and run on the same sentences, and a GPU never
waits for them.
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
IDS = "ids.bin"
BOUNDS = "bounds.bin"
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
    other_prompt: str | None = None,
) -> tuple[Dataset, RowCollator]:
    """What a trainer reads: its data set, and the collator that makes features of its rows.

    These are row ids and a `TokenStore`; for a model that the store does not serve (a tokenizer in
    Python, features other than ids, mask and zeros), the corpus and sentence-transformers'
    collator. The features are equal.

    Args:
        model: the student, whose tokenizer and default prompt count.
        corpus: the texts.
        rows: (R,) whose tokens are made; None: all.
        max_length: tokens at which a text is cut.
        console: where to report.
        other_prompt: words before positives and hard negatives, in place of the default prompt.
    """
    default_prompt = model.prompts.get(model.default_prompt_name) or ""
    if other_prompt is None:
        other_prompt = default_prompt
    prompts = dict.fromkeys(corpus.columns, other_prompt)
    prompts[corpus.columns[0]] = default_prompt

    readers = []
    for prompt in prompts.values():
        collator = SentenceTransformerDataCollator(
            model.preprocess, max_length=max_length, prompts=prompt
        )
        reader = TextReader.from_model(model, prompt, max_length)
        if reader is None or not reader.agrees(collator):
            collator = replace(collator, prompts=prompts)
            return corpus.dataset, collator
        readers.append(reader)
    store = TokenStore.open(tuple(readers), corpus, rows, console)
    row_ids = corpus.dataset.select_columns("label")
    return row_ids, store


@dataclass(frozen=True, slots=True)
class TextReader:
    """How the student reads a sentence while it trains.

    Attributes:
        tokenizer: cuts, does not pad; encodes a list on every core.
        prompt: words before each text.
        padding: the id.
        left: whether padding stands before the text.
        template: keys of the features, in order, and the values of those that are not tensors.
        dtype: of an id: two bytes, where the vocabulary allows it.
    """

    tokenizer: Tokenizer
    prompt: str
    padding: int
    left: bool
    template: TextFeatures
    dtype: np.dtype[Any]

    @classmethod
    def from_model(
        cls, model: SentenceTransformer, prompt: str, max_length: int
    ) -> "TextReader | None":
        """The student's, with a copy of its tokenizer; None if it is not of `tokenizers`."""
        original: Any = model.tokenizer
        if not getattr(original, "is_fast", False):
            return None
        tokenizer = Tokenizer.from_str(original.backend_tokenizer.to_str())
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length, direction=original.truncation_side)
        largest_id = max(tokenizer.get_vocab().values())
        return cls(
            tokenizer=tokenizer,
            prompt=prompt,
            padding=original.pad_token_id or 0,
            left=original.padding_side == "left",
            template=model.preprocess(PROBES[:1], prompt=prompt or None, max_length=max_length),
            dtype=np.dtype("<u2" if largest_id < 1 << 16 else "<u4"),
        )

    def agrees(self, collator: RowCollator) -> bool:
        """Whether the features made here are those of the model's own collator, bit for bit."""
        rows = [{"text": text, "label": number} for number, text in enumerate(PROBES)]
        ids, lengths = self(PROBES)
        bounds = np.concatenate([[0], lengths.cumsum()])
        store = TokenStore((self,), ("text",), None, ids, bounds)
        return _comparable(collator(rows)) == _comparable(store(rows))

    def __call__(self, texts: Sequence[str]) -> tuple[npt.NDArray[Any], RowIds]:
        """Texts -> their ids end to end (T,), and how many each has (n,)."""
        with_prompts = [self.prompt + text for text in texts]
        encodings = self.tokenizer.encode_batch_fast(with_prompts)
        ids = [encoding.ids for encoding in encodings]
        lengths = np.fromiter(map(len, ids), np.int64)
        all_ids = np.fromiter(chain.from_iterable(ids), self.dtype)
        return all_ids, lengths


def _comparable(features: TextFeatures) -> dict[str, Any]:
    """Features whose tensors can be compared by ``==``, with their types."""
    comparable = dict(features)
    for key, value in features.items():
        if isinstance(value, Tensor):
            comparable[key] = (value.dtype, value.tolist())
    return comparable


@dataclass(frozen=True, slots=True)
class TokenStore:
    """A collator: row ids -> the features that the model's own collator makes (N, L), padded.

    Attributes:
        readers: one a column; they differ only in their prompts.
        columns: C of them.
        rows: (R,) rising; None: row i is place i.
        ids: (T,) of all texts, mapped.
        bounds: (R·C + 1,), mapped; text i has the ids bounds[i] to bounds[i + 1].
    """

    readers: tuple[TextReader, ...]
    columns: tuple[str, ...]
    rows: RowIds | None
    ids: npt.NDArray[Any]
    bounds: RowIds
    valid_label_columns: tuple[str, ...] = ("label",)  # what the trainer asks of a collator

    @classmethod
    def open(
        cls, readers: tuple[TextReader, ...], corpus: Texts, rows: RowIds | None, console: Console
    ) -> "TokenStore":
        """Find the tokens in the cache, or make them: row after row, within it column after
        column.
        """
        if rows is not None and len(rows) == len(corpus):
            rows = None
        if rows is not None:
            rows = np.sort(rows)
        key = _store_key(readers, corpus, rows)

        def make(draft: Path) -> None:
            dataset = corpus.dataset
            if rows is not None:
                dataset = dataset.select(rows)
            console.print(f"making tokens of {len(dataset):,} sentences")
            _write_tokens(draft, dataset, corpus.columns, readers)

        folder = cached(cache_folder("tokens", key), make)
        ids = np.memmap(folder / IDS, readers[0].dtype, "r")
        bounds = np.memmap(folder / BOUNDS, "<i8", "r")
        return cls(readers, corpus.columns, rows, ids, bounds)

    def __call__(self, rows: Sequence[TextFeatures]) -> TextFeatures:
        """[{"label": row id}, …] -> label (N,), and the features of each column."""
        labels = np.array([row["label"] for row in rows], np.int64)
        batch: TextFeatures = {"label": torch.from_numpy(labels)}
        places = labels
        if self.rows is not None:
            places = self.rows.searchsorted(labels)
        texts = places * len(self.columns)  # the numbers of those in the first column
        for column, reader in zip(self.columns, self.readers, strict=True):
            for key, value in self._features(texts, reader).items():
                batch[f"{column}_{key}"] = value
            texts = texts + 1
        return batch

    def _features(self, texts: RowIds, reader: TextReader) -> TextFeatures:
        """Texts by their numbers (N,) -> what a model reads, padded (N, L)."""
        begins = self.bounds[texts]  # (N,)
        lengths = self.bounds[texts + 1] - begins
        longest = lengths.max()
        places: RowIds = np.arange(longest)[None, :]  # (N or 1, L) within the text
        if reader.left:
            places = places - (longest - lengths)[:, None]
        is_real = (places >= 0) & (places < lengths[:, None])
        places = begins[:, None] + places  # within all ids
        sources = np.where(is_real, places, 0)
        arrays = {
            "input_ids": np.where(is_real, self.ids[sources], reader.padding),
            "attention_mask": is_real,
            "token_type_ids": np.zeros_like(is_real),
        }
        features = dict(reader.template)
        for key, value in reader.template.items():
            if isinstance(value, Tensor):
                array = arrays.get(key)
                # `TextReader.agrees` notices a tensor that is not made here.
                features[key] = None if array is None else torch.from_numpy(array.astype(np.int64))
        return features


def _store_key(readers: Sequence[TextReader], corpus: Texts, rows: RowIds | None) -> str:
    """Checksum of all that decides the tokens: tokenizer, prompts, corpus and rows."""
    prompts = [reader.prompt for reader in readers]
    has_one_prompt = len(set(prompts)) == 1
    key_of_prompts = prompts[0] if has_one_prompt else prompts
    tokenizer = readers[0].tokenizer.to_str()
    settings = json.dumps([_LAYOUT, tokenizer, key_of_prompts, corpus.key])
    total = xxhash.xxh3_128(settings.encode())
    if rows is not None:
        total.update(rows.tobytes())
    return total.hexdigest()


def _write_tokens(
    draft: Path, dataset: Dataset, columns: Sequence[str], readers: Sequence[TextReader]
) -> None:
    """Write the ids of all texts end to end, and where each text ends.

    They come row after row, and within a row column after column.
    """
    prompts = [reader.prompt for reader in readers]
    tokenize = replace(readers[0], prompt="")
    last_end = np.zeros(1, "<i8")
    with new_file(draft / IDS) as tokens, new_file(draft / BOUNDS) as bounds:
        bounds.write(last_end.tobytes())
        for number, shard in enumerate(dataset.iter(SHARD_ROWS)):
            tell("made tokens of", number * SHARD_ROWS, len(dataset))
            texts_of_columns = []
            for column, prompt in zip(columns, prompts, strict=True):
                texts_of_columns.append([prompt + text for text in shard[column]])
            rows = zip(*texts_of_columns, strict=True)
            texts = list(chain.from_iterable(rows))
            ids, lengths = tokenize(texts)
            ends = last_end + lengths.cumsum()
            tokens.write(ids.tobytes())
            bounds.write(ends.tobytes())
            last_end = ends[-1:]
