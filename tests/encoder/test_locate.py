"""Where a model is and what it is: hub names, checksums, the origin that its card names."""

import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from helpers.words import sentences
from isotrope import load
from isotrope.encoder import locate as room
from isotrope.encoder.checksum import files_checksum, located, model_checksum
from isotrope.encoder.locate import (
    UNNAMED,
    Base,
    check_hub,
    is_bare,
    locate,
    metadata_of,
    public_name,
    short_name,
)
from isotrope.errors import UserError


class Refused(Exception):
    """As a client's own exception for a network that is not there."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that are asked for; nobody answers."""
    addresses: list[str] = []

    def nobody(address: str, timeout: float) -> None:
        addresses.append(address)
        raise Refused

    monkeypatch.setattr(room, "get_hf_file_metadata", nobody)
    check_hub.cache_clear()
    return addresses


def test_where_nobody_answers_one_question_is_enough(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries ask six times for each file, and wait half a minute. A folder, and the cache,
    are not asked for.
    """
    for ask in (load, is_bare):
        with pytest.raises(
            UserError,
            match=r"some/model is neither a folder here .* \(Refused\): check the name and",
        ):
            ask("some/model")
    with pytest.raises(
        UserError, match=r"bad name is neither a folder here .* \(HFValidationError\)"
    ):
        check_hub("bad name")
    check_hub(str(tmp_path))
    monkeypatch.setattr(room, "try_to_load_from_cache", lambda *_: "here")
    check_hub("another/model")
    assert len(asked) == 2
    assert asked[0].endswith("some/model/resolve/main/config.json")


def test_others_are_told_no_path(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiny_model)
    assert {public_name(name) for name in (tiny_model, f"{tiny_model}/", ".")} == {tiny_model.name}
    assert all(public_name(name) == name for name in ("isotrope/tiny", "someone/some-bert"))


def test_a_name_of_ours_that_is_not_shipped_is_refused_at_once() -> None:
    """Without a network, the hub would be asked for most of a minute."""
    with pytest.raises(
        UserError,
        match=r"ships no model isotrope/smal: did you mean 'isotrope/small'\? choose one of",
    ):
        locate("isotrope/smal")


@pytest.mark.usefixtures("cached")
def test_a_loaded_model_is_written_once_and_stays_as_it_was(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", device="cpu")
    before = model_checksum(model)
    folder = located(model)
    assert folder == located(model)
    assert model_checksum(model) == before
    np.testing.assert_array_equal(
        load(folder, device="cpu").encode(["a river"]), model.encode(["a river"])
    )
    assert located(tiny_model) == str(tiny_model)


def encoder(folder: Path, pooling: str = "mean") -> SentenceTransformer:
    return load(folder, pooling, device="cpu")


def one_weight(model: SentenceTransformer) -> None:
    next(model.parameters()).data[3, 3] += 1e-6


def two_rows_exchanged(model: SentenceTransformer) -> None:
    """The same numbers at other places."""
    table = model[0].auto_model.get_input_embeddings().weight.data
    table[[7, 8]] = table[[8, 7]]


CHANGES: dict[str, Callable[[SentenceTransformer], object]] = {
    "one weight": one_weight,
    "two rows exchanged": two_rows_exchanged,
    "half precision": lambda model: model.half(),
    "the length": lambda model: setattr(model, "max_seq_length", 9),
    "a prompt": lambda model: model.prompts.update(query="the river: "),
    "the default prompt": lambda model: setattr(model, "default_prompt_name", "query"),
    "the dimensions": lambda model: setattr(model, "truncate_dim", 8),
    "a setting": lambda model: setattr(model[0].auto_model.config, "hidden_act", "relu"),
    "a word": lambda model: model.tokenizer.add_tokens(["archipelago"]),
    "a module": lambda model: model.append(torch.nn.Identity()),
}


def test_whatever_changes_an_embedding_changes_it(tiny_model: Path) -> None:
    """Each change alone, another pooling, and what else the caller names."""
    found = {
        "nothing": model_checksum(encoder(tiny_model)),
        "a pooling": model_checksum(encoder(tiny_model, "cls")),
    }
    found |= {
        f"further {value}": model_checksum(encoder(tiny_model), value) for value in (True, False)
    }
    for name, change in CHANGES.items():
        change(model := encoder(tiny_model))
        found[name] = model_checksum(model)
    assert len(set(found.values())) == len(found), found


def test_place_use_and_copy_do_not_count(tiny_model: Path, tmp_path: Path) -> None:
    model = encoder(tiny_model)
    before = model_checksum(model)
    model.encode(sentences(9), batch_size=4)
    model.tokenizer(["the river"], truncation=True, max_length=5, padding="max_length")
    assert model_checksum(model) == before, "what a batch has set"
    assert model_checksum(deepcopy(model)) == before
    assert (
        model_checksum(encoder(Path(shutil.copytree(tiny_model, tmp_path / "elsewhere")))) == before
    )


def test_a_files_contents_and_name_count_and_its_place_does_not(
    tiny_model: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    before = files_checksum(str(folder))
    assert before == files_checksum(str(tiny_model))
    (folder / "report.html").write_text("no part of the model")
    assert files_checksum(str(folder)) == before
    config = folder / "config.json"
    config.write_text(config.read_text() + "\n")
    changed = files_checksum(str(folder))
    (folder / "tokenizer.json").rename(folder / "other.json")
    assert len({before, changed, files_checksum(str(folder))}) == 3
    assert files_checksum("bert-base-uncased") == "bert-base-uncased"
    assert len(files_checksum("isotrope/tiny")) == 32


def test_shipped_and_loaded_models_have_a_name_and_a_licence(tiny_model: Path) -> None:
    tiny, minilm = Base.of("isotrope/tiny"), Base.of("isotrope/minilm")
    assert (tiny.name, tiny.hub, tiny.about) == (
        *["isotrope/tiny"] * 2,
        {"license": "apache-2.0", "language": "en"},
    )
    assert (minilm.hub, minilm.about["license"]) == (
        "sentence-transformers/all-MiniLM-L6-v2",
        "apache-2.0",
    )
    assert Base.of(load("isotrope/tiny", "first_last")) == tiny
    assert Base.of(load(tiny_model)) == Base(name=tiny_model.name)


def test_a_model_that_was_built_in_a_script_has_no_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And takes none from the folder that the script runs in."""
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n")
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    words = StaticEmbedding(Tokenizer(WordLevel({"a": 0}, unk_token="a")), embedding_dim=4)
    assert Base.of(SentenceTransformer(modules=[words], device="cpu")) == Base(name=UNNAMED)
    words.base_model = "someone/some-words"
    assert Base.of(SentenceTransformer(modules=[words], device="cpu")).hub == "someone/some-words"


def test_a_name_of_the_hub_is_kept_and_a_path_is_not(tmp_path: Path) -> None:
    assert [Base.of(name).hub for name in ("someone/some-bert", "some-bert")] == [
        "someone/some-bert",
        "some-bert",
    ]
    assert Base.of(tmp_path / "gone" / "model") == Base(name="model")
    assert short_name(".") == Path.cwd().name
    assert metadata_of(str(tmp_path / "none")) == metadata_of("nobody/nothing") == {}


@pytest.mark.parametrize(
    ("readme", "about"),
    [
        (
            b"---\nlicense: mit\nlanguage: [en, de]\nx: [x]\n---\n# A",
            {"license": "mit", "language": ["en", "de"]},
        ),
        (
            b"---\nlicense: [1, mit]\nlanguage: no\n---\n",
            {"license": ["1", "mit"], "language": "no"},
        ),
        (b"---\n- a list\n---\n", {}),
        (b"---\nlicense: \xff\xfe\n---\n", {}),
    ],
)
def test_licence_and_language_of_a_folder(
    tmp_path: Path, readme: bytes, about: dict[str, object]
) -> None:
    """A card that is damaged says nothing; it never stops the work."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "README.md").write_bytes(readme)
    assert Base.of(tmp_path) == Base(name=tmp_path.name, about=about)


def test_a_licence_that_the_hub_does_not_list_is_told_with_its_name() -> None:
    about: dict[str, str | list[str]] = {
        "license": "other",
        "license_name": "mine",
        "license_link": "https://x.y",
    }
    assert Base(name="a", about=about).licence == "other, mine, https://x.y"
    assert Base(name="a", about={"license": ["mit", "apache-2.0"]}).licence == "mit, apache-2.0"
    assert Base(name="a", about={"language": "en"}).licence == "not known"
