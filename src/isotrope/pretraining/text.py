"""What is made of the text: a vocabulary, one long row of token ids on disk, and word vectors for
the warm start.

Each part is a folder with checksums. A damaged one is made again.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from isotrope.console.progress import progress, watch
from isotrope.errors import UserError
from isotrope.pretraining.recipe import Recipe
from isotrope.store.atomic import new_file
from isotrope.store.cache import cached
from isotrope.text import TextSource

Ids = np.ndarray[Any, np.dtype[np.uint16]]
Array = np.ndarray[Any, np.dtype[np.float32]]
# ids 0 to 4
SPECIAL = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
INNER = "##"  # begins a piece that goes on a word
CHARACTERS = 1000  # the most frequent ones; a word with another character is unknown
START = list(SPECIAL).index("cls")  # id of the token that begins a sentence
SENTENCES_AT_A_TIME, TOKENS_AT_A_TIME = 20_000, 2_000_000


def prepare_text(
    folder: Path, text: TextSource, held_out: TextSource | None, recipe: Recipe, console: Console
) -> tuple[Any, Ids, Ids]:
    """A tokenizer learnt from the text; blocks to train on (B, L); unseen ones (H, L).

    The unseen ones are those of ``held_out``, or else the text's last ones.
    """

    def make(draft: Path) -> None:
        with watch("learning a vocabulary", console):
            lines = (
                line
                for rows in text.texts().dataset.iter(SENTENCES_AT_A_TIME)
                for line in rows["text"]
            )
            tokenizer = train_tokenizer(lines, recipe.vocabulary, recipe.max_positions)
        tokenizer.save_pretrained(draft)
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
        raise UserError(
            f"{text.name}: too little text", f"give more than {10 * recipe.block} tokens of it"
        )
    return AutoTokenizer.from_pretrained(folder), blocks, unseen


def write_ids(text: TextSource, tokenizer: Any, target: Path, console: Console) -> None:
    """Write the ids of all sentences, each framed by [CLS] … [SEP], one after the other: (T,)
    uint16.

    So the vocabulary may have at most 65,536 entries.
    """
    dataset = text.texts().dataset
    with new_file(target) as file, progress("tokenised", len(dataset), console, "sentences") as bar:
        for rows in dataset.iter(SENTENCES_AT_A_TIME):
            for encoding in tokenizer.backend_tokenizer.encode_batch_fast(list(rows["text"])):
                file.write(np.asarray(encoding.ids, dtype=np.uint16).tobytes())
            bar.advance(len(rows["text"]))


def blocks_of(file: Path, length: int) -> Ids:
    """The ids in a file of `write_ids` as blocks (B, length), not read into memory; the rest falls
    off the end.
    """
    ids = np.memmap(file, dtype=np.uint16, mode="r")
    return ids[: len(ids) // length * length].reshape(-1, length)


def train_tokenizer(lines: Iterable[str], vocabulary: int, max_length: int) -> Any:
    """A transformers tokenizer with a BERT-like WordPiece vocabulary of at most so many entries,
    learnt from the lines.

    One sentence becomes [CLS] … [SEP]. The same lines give the same vocabulary. WordPiece: Wu et
    al. 2016, https://arxiv.org/abs/1609.08144.
    """
    normalizer, words = (
        normalizers.BertNormalizer(lowercase=True),
        pre_tokenizers.BertPreTokenizer(),
    )
    split = (words.pre_tokenize_str(normalizer.normalize_str(line)) for line in lines)
    counts = Counter(word for line in split for word, _ in line)
    tokenizer = Tokenizer(models.WordPiece(_pieces(counts, vocabulary), unk_token=SPECIAL["unk"]))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = (
        normalizer,
        words,
        decoders.WordPiece(),
    )
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    ends = [(SPECIAL[name], tokenizer.token_to_id(SPECIAL[name])) for name in ("cls", "sep")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    names, inputs = (
        {f"{name}_token": token for name, token in SPECIAL.items()},
        ["input_ids", "attention_mask"],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=max_length, model_input_names=inputs, **names
    )


def _pieces(words: Counter[str], vocabulary: int) -> dict[str, int]:
    """Piece -> id.

    The library's trainer breaks ties between merges by the pieces' ids. It gives ids to inner
    characters (``##a``), and keeps the most frequent characters, in the order of a hash table,
    which differs between processes. So both are decided here: inner characters get their ids as
    special tokens do, in front of all others.
    """
    counts = Counter[str]()
    for word, count in words.items():
        counts.update({character: count * number for character, number in Counter(word).items()})
    characters = sorted(counts, key=lambda character: (-counts[character], character))[:CHARACTERS]
    inner = {character for word in words for character in word[1:]}.intersection(characters)
    special = [*SPECIAL.values(), *(INNER + character for character in sorted(inner))]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        show_progress=False,
    )
    learner = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk"]))
    learner.train_from_iterator(words.elements(), trainer)
    return learner.get_vocab()


def cooccurrence(ids: np.ndarray[Any, Any], vocabulary: int, window: int) -> Any:
    """How often two tokens stand at most `window` places apart in one sentence: symmetric CSR (V,
    V), float32.

    ids (T,) is a row of sentences that each begin with [CLS]; special tokens are not counted.
    """
    counts = sparse.csr_matrix((vocabulary, vocabulary), dtype=np.float32)
    for start in range(0, len(ids), TOKENS_AT_A_TIME):
        # the next chunk's first tokens come along, so that no pair is lost at the seam
        chunk = np.asarray(ids[start : start + TOKENS_AT_A_TIME + window]).astype(np.int32)
        words, sentence = chunk >= len(SPECIAL), np.cumsum(chunk == START)
        pairs = []
        for distance in range(1, window + 1):
            left = np.arange(min(TOKENS_AT_A_TIME, max(0, len(chunk) - distance)))
            right = left + distance
            near = words[left] & words[right] & (sentence[left] == sentence[right])
            pairs.append(np.stack([chunk[left[near]], chunk[right[near]]]))  # (2, n)
        places = np.concatenate(pairs, axis=1)
        counts += sparse.csr_matrix(
            (np.ones(places.shape[1], np.float32), places), shape=counts.shape
        )
    return (counts + counts.T).tocsr()


def ppmi(counts: Any, smoothing: float = 0.75) -> Any:
    """Positive pointwise mutual information max(0, log p(a, b) / (p(a) p_s(b))) of counts (V, V),
    CSR to CSR.

    p_s ∝ p^smoothing damps the weight of rare contexts (Levy, Goldberg and Dagan 2015,
    https://aclanthology.org/Q15-1016, section 3.1).
    """
    row = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()  # (V,)
    context = row**smoothing / (row**smoothing).sum()
    pairs = counts.tocoo()
    information = np.log(pairs.data / (row[pairs.row] * context[pairs.col]))
    kept = information > 0
    data = information[kept].astype(np.float32)
    return sparse.csr_matrix((data, (pairs.row[kept], pairs.col[kept])), shape=counts.shape)


def warm_embeddings(
    ids: np.ndarray[Any, Any], cold: Array, window: int, scale: float, seed: int
) -> Array:
    """Token embeddings (V, D) from the corpus ids (T,): rows U √S of the PPMI's truncated SVD, with
    RMS `scale`.

    Tokens without a vector (special ones, tokens that never occur) keep their row of `cold` (V, D).
    """
    information = ppmi(cooccurrence(ids, len(cold), window))
    left, values, _ = randomized_svd(
        information, n_components=cold.shape[1], n_iter=4, random_state=seed
    )
    vectors: Array = (left * np.sqrt(values)).astype(np.float32)
    known = np.linalg.norm(vectors, axis=1) > 1e-6  # (V,)
    vectors *= scale / np.sqrt(np.mean(vectors[known] ** 2))
    return np.where(known[:, None], vectors, cold).astype(np.float32)


def prepare_vectors(
    folder: Path, blocks: Ids, cold: Array, recipe: Recipe, seed: int, console: Console
) -> Array:
    """Token embeddings (V, D) to begin from: `warm_embeddings` of blocks (B, L) and of random ones,
    ``cold`` (V, D).
    """
    if len(cold) < cold.shape[1]:
        problem = f"the text has {len(cold)} different tokens, too few for word vectors of width {cold.shape[1]}"
        raise UserError(problem, "give more text, or a cold start")

    def make(draft: Path) -> None:
        with watch("factorising the co-occurrences", console):
            found = warm_embeddings(
                blocks.reshape(-1), cold, recipe.window, recipe.vector_scale, seed
            )
        np.save(draft / "vectors.npy", found)

    return np.asarray(np.load(cached(folder, make) / "vectors.npy"))
