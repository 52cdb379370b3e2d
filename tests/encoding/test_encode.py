"""Encoding of whole files: equal to sentence-transformers, in constant memory, whole after any
kill.
"""

import gzip
import io
import itertools
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from sentence_transformers import SentenceTransformer

from helpers.forks import code, fork
from helpers.hashes import Hashes
from helpers.refusals import refused
from helpers.small_shards import KINDS, read, stop_at, table_of, write
from isotrope.console.plain import plain_console
from isotrope.encoder import load
from isotrope.encoding.encode import encode
from isotrope.errors import UserError
from isotrope.store.files import DRAFT, draft_path

OURS = {".isotrope", ".lock"}  # in each folder of ours


def entries(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.fixture
def sentences(corpus_file: Path) -> list[str]:
    """Sentences with blanks, repetitions, white space at the ends and a text longer than the model
    reads.
    """
    some = corpus_file.read_text(encoding="utf-8").splitlines()[:60]
    return [
        *some[:20],
        "",
        some[3],
        "  two  spaces ",
        *some[20:],
        "",
        some[3],
        "river " * 200,
        "naïve café 東京",
    ]


@pytest.mark.parametrize("name", KINDS)
def test_equals_sentence_transformers(
    tmp_path: Path, tiny_model: Path, sentences: list[str], name: str
) -> None:
    """Shards, distinct sentences and another order of batches change nothing but rounding."""
    file = write(tmp_path / "c.txt", sentences)
    seen: list[int] = []
    vectors = read(
        encode(tiny_model, [file], tmp_path / name, batch_size=4, shard=13, progress=seen.append)
    )
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, load(tiny_model).encode(sentences), rtol=0, atol=1e-6)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, len(sentences))
    assert not Path(f"{tmp_path / name}.parts").exists()


def test_prompts(tmp_path: Path, prompted_model: Path, sentences: list[str]) -> None:
    """Part of what shards are made from; noted where nobody chose."""
    file, out = write(tmp_path / "c.txt", sentences), io.StringIO()
    output = encode(prompted_model, file, tmp_path / "v", prompt_name="passage", shard=40)
    expected = SentenceTransformer(str(prompted_model), device="cpu").encode(
        sentences, prompt="a short book on "
    )
    np.testing.assert_allclose(read(output), expected, rtol=0, atol=1e-5)
    with refused("begun-differently", "a short book on", "song of"):
        encode(prompted_model, file, output, prompt_name="query", shard=40)
    encode(prompted_model, file, tmp_path / "v.parquet", console=plain_console(file=out))
    assert "has prompts (query, passage); none is used: see --prompt-name" in out.getvalue()


def test_parquet_layout(tmp_path: Path, sentences: list[str]) -> None:
    """One row group a shard; the texts stand beside their vectors exactly as they were read."""
    output = encode(
        Hashes(), write(tmp_path / "c.txt", sentences), tmp_path / "v.parquet", shard=25
    )
    file = pq.ParquetFile(output)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [
        25,
        25,
        len(sentences) - 50,
    ]
    assert file.read()["text"].to_pylist() == sentences
    np.testing.assert_array_equal(read(output), Hashes().encode(sentences))


def test_a_folder_opens_everywhere_as_it_is(tmp_path: Path, sentences: list[str]) -> None:
    """What is not a part begins with an underscore or a dot."""
    folder = tmp_path / "v"
    folder.mkdir()  # an empty one may be there
    encode(Hashes(), write(tmp_path / "c.txt", sentences), folder, shard=40)
    assert entries(folder) == {
        "part-00000.parquet",
        "part-00001.parquet",
        "_manifest.json",
        ".job.json",
        *OURS,
    }
    manifest = json.loads((folder / "_manifest.json").read_text())
    assert [manifest[key] for key in ("rows", "dimension", "shards")] == [len(sentences), 16, 2]
    assert manifest["model"].endswith("Hashes")
    assert pyarrow.dataset.dataset(folder).to_table()["text"].to_pylist() == sentences
    assert pandas.read_parquet(folder)["text"].tolist() == sentences
    loaded = datasets.load_dataset(str(folder), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded["text"] == sentences
    encoder = Hashes()
    encode(encoder, tmp_path / "c.txt", folder, shard=40)
    assert encoder.calls == 1  # the probe: what is whole is not done again


def test_objects_give_the_vectors_of_files(
    tmp_path: Path, tiny_model: Path, sentences: list[str]
) -> None:
    """A loaded model, which stays as it was, and texts of any form; without an output the result is
    an array.
    """
    expected = read(
        encode(tiny_model, write(tmp_path / "c.txt", sentences), tmp_path / "v.parquet")
    )
    model = load(tiny_model).train()
    frame = pandas.DataFrame({"id": range(len(sentences)), "body": sentences})
    for texts in (
        sentences,
        frame,
        frame["body"],
        datasets.Dataset.from_pandas(frame),
        tmp_path / "c.txt",
    ):
        np.testing.assert_array_equal(encode(model, texts), expected)
    assert model.training
    assert encode(model, sentences, pooling="cls").shape == expected.shape
    encode(model, frame, tmp_path / "v", keep="id")
    assert pandas.read_parquet(tmp_path / "v")["id"].tolist() == list(range(len(sentences)))


def test_row_for_row_over_formats(tmp_path: Path) -> None:
    """Blank lines and nulls are rows; Windows line ends and the mark of UTF-8 are not part of a
    sentence.
    """
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n\r\n\ttwo \n three".encode())
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as stream:
        stream.write('{"n": 1, "s": "four"}\n{"n": 2, "s": null}\n\n{"n": 3, "s": "one"}\n')
    write(tmp_path / "c.csv", ["n,s", '5,"five, and\nmore"', "6,"])
    write(tmp_path / "d.tsv", ["s\tn", 'six "six\t7'])
    pq.write_table(pa.table({"s": ["seven", None]}), tmp_path / "e.parquet")
    files = [tmp_path / name for name in ("a.txt", "b.jsonl.gz", "c.csv", "d.tsv", "e.parquet")]
    expected = [
        "one",
        "",
        "\ttwo ",
        " three",
        "four",
        "",
        "",
        "one",
        "five, and\nmore",
        "",
        'six "six',
        "seven",
        "",
    ]
    output = encode(Hashes(), files, tmp_path / "v.parquet", text_column="s", shard=3)
    assert pq.read_table(output)["text"].to_pylist() == expected
    np.testing.assert_array_equal(read(output), Hashes().encode(expected))


def test_shards_end_early_for_long_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotrope.encoding.rows.SHARD_CHARACTERS", 100)
    encode(Hashes(), write(tmp_path / "c.txt", ["x" * 60] * 5), tmp_path / "v", shard=50)
    assert [len(pq.read_table(part)) for part in sorted((tmp_path / "v").glob("part*"))] == [
        2,
        2,
        1,
    ]


# --- stopped, and gone on with


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
@pytest.mark.parametrize("name", ["v.parquet", pytest.param("v", marks=pytest.mark.slow)])
def test_killed_at_every_step_of_writing(tmp_path: Path, name: str) -> None:
    """The process dies before its k-th change of a file, for every k; the next call ends whole each
    time.
    """
    lines = [f"sentence {i % 4}" for i in range(6)]
    file = write(
        tmp_path / "c.tsv", ["id\ttext", *(f"{i}\t{line}" for i, line in enumerate(lines))]
    )
    for step in itertools.count():
        child = multiprocessing.get_context("fork").Process(
            target=_die, args=(step, file, tmp_path / name)
        )
        child.start()
        child.join(timeout=60)
        assert child.exitcode in (0, 9)
        encode(Hashes(), file, tmp_path / name, shard=4, keep="id")
        np.testing.assert_array_equal(read(tmp_path / name), Hashes().encode(lines))
        assert table_of(tmp_path / name)["id"].to_pylist() == [str(i) for i in range(6)]
        parts = ("part-00000.parquet", "part-00001.parquet")
        of_folder = {f"v/{entry}" for entry in ("_manifest.json", ".job.json", *parts, *OURS)}
        assert entries(tmp_path) <= {
            "c.tsv",
            name,
            *of_folder,
        }
        if child.exitcode == 0:
            break
        shutil.rmtree(tmp_path / name) if name == "v" else (tmp_path / name).unlink()
    assert step > 10


def _die(step: int, file: Path, output: Path) -> None:
    left = itertools.count(step, -1)

    def mortal(real: Any) -> Any:
        def change(place: Any, *args: Any, **options: Any) -> Any:
            reads = real.__name__ == "open" and "r" in (*args, options.get("mode", "r"))[0]
            nothing = real.__name__ == "unlink" and not place.exists()
            if not reads and not nothing and next(left) == 0:
                os._exit(9)
            return real(place, *args, **options)

        return change

    for owner, name in (
        (Path, "open"),
        (Path, "replace"),
        (Path, "unlink"),
        (Path, "rmdir"),
        (os, "fsync"),
    ):
        setattr(owner, name, mortal(getattr(owner, name)))
    encode(Hashes(), file, output, shard=4, keep="id")


def test_two_processes_at_once_are_killed_and_gone_on_with(tmp_path: Path) -> None:
    """Issue 13: kills at random moments, two in one folder. One writes, the other is refused; the
    end is whole.
    """
    lines = [f"sentence {i}" for i in range(400)]
    file, draw = write(tmp_path / "c.txt", lines), random.Random(0)

    def work(output: Path) -> None:
        with suppress(UserError):  # in use by the other
            encode(Hashes(pause=0.002), file, output, shard=20, batch_size=10)

    for name in KINDS * 2:
        children = [fork(partial(work, tmp_path / name)) for _ in range(2)]
        assert {code(child, draw.uniform(0.01, 0.08)) for child in children} <= {-signal.SIGKILL, 0}
        encode(Hashes(), file, tmp_path / name, shard=20, batch_size=10)
        np.testing.assert_array_equal(read(tmp_path / name), Hashes().encode(lines))
        shutil.rmtree(tmp_path / name) if name == "v" else (tmp_path / name).unlink()


def test_other_arguments_are_refused_and_restart_begins_anew(tmp_path: Path) -> None:
    file, begun = write(tmp_path / "c.txt", ["a", "b", "c", "d"]), tmp_path / "v"
    with pytest.raises(KeyboardInterrupt):
        encode(Hashes(), file, begun, shard=2, progress=stop_at(2))
    for change, problem in (
        ({"model": Hashes(seed=1)}, "was begun with another model: "),
        ({"shard": 3}, "was begun with shard = 2, not 3"),
        ({"texts": ["a", "b", "c", "e"]}, "was begun with another input: "),
    ):
        with pytest.raises(UserError, match=f"{problem}.*begin anew with --restart"):
            encode(**{"model": Hashes(), "texts": file, "output": begun, "shard": 2, **change})
        assert (begun / "part-00000.parquet").exists()
        assert (begun / ".job.json").exists()
    encode(Hashes(seed=1), file, begun, shard=3, restart=True)
    np.testing.assert_array_equal(read(begun), Hashes(seed=1).encode(["a", "b", "c", "d"]))
    assert len(list(begun.glob("part-*"))) == 2


@pytest.mark.parametrize("name", KINDS)
def test_only_missing_and_damaged_parts_are_made_again(tmp_path: Path, name: str) -> None:
    """After Ctrl-C, which passes through; the remains of the next shard are torn."""
    file, seen, lines = tmp_path / "c.txt", list[int](), list("abcdef")
    with pytest.raises(KeyboardInterrupt):
        encode(Hashes(), write(file, lines), tmp_path / name, shard=2, progress=stop_at(2))
    assert not (tmp_path / name).is_file()
    work = tmp_path / (name if name == "v" else f"{name}.parts")
    draft_path(work / "part-00001.parquet").write_bytes(b"half a shard")
    (work / "part-00001.parquet").write_bytes(b"PAR1")
    encoder = Hashes()
    encode(encoder, file, tmp_path / name, shard=2, progress=seen.append)
    assert (seen[0], encoder.calls) == (2, 5), "the rest, and the probe"
    np.testing.assert_array_equal(read(tmp_path / name), Hashes().encode(lines))


def test_a_file_that_changes_while_it_is_encoded_gives_no_output(tmp_path: Path) -> None:
    """Its vectors would be kept as those of the file as it is."""
    file = write(tmp_path / "c.txt", ["a", "b", "c", "d"])

    def change(done: int) -> None:
        if done == 2:
            file.write_text("a\nb\nc\nd\nmore\n")

    with refused("text-changed", "c.txt"):
        encode(Hashes(), file, tmp_path / "v.parquet", shard=2, progress=change)
    assert not (tmp_path / "v.parquet").is_file()
    with refused("begun-differently"):
        encode(Hashes(), file, tmp_path / "v.parquet", shard=2)


# --- memory and disk


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """A file twenty times as long, whose vectors are 102 MB, takes little more memory than one
    shard of 5,000 rows.
    """
    short = write(tmp_path / "short.txt", [f"sentence number {i}" for i in range(5_000)])
    long = write(tmp_path / "long.txt", [f"sentence number {i}" for i in range(100_000)])
    code = textwrap.dedent(
        """
        import resource, sys
        import numpy as np
        from isotrope.encoding.encode import encode
        class Lengths:
            def encode(self, sentences):
                return np.full((len(sentences), 256), [[len(s)] for s in sentences], np.float32)
        short, long, *outputs = sys.argv[1:]
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        for output in outputs:
            encode(Lengths(), short, output, shard=5_000, batch_size=512)
        before = peak()
        for output in outputs:
            encode(Lengths(), long, output, shard=5_000, batch_size=512, restart=True)
            print(output, peak() - before)
        """
    )
    command = [sys.executable, "-c", code, short, long, *(tmp_path / name for name in KINDS)]
    output = subprocess.run(command, capture_output=True, text=True, timeout=120).stdout
    grown = [float(line.split()[1]) for line in output.splitlines()]  # MB
    assert len(grown) == 2, output
    assert max(grown) < 50, output


class Numbers:
    """Vectors (n, 8) that cannot be packed."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.random.default_rng(len(sentences[0])).random((len(sentences), 8), np.float32)


def test_a_full_disk_is_named_and_whole_shards_stay(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the write fails in the same place, in
    the middle.
    """
    lines = [f"sentence {i}" for i in range(6_000)]
    file = write(tmp_path / "c.txt", lines)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        for name, shard in (("v.parquet", 2_000), ("v", 6_000)):
            with refused("disk-full"):
                encode(Numbers(), file, tmp_path / name, shard=shard, batch_size=shard)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    done = {name: len(list((tmp_path / name).glob("part-*"))) for name in ("v.parquet.parts", "v")}
    assert done == {"v.parquet.parts": 3, "v": 0}  # the whole files found no room
    assert not any((tmp_path / name).exists() for name in KINDS)
    assert not list(tmp_path.rglob(f".*{DRAFT}"))


# --- mistakes: one line, and nothing is left behind


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "other files in the folder": (
        {"output": "full", "restart": True},
        "is not empty and holds no folder of vectors",
    ),
    "output in the input": ({"texts": [Path("c.txt"), Path()]}, "lies in the input"),
    "output is the input": ({"texts": "in.parquet", "output": "in.parquet"}, "lies in the input"),
    "bytes": ({"texts": "bad.txt"}, "bad.txt:2 is not UTF-8"),
    "batch size": ({"batch_size": 0}, "batch_size = 0"),
    "pooling of an object": (
        {"pooling": "cls"},
        "pooling = 'cls' needs a sentence-transformers model",
    ),
    "other dimension": (
        {"model": SimpleNamespace(encode=lambda texts: np.ones((len(texts),) * 2))},
        "gave 3 dimensions",
    ),
}


def test_outputs_that_are_refused_and_folders_by_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Path("plain").touch()
    Path("link").symlink_to("elsewhere")
    Path("folder.parquet").mkdir()
    codes = {
        "": "empty-output",
        "folder.parquet": "output-is-a-folder",
        "plain": "folder-is-not-ours",
        "link": "folder-is-not-ours",
        "v.npy": "unknown-ending",
    }
    for name, problem in codes.items():
        with refused(problem):
            encode(Hashes(), ["a"], name)
    for place in (Path("plain"), Path("link")):
        place.unlink()
    Path("folder.parquet").rmdir()
    for name in (".", "./", "v.1/", "v.parquet/"):
        encode(Hashes(), ["a"], name)
        assert Path(name, "part-00000.parquet").exists()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    write(tmp_path / "c.txt", ["a", "b", "c"])
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "in.parquet")
    (tmp_path / "bad.txt").write_bytes(b"fine\nna\xefve\n")
    write(tmp_path / "full" / "part-00000.parquet", ["someone's"])
    change, problem = MISTAKES[mistake]
    options = {"model": Hashes(), "texts": "c.txt", "output": "v.parquet", **change}
    before = entries(tmp_path)
    with pytest.raises(UserError, match=problem) as error:
        encode(**options)
    assert "\n" not in str(error.value)
    assert error.value.remedy
    assert entries(tmp_path) == before


def test_a_line_that_the_reader_has_cut_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file := tmp_path / "a.txt").write_text(f"short\n{'long ' * 20}\n", encoding="utf-8")
    for room in ("text.files", "encoding.rows"):
        monkeypatch.setattr(f"isotrope.{room}.LONGEST_LINE", 50)
    with refused("not-utf-8", "a.txt:2"):
        encode(Hashes(), file, tmp_path / "v.parquet")


def test_an_error_of_the_encoder_is_its_own(tmp_path: Path) -> None:
    """What fails inside the encoder is not put down to the output, and leaves the older output in
    place.
    """
    file = write(tmp_path / "c.txt", ["a", "b"])
    (tmp_path / "v.parquet").write_text("older")

    class Broken(Hashes):
        def encode(self, sentences: list[str]) -> Any:
            if "b" in sentences:
                raise ConnectionError("the server has gone")
            return super().encode(sentences)

    with pytest.raises(ConnectionError, match="the server has gone"):
        encode(Broken(), file, tmp_path / "v.parquet")
    assert entries(tmp_path) == {"c.txt", "v.parquet"}
    assert (tmp_path / "v.parquet").read_text() == "older"


def test_documents_have_a_vector_for_each_block_and_other_files_are_counted(tmp_path: Path) -> None:
    folder, out = tmp_path / "docs", io.StringIO()
    folder.mkdir()
    (folder / "a.md").write_text("# A head\n\nA paragraph\nof two lines.\n")
    (folder / "b.html").write_text("<p>One  more\n<b>paragraph</b>")
    (folder / "c.png").write_text("x")
    encode(Hashes(), folder, tmp_path / "v.parquet", console=plain_console(file=out))
    texts = pq.read_table(tmp_path / "v.parquet")["text"].to_pylist()
    assert texts == ["A head", "A paragraph of two lines.", "One more paragraph"]
    assert "files not read: 1 .png\n" in out.getvalue()


def test_texts_in_another_script_are_one_warning() -> None:
    shown = io.StringIO()
    encode(
        "isotrope/tiny",
        ["机器学习模型可以把句子变成向量。"] * 3,
        console=Console(file=shown, width=1000),
    )
    assert shown.getvalue().count("of the tokens are unknown to the model's tokenizer") == 1
