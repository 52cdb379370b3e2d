"""Text to token ids: the vocabulary that is learnt from it, and one long row of ids on disk.

Each part is a folder with checksums. A damaged one is made again.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from isotrope.console.progress import progress, watch
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe
from isotrope.store.atomic import new_file
from isotrope.store.cache import cached
from isotrope.text.opened import Opened

Ids = np.ndarray[Any, np.dtype[np.uint16]]
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}  # ids 0 to 4
INNER = "##"  # begins a piece that goes on a word
CHARACTERS = 1000  # the most frequent ones; a word with another character is unknown
REPEATS = 10_000  # of a word in one piece of text for the trainer
START = list(SPECIAL).index("cls")  # id of the token that begins a sentence
SENTENCES_AT_A_TIME = 20_000


def prepare_tokenizer(folder: Path, text: Opened, recipe: Recipe, console: Console) -> Any:
    """The tokenizer that is learnt from the text."""

    def make(draft: Path) -> None:
        with watch("learning a vocabulary", console):
            lines = (line for rows in text.texts().dataset.iter(SENTENCES_AT_A_TIME) for line in rows["text"])
            train_tokenizer(lines, recipe.vocabulary, recipe.max_positions).save_pretrained(draft)

    return AutoTokenizer.from_pretrained(cached(folder, make))


def prepare_blocks(
    folder: Path, text: Opened, held_out: Opened | None, tokenizer: Any, recipe: Recipe, console: Console
) -> tuple[Ids, Ids]:
    """Blocks to train on (B, L), and unseen ones (H, L): of ``held_out``, or else the text's last ones."""

    def make(draft: Path) -> None:
        write_ids(text, tokenizer, draft / "tokens.bin", console)
        if held_out:
            write_ids(held_out, tokenizer, draft / "held_out.bin", console)

    blocks = blocks_of(cached(folder, make) / "tokens.bin", recipe.block)
    if held_out:
        unseen = blocks_of(folder / "held_out.bin", recipe.block)[: recipe.held_out_blocks]
    else:
        seen = len(blocks) - min(recipe.held_out_blocks, len(blocks) // 10)
        blocks, unseen = blocks[:seen], blocks[seen:]
    if not len(blocks) or not len(unseen):
        raise UserError(f"{text.name}: too little text", f"give more than {10 * recipe.block} tokens of it")
    return blocks, unseen


def write_ids(text: Opened, tokenizer: Any, target: Path, console: Console) -> None:
    """Write the ids of all sentences, each framed by [CLS] … [SEP], one after the other: (T,) uint16.

    So the vocabulary may have at most 65,536 entries.
    """
    dataset = text.texts().dataset
    with new_file(target) as file, progress("tokenised", len(dataset), console, "sentences") as bar:
        for rows in dataset.iter(SENTENCES_AT_A_TIME):
            for encoding in tokenizer.backend_tokenizer.encode_batch_fast(list(rows["text"])):
                file.write(np.asarray(encoding.ids, dtype=np.uint16).tobytes())
            bar.advance(len(rows["text"]))


def blocks_of(file: Path, length: int) -> Ids:
    """The ids in a file of `write_ids` as blocks (B, length), not read into memory; the rest falls off the end."""
    ids = np.memmap(file, dtype=np.uint16, mode="r")
    return ids[: len(ids) // length * length].reshape(-1, length)


def train_tokenizer(lines: Iterable[str], vocabulary: int, max_length: int) -> Any:
    """A transformers tokenizer with a BERT-like WordPiece vocabulary of at most so many entries, learnt from the lines.

    One sentence becomes [CLS] … [SEP]. The same lines give the same vocabulary. WordPiece: Wu et al. 2016,
    https://arxiv.org/abs/1609.08144.
    """
    tokenizer = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    normal, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    words = Counter(word for line in lines for word, _ in split(normal(line)))
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


def _pieces(words: Counter[str], vocabulary: int) -> dict[str, int]:
    """Piece -> id.

    The library's trainer breaks ties between merges by the pieces' ids. It gives ids to inner characters (``##a``), and
    keeps the most frequent characters, in the order of a hash table, which differs between processes. So both are
    decided here: inner characters get their ids as special tokens do, in front of all others.
    """
    counts = Counter[str]()
    for word, count in words.items():
        counts.update({character: count * number for character, number in Counter(word).items()})
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
    # each word as often as it was counted
    repeated = (
        " ".join([word] * min(REPEATS, count - start))
        for word, count in words.items()
        for start in range(0, count, REPEATS)
    )
    learner.train_from_iterator(repeated, trainer)
    pieces: dict[str, int] = learner.get_vocab()
    return pieces
