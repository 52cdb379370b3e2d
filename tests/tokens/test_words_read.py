"""Words that are hidden, negated, or put around the text, against the tokenizer itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from helpers.component_contract import WORDS, words
from helpers.refusals import refused
from helpers.token_batches import features, read, seeded
from helpers.words import sentences
from isotrope import Objective, component, load
from isotrope.contract.context import BuildContext
from isotrope.objective.passes import Passes
from isotrope.preset.preset import build_objective, read_preset
from isotrope.tokens._inner import inside
from isotrope.tokens.hide import Phrase, phrases
from isotrope.tokens.negate import Negate
from isotrope.tokens.template import reframe
from isotrope.views.denoised import Denoised


def test_words_of_anchors_alone_are_hidden(tiny_model: Path) -> None:
    model = load(tiny_model, "mean", dropout=0.0, device="cpu").eval()
    step = component("tokens", "hide", ratio=0.5).build(BuildContext.of(model))
    text = model.preprocess(sentences(4))
    shown = step(dict(text), torch.Generator().manual_seed(1))["input_ids"]
    noise = torch.rand(*text["input_ids"].shape, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(shown, step.hiding(text["input_ids"], text["attention_mask"], noise)[1])
    assert not torch.equal(shown, text["input_ids"])
    columns = [dict(text) for _ in range(3)]
    with torch.no_grad():
        stack, further, readings = Passes(
            model, [(step, [0])], torch.Generator().manual_seed(1)
        ).views(columns, 1)
        whole = model(dict(text))["sentence_embedding"]
    assert torch.equal(readings[0].read["input_ids"], shown)
    assert torch.allclose(stack[1], whole, atol=1e-5)
    assert torch.allclose(further[:, 0], whole, atol=1e-5), (
        "texts behind the positive are read whole"
    )
    assert not torch.allclose(stack[0], whole, atol=1e-3)


def negated(texts: list[str], model: str = "isotrope/tiny", **options: int) -> list[str]:
    encoder = load(model, "mask", device="cpu")
    step = component("tokens", "negate", **options).build(BuildContext.of(encoder))
    after = step(encoder.preprocess(texts), seeded())
    found = encoder.tokenizer.batch_decode(read(after))
    return [one.partition('" ')[2].partition(' " means')[0] for one in found]


def test_it_says_the_opposite() -> None:
    pairs = {
        "the river is old": "the river is not old",
        "she was born in a city and can sing": "she was not born in a city and can sing",
        "they do not live there, and he did not": "they do live there, and he did not",
        "old stones lie there": "not old stones lie there",
        "Is it old?": "is not it old?",
        "": "not",
    }
    assert negated(list(pairs)) == list(pairs.values())
    assert negated([opposite for _, opposite in list(pairs.items())[:2]]) == list(pairs)[:2], (
        "and back"
    )


def test_padding_may_stand_on_either_side() -> None:
    step = component("tokens", "negate").build(BuildContext(tokenizer=words()))
    # "a is river", "a is not river boat"
    rows = [[0, 0, 1, 2, 3, 5, 9], [1, 2, 3, 4, 5, 6, 9], [1, 5, 9, 0, 0, 0, 0]]
    ids = torch.tensor(rows)
    after = step(
        {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": 0 * ids}, seeded()
    )
    found = [" ".join(WORDS[token] for token in row[1:-1]) for row in read(after)]
    assert found == ["a is not river", "a is river boat", "not river"]
    assert after["token_type_ids"].shape == after["input_ids"].shape


def test_a_tokenizer_without_the_word_is_refused(tiny_model: Path) -> None:
    with refused("no-token-for-not"):
        Negate().build(BuildContext.of(load(tiny_model, device="cpu")))


def test_the_users_own_negations_take_its_place(tiny_model: Path) -> None:
    """The term reads the negatives, so that no step must."""
    more = [
        "tokens.negate=false",
        "views.passes=2",
        "tokens.other.on=[1]",
        "scores=false",
        "terms.soft.view=0",
    ]
    model = load(tiny_model, "mask", dropout=0.1, device="cpu").train()
    text = sentences(6)
    columns = [model.preprocess(each) for each in (text, text, [f"no {one}" for one in text])]
    assert "soft" in build_objective(read_preset("sncse", more), model)(columns)


rows = st.lists(st.lists(st.booleans(), min_size=9, max_size=9), min_size=1, max_size=4)


@settings(deadline=None)
@given(rows, st.integers(1, 9))
def test_numbers_equal_the_loop(content: list[list[bool]], longest: int) -> None:
    found = phrases(torch.tensor(content), longest).tolist()
    for row, numbers in zip(content, found, strict=True):
        expected, number, length = [], 0, 0
        for content_word in row:
            length = length + 1 if content_word else 0
            number += content_word and (length - 1) % longest == 0
            expected.append(number * content_word)
        assert numbers == expected


def hidden(text: str, step: Phrase, tokenizer: object) -> set[str]:
    """What forty draws hide of a text."""
    given = tokenizer([text] * 40, return_tensors="pt")
    shown = step(dict(given), seeded())["input_ids"]
    changed = shown != given["input_ids"]
    assert shown[changed].eq(step.mask_id).all()
    return {
        tokenizer.decode(ids[row]) for ids, row in zip(given["input_ids"], changed, strict=True)
    }


def test_a_phrase_lies_between_stop_words_and_punctuation() -> None:
    words = load("isotrope/tiny", device="cpu").tokenizer
    step = component("tokens", "phrase").build(BuildContext(tokenizer=words))
    text = "the old river and a green boat, which is of stone"
    assert hidden(text, step, words) == {"old river", "green boat", "stone"}
    assert hidden("it is, and they are", step, words) == {""}, "no phrase, nothing hidden"
    long = component("tokens", "phrase", longest=2).build(BuildContext(tokenizer=words))
    assert hidden("the old green river boat", long, words) == {"old green", "river boat"}


def test_a_part_of_a_word_is_no_stop_word() -> None:
    """Of a tokenizer that marks the first part of a word: «the theory», «The river»."""
    marked = ["<mask>", "<s>", "</s>", "Ġthe", "ory", "The", "Ġriver", ",", "Ġnew"]
    known = Tokenizer(WordLevel({word: i for i, word in enumerate(marked)}))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=known, mask_token="<mask>")
    step = Phrase().build(BuildContext(tokenizer=tokenizer))
    ids = torch.tensor([[1, 5, 6, 3, 4, 7, 3, 2], [1, 3, 6, 7, 8, 4, 3, 2]])
    among = torch.ones_like(ids, dtype=torch.bool).index_fill(1, torch.tensor([0, 7]), False)
    marks = [[int(each) for each in row] for row in step.content(ids, among)]
    assert marks == [[0, 0, 1, 1, 1, 0, 0, 0], [0, 0, 1, 0, 1, 1, 0, 0]], (
        "the river, «the·ory»; river, «new·ory»"
    )
    with refused("no-mask-token"):
        Phrase().build(BuildContext(tokenizer=SimpleNamespace(mask_token_id=None)))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_frames_by_loops(counts: list[int], left: bool, before: int, behind: int) -> None:
    batch = features(counts, left)
    first, last = torch.arange(100, 100 + before), torch.arange(200, 200 + behind)
    framed = reframe(batch, inside(batch["attention_mask"], 1, 1), first, last)
    assert read(framed) == [
        [*first.tolist(), *tokens[1:-1], *last.tolist()] for tokens in read(batch)
    ]
    text = inside(framed["attention_mask"], before, behind)
    bare = read(framed | {"attention_mask": framed["attention_mask"].masked_fill(text, 0)})
    assert bare == [[*first.tolist(), *last.tolist()]] * len(counts)


def test_another_template_is_what_the_tokenizer_makes_of_it(tiny_model: Path) -> None:
    plain, encoder = load(tiny_model, device="cpu"), load(tiny_model, "mask", device="cpu")
    other = 'The sentence "{text}" is long {mask}.'
    step = component("tokens", "template", words=other, hidden=False).build(
        BuildContext.of(encoder)
    )
    text = sentences(6)
    after = step(encoder.preprocess(text), seeded())
    mask = plain.tokenizer.mask_token
    expected = plain.preprocess(
        [other.replace("{text}", one).replace("{mask}", mask) for one in text]
    )
    for name in ("input_ids", "attention_mask"):
        assert torch.equal(after[name], expected[name]), name


@pytest.mark.parametrize("packed", [True, False])
def test_the_bias_is_the_template_alone_at_the_same_positions(
    tiny_model: Path, packed: bool
) -> None:
    """Against the encoder itself, fed with the template's tokens and the positions that they have
    around the text.
    """
    encoder = load(tiny_model, "mask", dropout=0.0, device="cpu", packed=packed).eval()
    step = component("tokens", "template")
    objective = Objective(
        encoder,
        {"infonce": component("terms", "infonce")},
        tokens=[(step, [2])],
        views=[Denoised([2])],
        passes=3,
    )
    batch = encoder.preprocess(sentences(4))
    stack = objective.encode([dict(batch)], None).stack
    (before, behind), length = objective.tokens[0][0].old, batch["attention_mask"].sum(dim=1)
    bert = load(tiny_model, device="cpu", packed=False)[0].auto_model.eval()
    for row in range(4):
        places = [*range(before), *range(int(length[row]) - behind, int(length[row]))]
        ids = batch["input_ids"][row, places]
        states = bert(input_ids=ids[None], position_ids=torch.tensor([places])).last_hidden_state[0]
        bias = states[ids == encoder.tokenizer.mask_token_id][0]
        assert torch.allclose(stack[2, row], bias, atol=1e-5)
        assert torch.allclose(
            objective.view([dict(batch)], None).stack[0, row], stack[0, row] - bias, atol=1e-5
        )
