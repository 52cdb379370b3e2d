"""The one page and its figures: whatever it holds, it is whole HTML that needs nothing from
outside.
"""

import re
from html.parser import HTMLParser
from importlib.resources import files

from isotrope.evaluation.verdict import Verdict
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
