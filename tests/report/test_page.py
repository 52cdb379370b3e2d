"""The one page: whatever it holds, it is whole HTML that needs nothing from outside."""

from __future__ import annotations

from html.parser import HTMLParser

from isotrope.report.figures import loss_terms, style, svg
from isotrope.report.page import Page, PageFigure, PageVerdict
from isotrope.report.tables import Table

HOSTILE = '<img src=x onerror=alert(1)> {{ 7 * 7 }} & "quotes"'


class Tags(HTMLParser):
    """The tags that are open, and the text."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in {"meta"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_empty_page_is_whole() -> None:
    assert Tags(Page("nothing").html()).open == []


def test_everything_is_text_wherever_it_stands() -> None:
    table = Table(HOSTILE, [HOSTILE], [[HOSTILE]], {(0, 0): "best"}, notes=[HOSTILE])
    with style():
        drawn = svg(loss_terms({HOSTILE: ([1, 2], [0.5, 0.4])}))
    page = Page(
        HOSTILE, [HOSTILE], PageVerdict("better", "▲", HOSTILE, HOSTILE), [table],
        [PageFigure("one", HOSTILE, drawn, HOSTILE), PageFigure("two", HOSTILE, drawn, HOSTILE)], [HOSTILE], [table],
    )  # fmt: skip
    source = page.html()
    tags = Tags(source)
    assert tags.open == []
    assert "img" not in tags.seen
    assert tags.text.count(HOSTILE) >= 15
    assert 'class="best"' in source
