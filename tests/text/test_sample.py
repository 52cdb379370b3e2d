"""Which rows a run visits, in which computed order and batches: every row once an epoch, the same
after a resume.
"""

import math
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from accelerate.data_loader import BatchSamplerShard, SkipBatchSampler
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from isotrope.errors import UserError
from isotrope.text import read_text
from isotrope.text.permutation import Permutation, derive, evenly
from isotrope.text.sample import PermutedBatches, RowOrder, Sample


def test_the_sample_holds_the_rows_that_training_visits(corpus_file: Path) -> None:
    corpus = read_text(corpus_file).texts()
    sample = Sample(corpus, 100, 7)
    visited = [row for batch in PermutedBatches(corpus, 10, 7, limit=100) for row in batch]
    assert sample.rows is not None
    assert sample.rows.tolist() == sorted(visited)
    assert sample.texts(3) == [corpus.dataset[row]["text"] for row in visited[:3]]
    assert len(sample) == len(sample.texts()) == len(sample.texts(1000)) == 100
    assert Sample(corpus, None, 0).rows is Sample(corpus, len(corpus), 0).rows is None, (
        "all rows have no list"
    )
    assert sorted(Sample(corpus, None, 0).texts()) == sorted(corpus.dataset["text"])


@pytest.mark.parametrize("epochs", [0.01, 0.3, 0.5, 0.999])
@pytest.mark.parametrize("step_size", [10, 30])
def test_a_part_of_an_epoch_reads_its_first_rows(
    corpus_file: Path, epochs: float, step_size: int
) -> None:
    corpus = read_text(corpus_file).texts()
    sample = Sample(corpus, None, 7)
    batches = list(PermutedBatches(corpus, step_size, 7))
    steps = math.ceil(epochs * len(batches))
    visited = {row for batch in batches[:steps] for row in batch}

    within = sample.rows_within(epochs, step_size)
    read = set(range(len(corpus))) if within is None else set(within.tolist())
    assert visited <= read
    assert len(read) <= min(len(corpus), len(visited) + 3 * step_size)


def test_a_whole_epoch_reads_the_whole_sample(corpus_file: Path) -> None:
    corpus = read_text(corpus_file).texts()
    assert Sample(corpus, None, 0).rows_within(1.0, 10) is None
    assert len(Sample(corpus, 100, 0).rows_within(2.5, 10)) == 100


def test_a_sample_of_rounds_takes_whole_rounds_first() -> None:
    rounds = (50, 40, 30)
    few = RowOrder(120, 60, 3, rounds)
    assert few.rounds == (50, 10)
    rows = few.rows(0, 60)
    assert sorted(rows[:50]) == list(range(50))
    assert set(rows[50:]) <= set(range(50, 90))
    assert sorted(few.rows(0, 60, epoch=1)) == sorted(rows), "each epoch permutes the same sample"
    parts = [few.rows(begin, begin + 7).tolist() for begin in range(0, 56, 7)]
    assert [row for part in parts for row in part] == rows[:56].tolist()
    everything = RowOrder(120, None, 3, rounds)
    assert everything.rounds == rounds
    places = [row - begin for begin in (0, 50) for row in everything.rows(begin, begin + 40)]
    assert places[:40] != places[40:], "each round has an order of its own"


@given(
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=5).map(
        lambda sizes: sorted(sizes, reverse=True)
    ),
    batch_size=st.integers(1, 40),
    world_size=st.integers(1, 3),
    data=st.data(),
)
def test_an_epoch_takes_every_row_once_and_no_batch_two_pairs_of_one_document(
    sizes: list[int], batch_size: int, world_size: int, data: st.DataObject
) -> None:
    """Round r holds one pair of documents 0 … sizes[r] - 1: also over all processes, in a sample,
    and in each epoch.
    """
    documents = [document for size in sizes for document in range(size)]
    limit = data.draw(st.none() | st.integers(1, len(documents)))
    rounds = sizes if len(sizes) > 1 else ()
    make = partial(
        PermutedBatches, documents, batch_size, 3, limit=limit, world_size=world_size, rounds=rounds
    )
    together = batch_size * world_size
    if min(sizes[0], limit or sizes[0]) < together:
        with pytest.raises(
            UserError, match="documents that give a pair" if rounds else "sentences to train on"
        ):
            make()
        return
    batches, seen = make(), []
    for epoch in range(2):
        batches.set_epoch(epoch)
        found = list(batches)
        rows = [row for batch in found for row in batch]
        assert len(found) == len(batches)
        assert len(set(rows)) == len(rows)
        for at in range(0, len(found), world_size):
            step = [documents[row] for batch in found[at : at + world_size] for row in batch]
            assert len(set(step)) == len(step) == together
        sampled = RowOrder(len(documents), limit, 3, rounds).rounds
        assert len(rows) == sum(size - size % together for size in sampled)
        seen.append(set(rows))
    if len(seen[0]) == (limit or len(documents)):
        assert seen[0] == seen[1], "the epochs permute one sample"


def test_what_a_round_leaves_over_is_another_part_each_time() -> None:
    batches, dropped = PermutedBatches(range(300), 8, 0, rounds=(100, 100, 100)), set()
    for epoch in range(2):
        batches.set_epoch(epoch)
        rows = {row for batch in batches for row in batch}
        dropped |= {
            frozenset(row % 100 for row in range(r, r + 100) if row not in rows)
            for r in (0, 100, 200)
        }
    assert len(dropped) == 6


def test_a_batch_is_the_same_whether_computed_alone_or_in_a_large_block() -> None:
    # longer than one block
    batches, order = PermutedBatches(range(200_000), 48, 5), RowOrder(200_000, None, 5)
    batches.set_epoch(2)
    everything = list(batches)
    for i in (0, 1, 1364, 1365, 1366, len(everything) - 1):
        assert order.rows(48 * i, 48 * i + 48, 2).tolist() == everything[i]


@pytest.mark.parametrize(("n", "rounds"), [(1000, ()), (250, (100, 90, 60))])
def test_processes_share_the_epoch_evenly_also_after_a_resume(
    n: int, rounds: tuple[int, ...]
) -> None:
    """Wrapped as accelerate wraps it: in a shard for each process and, after a resume, in a skipper
    around that.
    """
    batches = PermutedBatches(range(n), 7, 0, world_size=3, rounds=rounds)
    batches.set_epoch(1)
    shards = [list(BatchSamplerShard(batches, 3, rank)) for rank in range(3)]
    assert len({len(shard) for shard in shards}) == 1
    assert [batch for step in zip(*shards, strict=True) for batch in step] == list(batches)
    resumed = list(SkipBatchSampler(BatchSamplerShard(batches, 3, 2), skip_batches=5))
    assert resumed == shards[2][5:]


@pytest.mark.parametrize(
    ("n", "batch_size", "limit", "problem"),
    [
        (100, 10, 0, "sample of 0 sentences"),
        (100, 10, 10**9, "sample of 1000000000 sentences"),
        (
            100,
            101,
            None,
            "larger than the 100 sentences to train on: set train.batch_size to 100 or less",
        ),
        (3, 64, None, "set train.batch_size to 3 or less"),
        (1, 64, None, "give more text"),
    ],
)
def test_impossible_settings_are_refused(
    n: int, batch_size: int, limit: int | None, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        PermutedBatches(range(n), batch_size, 0, limit=limit)


class _RowsSeen(nn.Module):
    """A loss that writes down the labels (row ids) it is given."""

    def __init__(self, model: SentenceTransformer) -> None:
        super().__init__()
        self.model, self.rows = model, list[list[int]]()

    def forward(self, features: list[dict[str, Tensor]], labels: Tensor) -> Tensor:
        self.rows.append(labels.tolist())
        return self.model(features[0])["sentence_embedding"].square().mean()


def _train(folder: Path, resume: bool) -> list[list[int]]:
    torch.manual_seed(0)
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=4)], device="cpu")
    loss = _RowsSeen(model)
    batch_sampler = partial(PermutedBatches, limit=40)
    pickle.loads(pickle.dumps(batch_sampler))
    args = SentenceTransformerTrainingArguments(
        output_dir=str(folder),
        num_train_epochs=3,
        per_device_train_batch_size=8,
        dataloader_drop_last=True,
        batch_sampler=batch_sampler,
        save_strategy="steps",
        save_steps=7,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
        seed=11,
    )
    dataset = Dataset.from_dict({"text": ["a b"] * 50, "label": list(range(50))})
    SentenceTransformerTrainer(model=model, args=args, train_dataset=dataset, loss=loss).train(
        resume_from_checkpoint=str(folder / "checkpoint-7") if resume else None
    )
    return loss.rows


def test_the_real_trainer_sets_the_epoch_and_resumes_within_one(tmp_path: Path) -> None:
    batches = PermutedBatches(range(50), 8, 11, limit=40)
    expected = []
    for epoch in range(3):
        batches.set_epoch(epoch)
        expected += list(batches)
    assert expected[:5] != expected[5:10]
    assert _train(tmp_path, resume=False) == expected
    assert _train(tmp_path, resume=True) == expected[7:]


@given(n=st.integers(1, 5000), seed=st.integers(-(2**70), 2**70))
def test_it_is_a_bijection_for_every_size_and_seed(n: int, seed: int) -> None:
    assert np.array_equal(np.sort(Permutation(n, seed)[np.arange(n)]), np.arange(n))


@given(n=st.integers(1, 2**62), seed=st.integers(0, 2**64 - 1), data=st.data())
def test_one_place_gives_the_same_row_alone_and_in_company(
    n: int, seed: int, data: st.DataObject
) -> None:
    """Large sizes too: shifts and products of 64-bit integers must not overflow into neighbours."""
    places = np.array(
        data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20, unique=True))
    )
    perm = Permutation(n, seed)
    rows = perm[places]
    assert 0 <= rows.min() <= rows.max() < n
    assert len(np.unique(rows)) == len(places)
    assert [int(perm[int(place)]) for place in places] == rows.tolist()
    assert perm[places.reshape(1, -1)].shape == (1, len(places))


def test_it_looks_random() -> None:
    n = 100_000
    places = np.arange(n)
    first, second = Permutation(n, 1)[places], Permutation(n, 2)[places]
    # a random order moves a row n / 3 places on average, keeps one neighbour pair, agrees with
    # another in one place
    for order in (first, second):
        assert abs(np.abs(order - places).mean() / n - 1 / 3) < 0.01
        assert abs(np.corrcoef(order, places)[0, 1]) < 0.02
        assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.02
        assert np.count_nonzero(np.diff(order) == 1) < 10
    assert np.count_nonzero(first == second) < 10


def test_streams_of_neighbouring_seeds_do_not_meet() -> None:
    assert (
        len({derive(seed, stream) for seed in range(-50, 50) for stream in range(-1, 100)})
        == 100 * 101
    )


def test_places_are_spread_evenly() -> None:
    assert (evenly(10, 4), evenly(3, 9), evenly(5, 0), evenly(0, 5)) == (
        [0, 2, 5, 7],
        [0, 1, 2],
        [],
        [],
    )
