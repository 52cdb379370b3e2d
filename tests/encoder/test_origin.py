"""What is known of a base model, and what is not told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from isotrope import load
from isotrope.encoder.origin import UNNAMED, Base, metadata_of, short_name


def test_shipped_models_have_a_name_and_a_licence() -> None:
    assert Base.of("isotrope/tiny") == Base(
        name="isotrope/tiny", hub="isotrope/tiny", about={"license": "apache-2.0", "language": "en"}
    )
    minilm = Base.of("isotrope/minilm")
    assert (minilm.hub, minilm.about["license"]) == ("sentence-transformers/all-MiniLM-L6-v2", "apache-2.0")


def test_a_loaded_model_is_the_one_that_was_named(tiny_model: Path) -> None:
    assert Base.of(load("isotrope/tiny", "first_last")) == Base.of("isotrope/tiny")
    assert Base.of(load(tiny_model)) == Base(name=tiny_model.name)


def test_a_model_that_was_built_in_a_script_has_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And takes none from the folder that the script runs in."""
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    words = StaticEmbedding(Tokenizer(WordLevel({"a": 0}, unk_token="a")), embedding_dim=4)
    assert Base.of(SentenceTransformer(modules=[words], device="cpu")) == Base(name=UNNAMED)
    words.base_model = "someone/some-words"
    assert Base.of(SentenceTransformer(modules=[words], device="cpu")).hub == "someone/some-words"


def test_a_name_of_the_hub_is_kept_and_a_path_is_not(tmp_path: Path) -> None:
    assert Base.of("someone/some-bert").hub == "someone/some-bert"
    assert Base.of("bert-base-uncased").hub == "bert-base-uncased"
    gone = Base.of(tmp_path / "gone" / "model")
    assert (gone.name, gone.hub) == ("model", None)
    assert short_name(tmp_path / "x" / "..") == tmp_path.name or short_name(".") == Path.cwd().name


@pytest.mark.parametrize(
    ("readme", "about"),
    [
        (
            "---\nlicense: mit\nlanguage: [en, de]\nx: [x]\n---\n# A",
            {"license": "mit", "language": ["en", "de"]},
        ),
        ("---\nlanguage:\n- en\n- no\n---\n", {"language": ["en", "no"]}),
        ("---\nlanguage: no\n---\n", {"language": "no"}),
        ("---\nlicense: [1, 2]\nlanguage: {a: b}\n---\n", {}),
        ("---\nlicense: mit\n: : :\n---\n", {}),
        ("---\n- a list\n---\n", {}),
        ("# no metadata", {}),
        (b"---\nlicense: \xff\xfe\n---\n", {}),
        (None, {}),
    ],
)
def test_licence_and_language_of_a_folder(
    tiny_model: Path, tmp_path: Path, readme: str | bytes | None, about: dict[str, object]
) -> None:
    """A card that is damaged says nothing; it never stops the work."""
    folder = shutil.copytree(tiny_model, tmp_path / "my model")
    if readme is not None:
        (folder / "README.md").write_bytes(readme if isinstance(readme, bytes) else readme.encode())
    assert Base.of(folder) == Base(name="my model", about=about)


def test_a_model_that_is_not_there_has_no_metadata(tmp_path: Path) -> None:
    assert metadata_of(str(tmp_path / "none")) == metadata_of("nobody/nothing") == {}


def test_a_licence_that_the_hub_does_not_list_is_told_with_its_name() -> None:
    about: dict[str, str | list[str]] = {"license": "other", "license_name": "mine", "license_link": "https://x.y"}
    assert Base(name="a", about=about).licence == "other, mine, https://x.y"
    assert Base(name="a", about={"license": ["mit", "apache-2.0"]}).licence == "mit, apache-2.0"
    assert Base(name="a", about={"language": "en"}).licence == "not known"
