"""Search among encoded texts: as by hand, with any output, in pieces; never with another model's
vectors, or damage.
"""

import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sentence_transformers import SentenceTransformer

import isotrope
from helpers.hashes import Hashes
from helpers.refusals import refused
from helpers.small_shards import KINDS, stop_at
from isotrope.console.plain import plain_console
from isotrope.encoder import load
from isotrope.encoding import search as module
from isotrope.encoding.encode import encode
from isotrope.encoding.index import VectorStore
from isotrope.encoding.search import search
from isotrope.errors import UserError
from isotrope.text.bm25 import Bm25Index


@pytest.fixture
def sentences(corpus_file: Path) -> list[str]:
    """With a blank line and a repetition."""
    some = corpus_file.read_text(encoding="utf-8").splitlines()[:60]
    return [*some, "", some[3]]


@pytest.fixture
def table(tmp_path: Path, sentences: list[str]) -> Path:
    rows = [f"{sentence},{number}" for number, sentence in enumerate(sentences)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,id", *rows]) + "\n", encoding="utf-8")
    return tmp_path / "rows.csv"


def cosines_of(queries: list[str], texts: list[str]) -> np.ndarray:
    vectors = Hashes().encode([*queries, *texts])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors[: len(queries)] @ vectors[len(queries) :].T)


@pytest.mark.parametrize("name", KINDS)
def test_the_same_rows_as_by_hand(
    tmp_path: Path,
    sentences: list[str],
    table: Path,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over several shards and pieces; a query has the cosine 1 to its own text."""
    monkeypatch.setattr(module, "PIECE", 16 * 7)  # rows
    output = encode(Hashes(), table, tmp_path / name, text_column="text", keep="id", shard=23)
    queries = ["a river", sentences[40], sentences[41]]
    found = search(output, queries, top=5, model=Hashes())
    for hits, row in zip(found, cosines_of(queries, sentences), strict=True):
        best = np.argsort(-row, kind="stable")[:5]
        assert [hit.row for hit in hits] == best.tolist()
        np.testing.assert_allclose([hit.similarity for hit in hits], row[best], atol=1e-6)
        for hit in hits:
            assert hit.fields["text"] == sentences[hit.row]
            assert int(hit.fields["id"]) == hit.row
    assert found[1][0].row == 40


def test_top_may_be_more_than_there_is(tmp_path: Path) -> None:
    output = encode(Hashes(), ["a", "b", "c"], tmp_path / "v")
    assert len(search(output, "a", top=1000, model=Hashes())[0]) == 3


def test_a_vector_of_zeros_is_near_to_nothing(tmp_path: Path) -> None:
    class Zero(Hashes):
        def encode(self, sentences: list[str]) -> np.ndarray:
            vectors = super().encode(sentences)
            vectors[[sentence == "zero" for sentence in sentences]] = 0
            return vectors

    output = encode(Zero(), ["a river", "zero"], tmp_path / "v")
    hits = search(output, "a river", model=Zero())[0]
    assert [(hit.row, round(hit.similarity, 6)) for hit in hits] == [(0, 1), (1, 0)]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean", "manhattan"])
def test_the_models_own_similarity_decides(
    tmp_path: Path, tiny_model: Path, sentences: list[str], similarity: str
) -> None:
    model = SentenceTransformer(str(tiny_model), device="cpu", similarity_fn_name=similarity)
    output = encode(model, sentences, tmp_path / "v", shard=20)
    hits = search(output, "a river", top=5, model=model)[0]
    expected = model.similarity(model.encode(["a river"]), model.encode(sentences))[0].numpy()
    found = [hit.similarity for hit in hits]
    np.testing.assert_allclose(found, np.sort(expected)[::-1][:5], rtol=1e-4)
    np.testing.assert_allclose(found, expected[[hit.row for hit in hits]], rtol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_words_count_beside_vectors(
    tmp_path: Path, sentences: list[str], table: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score is the sum of both searches, each from 0 to 1 for a query, by hand."""
    monkeypatch.setattr(module, "PIECE", 16 * 7)  # rows, and queries in several blocks
    output = encode(Hashes(), table, tmp_path / name, text_column="text", shard=23)
    queries = ["a river of the", sentences[40], "zzz"]
    found = search(output, queries, top=5, hybrid=0.3, model=Hashes())
    cosines, words = cosines_of(queries, sentences), Bm25Index.of(sentences).scores(queries)
    for query, hits in enumerate(found):
        total, by_words = np.zeros(len(sentences)), words[query]
        by_model = cosines[query] - cosines[query].min()
        total = 0.7 * by_model / by_model.max() + (
            0.3 * by_words / by_words.max() if by_words.any() else 0
        )
        best = np.argsort(-total, kind="stable")[:5]
        np.testing.assert_allclose([hit.score for hit in hits], total[best], atol=1e-5)
        np.testing.assert_allclose(
            [hit.similarity for hit in hits], cosines[query][[hit.row for hit in hits]], atol=1e-6
        )
        np.testing.assert_allclose(total[[hit.row for hit in hits]], total[best], atol=1e-5)


def test_the_index_names_its_model(tmp_path: Path, tiny_model: Path) -> None:
    output = encode(tiny_model, ["a river", "a lake"], tmp_path / "v", pooling="cls")
    assert search(output, "a lake")[0][0].row == 1


def test_a_loaded_model_that_made_it_is_found_again(tmp_path: Path, tiny_model: Path) -> None:
    """Also if it was changed after it was loaded, so that its name names another one."""
    model = load(tiny_model)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    output = encode(model, ["a river", "a lake"], tmp_path / "v")
    expected = search(output, "a lake", model=model)
    assert search(output, "a lake") == expected
    assert expected[0][0].row == 1


def test_a_loaded_model_that_is_gone_is_asked_for(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ISOTROPE_CACHE", str(tmp_path / "cache"))
    output = encode(load(tiny_model), ["a river"], tmp_path / "v")
    shutil.rmtree(tmp_path / "cache")
    with pytest.raises(UserError) as error:
        search(output, "a lake")
    assert error.value.code == "model-is-gone"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prompt_name": "passage"},
        {"prompt_name": "query"},
        {"prompt": "a song "},
        {"pooling": "cls"},
    ],
)
def test_the_model_that_made_it(
    tmp_path: Path,
    prompted_model: Path,
    tiny_model: Path,
    sentences: list[str],
    options: dict[str, Any],
) -> None:
    """Its pooling and its prompt are read from the folder; another model is refused."""
    (tmp_path / "c.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    output = encode(prompted_model, tmp_path / "c.txt", tmp_path / "v", normalize=True, **options)
    hits = search(output, sentences[0], top=3, model=prompted_model)[0]
    encoder = load(prompted_model, **options)
    query = encoder.encode([sentences[0]], prompt="song of ", normalize_embeddings=True)
    texts = encoder.encode(sentences, normalize_embeddings=True)
    assert [hit.similarity for hit in hits] == pytest.approx(
        np.sort((query @ texts.T)[0])[:-4:-1].tolist(), abs=1e-5
    )
    with refused("another-model", tiny_model, prompted_model):
        search(output, "a river", model=tiny_model)


def test_a_prompt_of_two_names(tmp_path: Path, tiny_model: Path) -> None:
    """The name counts in the checksum, and the manifest holds the words alone."""
    own = SentenceTransformer(str(tiny_model), device="cpu")
    own.prompts = {"document": "a book on ", "passage": "a book on "}
    own.save_pretrained(str(tmp_path / "model"))
    (tmp_path / "c.txt").write_text("a river\na lake\n", encoding="utf-8")
    output = encode(
        tmp_path / "model", tmp_path / "c.txt", tmp_path / "v.parquet", prompt_name="passage"
    )
    assert (
        search(output, "a lake", query_prompt="a book on ", model=tmp_path / "model")[0][0].row == 1
    )


def test_words_before_queries(
    tmp_path: Path, tiny_model: Path, prompted_model: Path, sentences: list[str]
) -> None:
    """The model's own for queries; or others; or none. The user's model stays as it was."""
    (tmp_path / "c.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    model = load(prompted_model, prompt_name="passage")
    output = encode(model, tmp_path / "c.txt", tmp_path / "v")
    texts = model.encode(sentences, normalize_embeddings=True)
    before = dict(model.prompts)
    for given, words in ((None, "song of "), ("a book ", "a book "), ("", "")):
        hits = search(output, "a river", query_prompt=given, model=model)[0]
        query = model.encode(["a river"], prompt=words, normalize_embeddings=True)[0]
        expected = [float(query @ texts[hit.row]) for hit in hits]
        assert [hit.similarity for hit in hits] == pytest.approx(expected, abs=1e-5)
    assert (model.prompts, model.default_prompt_name) == (before, "passage")

    said = io.StringIO()
    output = encode(tiny_model, tmp_path / "c.txt", tmp_path / "w", prompt="a book on ")
    search(output, "a river", console=plain_console(file=said), model=tiny_model)
    assert (
        "the texts have the prompt 'a book on ', the queries none: see --query-prompt"
        in said.getvalue()
    )


MISTAKES: dict[str, dict[str, Any]] = {
    "empty-query": {"queries": ["a", " "]},
    "below-one": {"top": 0},
    "not-a-share": {"hybrid": 2},
    "another-model": {"model": Hashes(seed=1)},
    "option-of-a-model": {"query_prompt": "q: "},
}


@pytest.mark.parametrize("code", MISTAKES)
def test_mistakes(tmp_path: Path, table: Path, code: str) -> None:
    output = encode(Hashes(), table, tmp_path / "v.parquet", text_column="text")
    arguments = {"model": Hashes(), "index": output, "queries": "a river", **MISTAKES[code]}
    with pytest.raises(UserError) as error:
        isotrope.search(**arguments)
    assert error.value.code == code


def unfinished(folder: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        encode(
            Hashes(),
            folder / "rows.csv",
            folder / "u",
            text_column="text",
            shard=23,
            progress=stop_at(1),
        )
    return folder / "u"


def without_a_shard(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "w", text_column="text", shard=23)
    (output / "part-00001.parquet").unlink()
    return output


def other_bytes(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "o", text_column="text", shard=23)
    part = output / "part-00001.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 255
    part.write_bytes(data)
    return output


def not_vectors(folder: Path) -> Path:
    pq.write_table(pa.table({"text": ["a"]}), folder / "p.parquet")
    return folder / "p.parquet"


def cut(folder: Path) -> Path:
    (folder / "c.parquet").write_bytes(b"PAR1 no")
    return folder / "c.parquet"


REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "nothing": (lambda folder: folder / "no", "no-index"),
    "other folder": (lambda folder: folder, "no-index"),
    "unfinished": (unfinished, "unfinished-index"),
    "lacks a shard": (without_a_shard, "damaged-index"),
    "cut Parquet": (cut, "damaged-index"),
    "no vectors": (not_vectors, "no-index"),
}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    make, code = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(UserError) as error:
        VectorStore(path)
    assert error.value.code == code


def test_a_part_with_other_bytes_is_noticed(tmp_path: Path, table: Path) -> None:
    with pytest.raises(UserError) as error:
        search(other_bytes(tmp_path), "a river", model=Hashes())
    assert error.value.code == "damaged-index"
