"""The one page and its figures: whatever it holds, it is whole HTML that needs nothing from
outside.
"""

import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from isotrope.evaluation.geometry import unit
from isotrope.evaluation.verdict import Verdict
from isotrope.report import figures
from isotrope.report.figures import loss_terms, style, svg
from isotrope.report.page import (
    AFTER,
    BEFORE,
    CSS_NAMES,
    INK,
    MUTED,
    PAPER,
    RULE,
    SERIES,
    Page,
    PageFigure,
)
from isotrope.report.space import GROUPS, Space, map_figure, text_map
from isotrope.report.tables import Table

HOSTILE = '<img src=x onerror=alert(1)> {{ 7 * 7 }} & "quotes"'


class Tags(HTMLParser):
    """The tags that are open, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "img"
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_everything_is_text_wherever_it_stands() -> None:
    table = Table(HOSTILE, [HOSTILE], [[HOSTILE]], {(0, 0): "best"}, notes=[HOSTILE])
    with style():
        drawn = svg(loss_terms({HOSTILE: ([1, 2], [0.5, 0.4])}))
    verdict = Verdict(
        "better", "old", "new", HOSTILE, HOSTILE, (0.1, 0.2), 0.1, 0.0, 0.2, 0.01, HOSTILE
    )
    page = Page(
        HOSTILE,
        [HOSTILE],
        verdict,
        [table],
        [PageFigure("one", HOSTILE, drawn, HOSTILE), PageFigure("two", HOSTILE, drawn, HOSTILE)],
        [HOSTILE],
        [table],
    )
    source = page.html()
    tags = Tags(source)
    assert tags.open == []
    assert tags.text.count(HOSTILE) >= 15
    assert Tags(Page("nothing").html()).open == []
    assert 'class="best"' in source


PAGE = files("isotrope.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
STYLES = re.findall(r":root \{\n(.*?)\}", PAGE, re.DOTALL)
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#\w{6})", style)) for style in STYLES)


def test_every_colour_has_a_name_of_its_own_in_light_and_in_dark() -> None:
    """A page puts names for colours: a colour with two names would follow one of them alone."""
    every = {PAPER, INK, MUTED, RULE, BEFORE, AFTER, *SERIES}
    assert set(CSS_NAMES) == every
    assert len(set(CSS_NAMES.values())) == len(every) == 5 + len(SERIES)
    assert AFTER in SERIES
    assert {name: LIGHT[name] for name in CSS_NAMES.values()} == {
        name: colour for colour, name in CSS_NAMES.items()
    }
    assert DARK.keys() >= LIGHT.keys()
    assert all(DARK[name] != LIGHT[name] for name in CSS_NAMES.values())


def test_a_figure_has_its_files_and_a_link_to_its_paper(tmp_path: Path) -> None:
    with figures.style():
        figure = figures.changes(["one", "two"], [0.01, -0.02], [0.0, -0.03], [0.02, -0.01])
        shown = figures.drawn_figure(
            tmp_path, "one", "One", "What it shows. See", figure, "DCLR Fig. 1"
        )
    assert {path.name for path in tmp_path.iterdir()} == {"one.svg", "one.png"}
    assert (shown.caption, shown.link) == ("What it shows. See", figures.PAPERS["DCLR Fig. 1"])
    assert "two" in shown.svg


def test_a_space_is_what_plain_loops_say() -> None:
    vectors = np.random.default_rng(0).normal(size=(12, 4)) + 1
    space, rows = Space.of(vectors), unit(vectors)
    assert space.cosines == pytest.approx(
        [rows[i] @ rows[j] for i in range(12) for j in range(i + 1, 12)]
    )
    values = np.sort(np.linalg.eigvalsh(np.cov(rows.T)))[::-1]
    assert space.shares == pytest.approx(values / values.sum())
    nearest = max((j for j in range(12) if j != 2), key=lambda j: rows[2] @ rows[j])
    assert space.nearest[2][0] == (nearest, pytest.approx(rows[2] @ rows[nearest]))
    assert [len(found) for found in space.nearest] == [3] * 6


def test_a_map_has_neighbours_together_and_groups_of_words() -> None:
    generator = np.random.default_rng(0)
    topics = [[f"word{topic}x{place}" for place in range(6)] for topic in range(GROUPS)]
    of = np.arange(100) % GROUPS
    texts = [
        " ".join([*generator.choice(topics[topic], 4, replace=False), "the", "<b>"]) for topic in of
    ]
    apart = np.eye(GROUPS, 16)[of] + 0.05 * generator.normal(size=(100, 16))
    found = text_map(texts, generator.normal(size=(100, 16)), apart)
    assert found is not None
    assert len({(topic, group) for topic, group in zip(of, found["group"], strict=True)}) == GROUPS
    assert all(len({word[4] for word in words.split(", ")}) == 1 for words in found["words"])
    mixed, plane = np.array(found["before"]), np.array(found["after"])
    for places, enough in ((plane, 0.95), (mixed, 0.0)):
        far = ((places[:, None] - places) ** 2).sum(axis=2) + 9 * np.eye(100)
        assert enough <= np.mean(of[far.argmin(axis=1)] == of) <= enough + 0.5
        assert (places.min(), places.max()) == (0, 1)
    shown = map_figure(found)
    assert shown.svg.count("<circle") == 2 * 100 + GROUPS
    assert text_map(texts[:20], apart[:20], apart[:20]) is None
    assert text_map(texts, apart, np.ones((100, 16))) is None, (
        "texts that a model cannot tell apart"
    )
