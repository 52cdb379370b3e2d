"""The HTML page for runs, studies and tables, and its bars. It loads nothing from outside and runs
no script.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from isotrope.console.plain import escaped
from isotrope.evaluation.verdict import Verdict, signed
from isotrope.report.switching import Switch
from isotrope.report.tables import Table

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
    ends = [0.0, *(end for change in changes.values() for end in change)]
    low, high = min(ends), max(ends)
    scale = (WIDTH - 2 * EDGE) / (high - low or 1.0)

    def place(value: float) -> float:
        return EDGE + (value - low) * scale

    zero = place(0.0)
    marks = []
    for row, (name, (change, low_end, high_end)) in enumerate(changes.items()):
        top = ROW * row
        start, end = sorted((zero, place(change)))
        colour = AFTER if name == chosen else BEFORE
        words = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        marks += [
            f'<text x="{EDGE}" y="{top + 17}" fill="{INK}" font-size="14">'
            f"{escape(words)} {signed(change)}</text>",
            _line(zero, zero, top + 21, top + 41, f'stroke="{MUTED}"'),
            f'<rect x="{start:.1f}" y="{top + 24}" width="{end - start:.1f}" height="14" '
            f'fill="{colour}"/>',
            _line(
                place(low_end),
                place(high_end),
                top + 31,
                top + 31,
                f'stroke="{INK}" stroke-width="2"',
            ),
        ]
    size = f'viewBox="0 0 {WIDTH} {ROW * len(changes)}" style="max-width:{WIDTH}px"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(marks)}</svg>'


def _line(left: float, right: float, top: int, bottom: int, stroke: str) -> str:
    return f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{top}" y2="{bottom}" {stroke}/>'


def templates(**options: Any) -> Environment:
    """The templates of this room."""
    return Environment(
        loader=PackageLoader("isotrope.report", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        **options,
    )
