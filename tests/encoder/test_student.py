"""Smaller models of a larger one: fewer layers, or one vector a token; word vectors from files."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.testing import assert_close

from helpers.refusals import refused
from helpers.small_bert import build_bert
from helpers.small_encoders import KINDS, as_student, batch
from helpers.toy_vectors import TEXT, VECTORS, write_word_vectors
from isotrope.encoder import load, save
from isotrope.encoder.student import (
    check_student,
    keep_layers,
    stand_for_text,
    static_model,
    student_of,
    zipf_weights,
)
from isotrope.encoder.word_vectors import WordVectors
from oracle import baselines as naive

TEXTS = ["the old king of the island", "a red bird", "war"]


@pytest.mark.parametrize(
    "student",
    [
        "layers",
        "layers:0",
        "layers:2:middle",
        "Static",
        "layers:-1",
        "tiny",
        "",
        "layers:2,inner:3",
        "vocabulary:9",
    ],
)
def test_unknown_students_are_refused(student: str) -> None:
    with refused("unknown-student"):
        check_student(student)


@pytest.mark.usefixtures("cached")
def test_each_student_is_made(tmp_path: Path) -> None:
    folder = build_bert(tmp_path / "teacher", layers=3)
    assert len(student_of(load(folder), None)[0].model.encoder.layer) == 3
    whole, name = load(folder)[0].model, "attention.self.query.weight"
    for student in ("layers:1:last", "layers:2"):
        short = student_of(load(folder), student)[0].model
        assert (
            short.encoder.layer[-1]
            .get_parameter(name)
            .equal(whole.encoder.layer[2].get_parameter(name))
        )
    tables = [student_of(load(folder), "static")[0] for _ in range(2)]
    assert isinstance(tables[0], StaticEmbedding)
    assert tables[0].embedding.weight.equal(tables[1].embedding.weight), "nothing is drawn"


@pytest.mark.parametrize("kind", KINDS)
def test_every_architecture_keeps_embeddings_and_the_layers_asked_for(
    kind: str, tmp_path: Path
) -> None:
    """Of two layers the first: its output is the teacher's hidden state behind that layer (and the
    final norm).
    """
    model, features = as_student(kind, tmp_path).eval(), batch()
    whole = model[0].auto_model
    states = whole(**features, output_hidden_states=True).hidden_states
    expected = whole.final_norm(states[1]) if kind == "ModernBert" else states[1]
    short = keep_layers(model, 1)[0].auto_model
    found = short(**features).last_hidden_state
    real = features["attention_mask"].bool()
    assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)
    assert short.config.num_hidden_layers == 1
    assert sum(p.numel() for p in short.parameters()) < sum(p.numel() for p in whole.parameters())


def check_saved(model: SentenceTransformer, folder: Path) -> None:
    """Plain sentence-transformers and ours read the same vectors from what is saved."""
    save(model, folder)
    for opened in (SentenceTransformer(str(folder), device="cpu"), load(folder, device="cpu")):
        np.testing.assert_allclose(opened.encode(TEXTS), model.encode(TEXTS), atol=1e-6)


def test_a_student_is_saved_whole(tmp_path: Path) -> None:
    short = keep_layers(load(build_bert(tmp_path / "teacher", layers=4), "mean", device="cpu"), 2)
    check_saved(short, tmp_path / "short")


def test_what_cannot_be_had_is_refused_in_one_line(tmp_path: Path) -> None:
    teacher = build_bert(tmp_path / "teacher")
    with refused("student-does-not-fit"):
        keep_layers(load(teacher, device="cpu"), 3)
    with refused("student-does-not-fit"):
        keep_layers(load(teacher, "first_last", device="cpu"), 1)
    with refused("student-does-not-fit"):
        keep_layers(as_student("ModernBert", tmp_path / "modern"), 1, "last")
    with refused("student-does-not-fit"):
        keep_layers(torch.nn.Sequential(torch.nn.Linear(2, 2)), 1)


WORDS = ["king", "island", "bird", "war"]  # each is one token


def test_zipf_weights_are_those_of_smooth_inverse_frequency() -> None:
    total = sum(1 / rank for rank in range(2, 52))
    expected = [1e-4 / (1e-4 + 1 / rank / total) for rank in range(2, 52)]
    np.testing.assert_allclose(zipf_weights(50), expected, rtol=1e-12)
    assert np.all(np.diff(zipf_weights(50)) > 0), "the rarer, the heavier"


def distances(rows: np.ndarray) -> np.ndarray:
    """Between all rows (N, D): (N, N)."""
    return np.asarray(np.linalg.norm(rows[:, None] - rows[None], axis=-1))


def before_weights(student: SentenceTransformer) -> np.ndarray:
    """The vectors of `WORDS` without their tokens' weights (4, K). The rank counts the words that
    come before.
    """
    vocabulary = sorted(student.tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    ranks = {
        word: rank
        for rank, word in enumerate(name for name, _ in vocabulary if not name.startswith("["))
    }
    weights = zipf_weights(len(ranks))
    rows = student[0].embedding.weight.detach().double().numpy()
    return np.stack(
        [rows[student.tokenizer.token_to_id(word)] / weights[ranks[word]] for word in WORDS]
    )


@pytest.mark.usefixtures("cached")
def test_a_text_is_the_mean_of_its_tokens_also_in_the_saved_model(
    tiny_model: Path, tmp_path: Path
) -> None:
    student = static_model(load(tiny_model, normalize=True, device="cpu"), width=16)
    assert isinstance(student[-1], Normalize)
    check_saved(student, tmp_path / "static")
    mean = np.mean(
        [
            student[0].embedding.weight[student.tokenizer.token_to_id(w)].tolist()
            for w in ("red", "bird")
        ],
        0,
    )
    np.testing.assert_allclose(
        student.encode(["red bird"])[0], mean / np.linalg.norm(mean), atol=1e-6
    )


@pytest.mark.usefixtures("cached")
def test_all_dimensions_give_exactly_the_teachers_distances(tiny_model: Path) -> None:
    teacher = load(tiny_model, device="cpu")
    student = static_model(teacher, width=32)
    said = teacher.encode(WORDS).astype(np.float64)
    np.testing.assert_allclose(
        distances(before_weights(student)), distances(said), rtol=1e-3, atol=1e-4
    )
    assert not isinstance(student[-1], Normalize)
    with refused("student-does-not-fit"):
        static_model(student)


@pytest.mark.usefixtures("cached")
def test_a_student_in_place_keeps_the_teachers_directions(tiny_model: Path) -> None:
    """Without what all tokens have in common. So its texts can search among the teacher's."""
    said, student = (
        load(tiny_model).encode(WORDS),
        student_of(load(tiny_model, device="cpu"), "static:in-place"),
    )
    found = before_weights(student)
    np.testing.assert_allclose(found - found.mean(0), said - said.mean(0), atol=1e-4)
    assert not student[0].embedding.weight[student.tokenizer.token_to_id("[SEP]")].any()


def test_tokens_in_brackets_are_no_words() -> None:
    """They have no rank: BERT's first 999 tokens are such ones, and every word would seem rare."""
    tokenizer = Tokenizer(
        WordLevel({"[CLS]": 0, "[unused5]": 1, "the": 2, "[": 3, "<s>": 4, "<3": 5}, "[CLS]")
    )
    assert stand_for_text(tokenizer, 7).tolist() == [False, False, True, True, False, True, False]


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    return write_word_vectors(tmp_path)


def test_words_are_found_in_raw_text_too(glove: Path) -> None:
    encoder = WordVectors(glove)
    (raw, plain, name) = encoder.encode(["The cat, the dog!", "the cat the dog", "Paris"])
    np.testing.assert_array_equal(raw, plain)
    assert name.tolist() == [9, 9, 9]
    assert encoder.encode(["paris"]).tolist() == [[0, 0, 0]]  # the file has it in capitals alone


def test_the_vectors_of_words_are_averaged_from_files_of_every_kind(
    glove: Path, tmp_path: Path
) -> None:
    expected = WordVectors(glove).encode(TEXT)
    np.testing.assert_allclose(expected, naive.averaged(VECTORS, TEXT), atol=1e-6)
    assert expected[4].tolist() == [0, 0, 0]
    word2vec = tmp_path / "w2v.vec"
    word2vec.write_text(f"{len(VECTORS)} 3\n" + glove.read_text().replace("\n", " \n"))
    packed = tmp_path / "glove.txt.gz"
    packed.write_bytes(gzip.compress(glove.read_bytes()))
    for path in (word2vec, packed):
        np.testing.assert_array_equal(WordVectors(path).encode(TEXT), expected)


def test_words_with_spaces_are_passed_over(glove: Path) -> None:
    """The large GloVe file has some; the first word of such a line is not that word."""
    glove.write_text(glove.read_text().replace("cat 0", "cat . 5 5 5\ncat 0"))
    np.testing.assert_allclose(WordVectors(glove).encode(["cat"]), [[0, 2, 0]])
