"""A lower-cased WordPiece tokenizer, learnt from the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}  # ids 0 to 4
INNER = "##"  # begins a piece that goes on a word
CHARACTERS = 1000  # the most frequent ones; a word with another character is unknown
REPEATS = 10_000  # of a word in one piece of text for the trainer


def train_tokenizer(lines: Iterable[str], vocabulary: int, max_length: int) -> Any:
    """Learn a BERT-like WordPiece vocabulary of at most ``vocabulary`` entries; one sentence becomes [CLS] … [SEP].

    The same lines give the same vocabulary. WordPiece: Wu et al. 2016, https://arxiv.org/abs/1609.08144.

    Returns:
        A transformers tokenizer that gives input_ids and attention_mask.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    words = Counter(word for line in lines for word in _words(tokenizer, line))
    tokenizer.model = models.WordPiece(_pieces(words, vocabulary), unk_token=SPECIAL["unk"])
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    ends = [(SPECIAL[name], tokenizer.token_to_id(SPECIAL[name])) for name in ("cls", "sep")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in SPECIAL.items()},
    )


def _words(tokenizer: Any, line: str) -> Iterator[str]:
    for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(line)):
        yield word


def _pieces(words: Counter[str], vocabulary: int) -> dict[str, int]:
    """Piece -> id.

    The library's trainer breaks ties between merges by the pieces' ids. It gives ids to inner characters (``##a``), and
    keeps the most frequent characters, in the order of a hash table, which differs between processes. So both are
    decided here: inner characters get their ids as special tokens do, in front of all others.
    """
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    characters = sorted(counts, key=lambda character: (-counts[character], character))[:CHARACTERS]
    inner = {character for word in words for character in word[1:]}.intersection(characters)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=[*SPECIAL.values(), *(INNER + character for character in sorted(inner))],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator(_repeated(words), trainer)
    pieces: dict[str, int] = learner.get_vocab()
    return pieces


def _repeated(words: Counter[str]) -> Iterator[str]:
    """Each word as often as it was counted."""
    for word, count in words.items():
        for start in range(0, count, REPEATS):
            yield " ".join([word] * min(REPEATS, count - start))
