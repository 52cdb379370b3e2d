"""The README's picture: two models before and after `improve`, from the quickstart's record.

`tools/tables.py` writes it, in a light and in a dark version, so that it follows the reader's theme.
"""

from dataclasses import dataclass
from html import escape
from typing import Any

WIDTH, BAR, LEFT, RIGHT, TOP = 760, 22, 190, 60, 64
GAP, GROUP_GAP = 8, 28
MOST = 50.0  # points that fill the width


@dataclass(frozen=True)
class Theme:
    """Colours of a picture."""

    text: str
    soft_text: str
    before: str
    after: str


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#c5cdd6", "#1a7f64"),
    "dark": Theme("#f0f6fc", "#9198a1", "#3d444d", "#3fb68b"),
}


def before_after(record: Any, theme_name: str) -> str:
    """An SVG of both models of the quickstart, as they are and as `improve` leaves them."""
    theme = THEMES[theme_name]
    title = f"The right page in {record['questions']} searches, MRR@10 × 100"
    parts = [
        text(20, 28, "isotrope improve: a better model for your documents", theme.text, size=17),
        text(20, 48, title, theme.soft_text, size=13),
    ]
    y = TOP + 10
    for verdict in (record["raw"], record["verdict"]):
        before, after = (100 * score for score in verdict["scores"])
        parts += bar(y, verdict["before"], before, theme.before, theme)
        parts += bar(y + BAR + GAP, "after improve, no labels", after, theme.after, theme)
        y += 2 * BAR + GAP + GROUP_GAP
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img" '
        f'font-family="system-ui, sans-serif">\n<title>{escape(title)}</title>\n{body}\n</svg>\n'
    )


def bar(y: int, name: str, score: float, colour: str, theme: Theme) -> list[str]:
    """A bar with its name on the left and its number at its end."""
    width = round((WIDTH - LEFT - RIGHT) * score / MOST)
    middle = y + BAR // 2 + 5
    return [
        text(LEFT - 10, middle, name, theme.soft_text, anchor="end"),
        f'<rect x="{LEFT}" y="{y}" width="{width}" height="{BAR}" rx="3" fill="{colour}"/>',
        text(LEFT + width + 8, middle, f"{score:.1f}", theme.text),
    ]


def text(x: int, y: int, words: str, colour: str, *, size: int = 13, anchor: str = "start") -> str:
    """A line of text."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
