"""Search among encoded texts: as by hand, with any output, in pieces; never with another model's
vectors, or damage.
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer

import isotrope
from helpers.hashes import Hashes
from helpers.small_shards import KINDS, stop_at
from isotrope.console.plain import plain_console
from isotrope.encoder import load
from isotrope.encoding import search as module
from isotrope.encoding.encode import encode
from isotrope.encoding.output import Stored
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


@pytest.mark.parametrize("engine", ["exact", "faiss"])
@pytest.mark.parametrize("name", KINDS)
def test_the_same_rows_as_by_hand(
    tmp_path: Path,
    sentences: list[str],
    table: Path,
    name: str,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over several shards and pieces; a query has the cosine 1 to its own text."""
    monkeypatch.setattr(module, "PIECE", 16 * 7)  # rows
    output = encode(Hashes(), table, tmp_path / name, text="text", keep="id", shard=23)
    queries = ["a river", sentences[40], sentences[41]]
    found = search(
        output,
        queries,
        top=5,
        engine=engine,
        texts=table if name == "v.npy" else None,
        model=Hashes(),
    )
    for hits, row in zip(found, cosines_of(queries, sentences), strict=True):
        best = np.argsort(-row, kind="stable")[:5]
        assert [hit.row for hit in hits] == best.tolist()
        np.testing.assert_allclose([hit.cosine for hit in hits], row[best], atol=1e-6)
        for hit in hits:
            assert hit.fields["text"] == sentences[hit.row]
            assert int(hit.fields["id"]) == hit.row
    assert found[1][0].row == 40
    assert len(search(output, "a river", top=1000, engine=engine, model=Hashes())[0]) == len(
        sentences
    )


@pytest.mark.parametrize("engine", ["exact", "faiss"])
def test_zeros_are_near_to_nothing_and_what_is_no_number_is_never_found(
    tmp_path: Path, engine: str
) -> None:
    vectors = np.eye(5, 16, dtype=np.float32)
    vectors[1, 3], vectors[2], vectors[4] = np.nan, np.inf, 0
    np.save(tmp_path / "v.npy", vectors)
    hits = search(tmp_path / "v.npy", "a river", model=Hashes(), engine=engine)[0]
    assert sorted(hit.row for hit in hits) == [0, 3, 4]
    assert {hit.row: hit.cosine for hit in hits}[4] == 0
    np.save(tmp_path / "w.npy", np.full((3, 16), np.nan, np.float32))
    assert search(tmp_path / "w.npy", "a river", model=Hashes(), engine=engine) == [[]]


@pytest.mark.parametrize("name", KINDS)
def test_words_count_beside_vectors(
    tmp_path: Path, sentences: list[str], table: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The score is the sum of both searches, each from 0 to 1 for a query, by hand."""
    monkeypatch.setattr(module, "PIECE", 16 * 7)  # rows, and queries in several blocks
    output = encode(Hashes(), table, tmp_path / name, text="text", shard=23)
    queries, texts = ["a river of the", sentences[40], "zzz"], table if name == "v.npy" else None
    found = search(output, queries, top=5, hybrid=0.3, texts=texts, model=Hashes())
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
            [hit.cosine for hit in hits], cosines[query][[hit.row for hit in hits]], atol=1e-6
        )
        np.testing.assert_allclose(total[[hit.row for hit in hits]], total[best], atol=1e-5)


def test_a_hybrid_search_needs_texts_and_finds_no_vector_that_is_no_number(tmp_path: Path) -> None:
    texts, asked = ["a river", "a river", "a lake"], Hashes().encode(["a river"])[0]
    vectors = np.stack([asked, asked, asked + 0.5 * np.roll(asked, 1)]).astype(np.float32)
    vectors[1, 3] = np.nan
    np.save(tmp_path / "v.npy", vectors)
    hits = search(tmp_path / "v.npy", "a river", model=Hashes(), texts=texts, hybrid=0.5)[0]
    assert [hit.row for hit in hits] == [0, 2]
    assert [hit.score for hit in hits] == pytest.approx([1, 0]), (
        "what is no number does not scale the others"
    )
    with pytest.raises(
        UserError, match=r"v\.npy holds no texts, which BM25 needs: name their files with --texts"
    ):
        search(tmp_path / "v.npy", "a river", model=Hashes(), hybrid=0.5)
    with pytest.raises(UserError, match="hybrid = 2 is not possible"):
        search(tmp_path / "v.npy", "a river", model=Hashes(), texts=texts, hybrid=2)
    with pytest.raises(UserError, match="faiss cannot add BM25"):
        search(
            tmp_path / "v.npy", "a river", model=Hashes(), texts=texts, hybrid=0.5, engine="faiss"
        )


def test_the_index_names_its_model(tmp_path: Path, tiny_model: Path) -> None:
    output = encode(tiny_model, ["a river", "a lake"], tmp_path / "v", pooling="cls")
    assert search(output, "a lake")[0][0].row == 1
    np.save(tmp_path / "w.npy", np.eye(4, 16, dtype=np.float32))
    with pytest.raises(
        UserError, match=r"w\.npy does not say which model made it: name it with --model"
    ):
        search(tmp_path / "w.npy", "a lake")


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
    assert [hit.cosine for hit in hits] == pytest.approx(
        np.sort((query @ texts.T)[0])[:-4:-1].tolist(), abs=1e-5
    )
    with pytest.raises(
        UserError,
        match=rf"v was made with another model than {tiny_model} \(it was {prompted_model}",
    ):
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
        assert [hit.cosine for hit in hits] == pytest.approx(expected, abs=1e-5)
    assert (model.prompts, model.default_prompt_name) == (before, "passage")

    said = io.StringIO()
    output = encode(tiny_model, tmp_path / "c.txt", tmp_path / "w", prompt="a book on ")
    search(output, "a river", console=plain_console(file=said), model=tiny_model)
    assert (
        "the texts have the prompt 'a book on ', the queries none: see --query-prompt"
        in said.getvalue()
    )


def test_an_array_has_no_texts(tmp_path: Path, table: Path) -> None:
    said = io.StringIO()
    output = encode(Hashes(), table, tmp_path / "v.npy", text="text")
    hits = search(output, "a river", console=plain_console(file=said), model=Hashes())[0]
    assert hits[0].fields == {}
    assert "v.npy does not say which model made it" in said.getvalue()
    assert "v.npy holds no texts: name their files with --texts" in said.getvalue()
    (tmp_path / "fewer.txt").write_text("one\n")
    with pytest.raises(
        UserError, match=r"the texts have 1 rows, .*v\.npy has 62: name the files that were encoded"
    ):
        search(output, "a river", texts=tmp_path / "fewer.txt", model=Hashes())


MISTAKES: dict[str, tuple[Callable[[Path], dict[str, Any]], str]] = {
    "empty query": (lambda f: {"queries": ["a", " "]}, "the query ' ' is empty"),
    "engine": (lambda f: {"engine": "fais"}, "engine = 'fais' is unknown: did you mean 'faiss'"),
    "another encoder": (
        lambda f: {"model": Hashes(seed=1)},
        "v.parquet was made with another model than hashes",
    ),
    "prompt": (
        lambda f: {"query_prompt": "q: "},
        "query_prompt = 'q: ' needs a sentence-transformers model",
    ),
    "other width": (
        lambda f: np.save(f / "w.npy", np.ones((3, 8), np.float32)) or {"index": f / "w.npy"},
        "w.npy was made with another model than hashes.Hashes, of 8 dimensions: name that one",
    ),
    "no faiss": (
        lambda f: {"engine": "faiss"},
        r"faiss, which is not installed: pip install 'isotrope\[faiss\]'",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(
    tmp_path: Path, table: Path, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = encode(Hashes(), table, tmp_path / "v.parquet", text="text")
    change, problem = MISTAKES[mistake]
    if mistake == "no faiss":
        monkeypatch.setitem(sys.modules, "faiss", None)
    given = {"model": Hashes(), "index": output, "queries": "a river", **change(tmp_path)}
    with pytest.raises(UserError, match=problem):
        isotrope.search(**given)


def unfinished(folder: Path) -> Path:
    with pytest.raises(KeyboardInterrupt):
        encode(
            Hashes(), folder / "rows.csv", folder / "u", text="text", shard=23, progress=stop_at(1)
        )
    return folder / "u"


def without_a_shard(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "w", text="text", shard=23)
    (output / "part-00001.parquet").unlink()
    return output


def other_kept_rows(folder: Path) -> Path:
    output = encode(Hashes(), folder / "rows.csv", folder / "k.npy", text="text", keep="id")
    pq.write_table(pa.table({"id": ["1"]}), folder / "k.kept.parquet")
    return output


REFUSED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda f: f / "no", "no is not an output of isotrope encode: give what it wrote"),
    "other folder": (lambda f: f, "is not an output of isotrope encode: give what it wrote"),
    "unfinished": (unfinished, "u is not finished: give the command isotrope encode again"),
    "lacks a shard": (without_a_shard, r"w cannot be read \(it has 39 of 62 rows\): encode the texts again"),
    "cut Parquet": (
        lambda f: (f / "c.parquet").write_bytes(b"PAR1 no") and f / "c.parquet", r"c\.parquet cannot be read"
    ),
    "one row": (lambda f: np.save(f / "a.npy", np.ones(4, np.float32)) or f / "a.npy", r"of shape \(4,\), not"),
    "no vectors": (
        lambda f: pq.write_table(pa.table({"text": ["a"]}), f / "p.parquet") or f / "p.parquet", r"read .*embed"
    ),
    "kept rows": (other_kept_rows, r"k\.kept\.parquet has 1 rows, and this array 62"),
}  # fmt: skip


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    make, problem = REFUSED[case]
    path = make(tmp_path)
    with pytest.raises(UserError, match=problem):
        Stored(path)
