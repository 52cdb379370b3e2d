"""Prompts: chosen once, then the same in every encoding, and in the saved model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from helpers.small_bert import with_prompts
from helpers.words import sentences
from isotrope import load
from isotrope.encoder import save
from isotrope.encoder.embed import search_vectors, vectors_of
from isotrope.encoder.prompts import ByRole, Prompts, Role, role_prompt, used_prompt
from isotrope.errors import UserError
from isotrope.evaluation.models import RememberingEncoder
from isotrope.post.fitted import FittedEncoder
from isotrope.post.whitening import Whitening, whitening

TEXT = sentences(30)
QUERY, PASSAGE = "song of ", "a short book on "


def plain(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize(
    "choice", [{"prompt_name": "passage"}, {"prompt": PASSAGE}, {"prompt": "army won a "}]
)
def test_vectors_are_those_of_sentence_transformers(
    tiny_model: Path, tmp_path: Path, include_prompt: bool, choice: dict[str, str]
) -> None:
    """Packed, by the one loop, and by plain sentence-transformers from the saved model, without a
    word.
    """
    folder = with_prompts(tiny_model, tmp_path / "own", include_prompt=include_prompt)
    expected = plain(folder).encode(TEXT, prompt=choice.get("prompt", PASSAGE))
    chosen = load(folder, device="cpu", **choice)
    save(chosen, tmp_path / "saved")
    for encoder in (chosen, plain(tmp_path / "saved"), load(tmp_path / "saved", device="cpu")):
        np.testing.assert_allclose(vectors_of(encoder, TEXT, batch_size=4), expected, atol=1e-5)
    assert not np.allclose(plain(folder).encode(TEXT), expected, atol=1e-3)
    assert plain(tmp_path / "saved").prompts["query"] == QUERY


def test_the_models_default_holds_unless_another_is_chosen(
    tiny_model: Path, tmp_path: Path
) -> None:
    folder = with_prompts(tiny_model, tmp_path / "own", default="query")
    assert used_prompt(load(folder, device="cpu")) == QUERY
    assert used_prompt(load(folder, device="cpu", prompt="")) == ""
    np.testing.assert_allclose(
        load(folder, device="cpu", prompt="").encode(TEXT),
        plain(tiny_model).encode(TEXT),
        atol=1e-5,
    )


@pytest.mark.parametrize("pooling", ["first_last", "cls"])
def test_a_saved_model_keeps_the_prompt_out_of_every_pooling(
    prompted_model: Path, tmp_path: Path, pooling: str
) -> None:
    chosen = load(prompted_model, pooling, device="cpu", prompt_name="query")
    save(chosen, tmp_path / "saved")
    np.testing.assert_allclose(
        plain(tmp_path / "saved").encode(TEXT), chosen.encode(TEXT), atol=1e-5
    )


def test_a_wrong_name_is_told_before_the_weights_are_read(
    prompted_model: Path, tiny_model: Path
) -> None:
    with pytest.raises(UserError, match=r"has no prompt called 'question': choose from .*query"):
        Prompts(name="question").check(str(prompted_model), "MODEL")
    with pytest.raises(UserError, match="choose from"):
        load(prompted_model, prompt_name="document")  # which sentence-transformers makes up, empty
    with pytest.raises(UserError, match="it has none: give the words"):
        load(tiny_model, prompt_name="query")
    with pytest.raises(UserError, match="give one of them"):
        load(tiny_model, prompt="a ", prompt_name="query")
    with pytest.raises(UserError, match="is not UTF-8"):
        load(tiny_model, prompt="\udce9: ")


def test_prompts_that_nobody_uses_are_noted_once_and_only_then(
    prompted_model: Path, tiny_model: Path
) -> None:
    model = load(prompted_model, device="cpu")
    assert (
        Prompts().note(model, "e5")
        == "e5 has prompts (query, passage); none is used: see --prompt-name"
    )
    silent = [load(prompted_model, prompt_name="query"), load(tiny_model), object()]
    assert [
        Prompts(text="").note(model, "e5"),
        *(Prompts().note(each, "e5") for each in silent),
    ] == [""] * 4


def test_queries_and_documents_have_their_own(prompted_model: Path) -> None:
    """Also where sentence-transformers has added an empty "document" that hides the "passage"."""
    model, own = load(prompted_model, device="cpu"), plain(prompted_model)
    assert own.prompts["document"] == ""
    assert role_prompt(model, "document") == PASSAGE
    for encoder in (model, RememberingEncoder(model)):
        queries, documents = search_vectors(encoder, TEXT[:9], TEXT)
        np.testing.assert_allclose(queries, own.encode(TEXT[:9], prompt=QUERY), atol=1e-5)
        np.testing.assert_allclose(documents, own.encode(TEXT, prompt=PASSAGE), atol=1e-5)
    np.testing.assert_array_equal(
        RememberingEncoder(model).encode(TEXT[:3]), vectors_of(model, TEXT[:3])
    )


def test_a_role_without_words_has_no_prompt_and_not_the_default(prompted_model: Path) -> None:
    """As in Qwen3: words before queries, none before documents. So it is, too, where the user gives
    none.
    """
    model = load(prompted_model, device="cpu", prompt_name="query")
    Prompts(query="red ", document="").apply_roles(model)
    assert role_prompt(model, "query") == "red "
    _, documents = search_vectors(model, TEXT[:9], TEXT)
    np.testing.assert_allclose(documents, plain(prompted_model).encode(TEXT), atol=1e-5)


def test_an_encoder_of_ones_own_may_have_roles() -> None:
    class Own(ByRole):
        def encode(self, texts: list[str], role: Role | None = None) -> Any:
            return np.full((len(texts), 2), {None: 0, "query": 1, "document": 2}[role])

    queries, documents = search_vectors(Own(), TEXT[:3], TEXT)
    assert (queries == 1).all()
    assert (documents == 2).all()


def test_a_step_is_fitted_on_queries_and_documents_with_their_prompts(prompted_model: Path) -> None:
    model, own = load(prompted_model, device="cpu"), plain(prompted_model)
    fitted = Whitening(k=3).behind(model)
    queries, documents = search_vectors(fitted, TEXT[:9], TEXT)
    a, b = own.encode(TEXT[:9], prompt=QUERY), own.encode(TEXT, prompt=PASSAGE)
    mean, matrix = whitening(np.concatenate([a, b]).astype(np.float64), 3)
    expected = np.abs((np.concatenate([a, b]) - mean) @ matrix)  # directions have no sign
    np.testing.assert_allclose(np.abs(np.concatenate([queries, documents])), expected, atol=1e-2)
    assert isinstance(fitted, FittedEncoder)
    fitted.fit(TEXT)
    assert not np.allclose(fitted.encode_query(TEXT), fitted.encode(TEXT), atol=1e-3)
