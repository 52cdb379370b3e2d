"""The HTML page for runs, studies and tables, and its bars. It loads nothing from outside and runs
no script.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from markupsafe import Markup, escape

from isotrope.console.plain import escaped
from isotrope.evaluation.verdict import Verdict, signed
from isotrope.report.switching import Switch
from isotrope.report.tables import Table
from isotrope.report.templates import templates

# Before is grey and after is blue everywhere; the other colours are from Okabe and Ito, which
# colour-blind readers can distinguish. In a page each is a CSS variable, so that figures follow
# light and dark.
PAPER = "#ffffff"
INK = "#1f2329"
MUTED = "#676e79"
RULE = "#dde1e7"
BEFORE = "#7d848f"
AFTER = "#0068a8"
SERIES = (AFTER, "#c05000", "#00805d", "#a8558a", "#8a6d00")
CSS_NAMES = {
    PAPER: "paper",
    INK: "ink",
    MUTED: "muted",
    RULE: "rule",
    BEFORE: "before",
    **{colour: f"series-{i}" for i, colour in enumerate(SERIES)},
}
SIGNS = {"better": "▲", "worse": "▼", "no difference found": "◆", "not tested": "○"}
MODEL = "model"  # the folder of the new model, beside the page
WIDTH = 400  # of figures that need no matplotlib
ROW = 46  # the height of a bar with its name
EDGE = 8  # free on all sides
LONGEST = 44  # characters that fit above a bar; the table has the whole name


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
        body = self.svg[self.svg.index("<svg") :]
        body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
        body = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{self.name}-", body)
        for colour, variable in CSS_NAMES.items():
            body = body.replace(colour, f"var(--{variable})")
        labelled = f'<svg role="img" aria-label="{escape(self.title)}" '
        return Markup(body.replace("<svg ", labelled, 1))


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
    switch: Switch | None = None  # how the new model, in the folder beside the page, is used

    def html(self) -> str:
        """The page as one self-contained text."""
        template = templates(autoescape=True).get_template("page.html.jinja")
        frameworks = self.switch.code(MODEL) if self.switch else {}
        return escaped(template.render(page=self, signs=SIGNS, model=MODEL, frameworks=frameworks))


def interval_bars(changes: Mapping[str, tuple[float, float, float]], chosen: str = "") -> str:
    """An SVG file's text: for each name its change, low and high as fractions, the chosen one in
    the colour of after.

    The name stands above its bar, so that long names leave the bars their width on a phone. Names
    are escaped.
    """
    ends = [0.0, *chain.from_iterable(changes.values())]
    low = min(ends)
    scale = (WIDTH - 2 * EDGE) / (max(ends) - low or 1.0)

    def place(value: float) -> float:
        return EDGE + (value - low) * scale

    return (
        templates(autoescape=True)
        .get_template("bars.svg.jinja")
        .render(
            changes=changes,
            chosen=chosen,
            place=place,
            signed=signed,
            width=WIDTH,
            row_height=ROW,
            edge=EDGE,
            longest=LONGEST,
            ink=INK,
            muted=MUTED,
            before=BEFORE,
            after=AFTER,
        )
    )
