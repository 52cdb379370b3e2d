"""The HTML page for runs, studies and tables. It loads nothing from outside and runs no script."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from isotrope.console.plain import escaped
from isotrope.evaluation.verdict import Verdict
from isotrope.report.tables import Table

# Before is grey and after is blue everywhere; the other colours are from Okabe and Ito, which colour-blind readers can
# distinguish. In a page each is a CSS variable, so that figures follow light and dark.
PAPER, INK, MUTED, RULE = "#ffffff", "#1f2329", "#676e79", "#dde1e7"
BEFORE, AFTER = "#7d848f", "#0068a8"
SERIES = (AFTER, "#c05000", "#00805d", "#a8558a", "#8a6d00")
CSS_NAMES = {PAPER: "paper", INK: "ink", MUTED: "muted", RULE: "rule", BEFORE: "before"} | {
    colour: f"series-{i}" for i, colour in enumerate(SERIES)
}
SIGNS = {"better": "▲", "worse": "▼", "no difference found": "◆", "not tested": "○"}


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A figure on a page. Its name is its id, so names on a page must differ."""

    name: str
    title: str
    svg: str  # a file's text, as `figures.svg` gives it; it is not escaped
    caption: str = ""
    source: str = ""  # the paper behind it
    link: str = ""  # where to read the paper

    @property
    def drawing(self) -> Markup:
        """The SVG element: unique ids, colours as CSS variables, a title for screen readers."""
        body = re.sub(r"<metadata>.*?</metadata>", "", self.svg[self.svg.index("<svg") :], flags=re.DOTALL)
        body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", body)
        for colour, variable in CSS_NAMES.items():
            body = body.replace(colour, f"var(--{variable})")
        return Markup(body.replace("<svg ", f'<svg role="img" aria-label="{escape(self.title)}" ', 1))


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows, from top to bottom. All text is escaped."""

    title: str
    lead: Sequence[str] = ()  # paragraphs
    verdict: Verdict | None = None
    tables: Sequence[Table] = ()
    figures: Sequence[PageFigure] = ()
    missing: Sequence[str] = ()  # what is not shown, and why
    details: Sequence[Table] = ()  # below the figures

    def html(self) -> str:
        """The page as one self-contained text."""
        return escaped(_template().render(page=self, signs=SIGNS))


@cache
def _template() -> Template:
    loader = PackageLoader("isotrope.report", "")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("page.html.jinja")
