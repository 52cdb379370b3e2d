"""Where a model is; a hub name is asked for once, before anything long, and what is here already is not asked for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

from isotrope import load
from isotrope.encoder import locate as room
from isotrope.encoder.checksum import model_checksum
from isotrope.encoder.given import located
from isotrope.encoder.locate import check_hub, is_bare, locate, public_name
from isotrope.errors import UserError


class Refused(Exception):
    """As a client's own exception for a network that is not there."""


def of_http(kind: type[HfHubHTTPError]) -> HfHubHTTPError:
    response: Any = SimpleNamespace(headers={}, request=None, status_code=404)
    return kind("no", response=response)


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


def test_where_nobody_answers_one_question_is_enough(asked: list[str]) -> None:
    """The libraries ask six times for each file, and wait longer each time: half a minute a file."""
    for ask in (load, is_bare):
        with pytest.raises(UserError, match=r"some/model is neither a folder here .* \(Refused\): check the name and"):
            ask("some/model")
    assert len(asked) == 2
    assert asked[0].endswith("some/model/resolve/main/config.json")


def test_a_folder_and_what_is_in_the_cache_are_not_asked_for(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_hub(str(tmp_path))
    monkeypatch.setattr(room, "try_to_load_from_cache", lambda *_: "here")
    check_hub("some/model")
    assert not asked


def test_only_a_name_that_the_hub_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answer: list[HfHubHTTPError] = [of_http(RepositoryNotFoundError), of_http(HfHubHTTPError)]

    def fails(*_: object, **__: object) -> None:
        raise answer.pop(0)

    monkeypatch.setattr(room, "get_hf_file_metadata", fails)
    check_hub.cache_clear()
    with pytest.raises(UserError, match="RepositoryNotFoundError"):
        check_hub("some/model")
    check_hub("some/model")  # too many requests, or the file is missing: the libraries see to it
    check_hub("some/model")
    assert not answer, "an answer is remembered"
    with pytest.raises(UserError, match="HFValidationError"):
        check_hub("some model")


def test_others_are_told_no_path(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert public_name(tiny_model) == public_name(f"{tiny_model}/") == tiny_model.name
    monkeypatch.chdir(tiny_model)
    assert public_name(".") == tiny_model.name
    assert public_name("isotrope/tiny") == "isotrope/tiny"
    assert public_name("someone/some-bert") == "someone/some-bert"


def test_a_name_of_ours_that_is_not_shipped_is_refused_at_once() -> None:
    """Without a network, the hub would be asked for most of a minute."""
    with pytest.raises(UserError, match=r"ships no model isotrope/smal: did you mean 'isotrope/small'\? choose one of"):
        locate("isotrope/smal")


@pytest.mark.usefixtures("cached")
def test_a_loaded_model_is_written_once_and_stays_as_it_was(tiny_model: Path) -> None:
    model = load(tiny_model, "cls", device="cpu")
    before = model_checksum(model)
    folder = located(model)
    assert folder == located(model)
    assert model_checksum(model) == before
    np.testing.assert_array_equal(load(folder, device="cpu").encode(["a river"]), model.encode(["a river"]))
    assert located(tiny_model) == str(tiny_model)
