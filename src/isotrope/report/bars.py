"""A bar with its interval for each change, as an SVG that needs no matplotlib."""

from collections.abc import Mapping
from html import escape

from isotrope.report.comparison import signed
from isotrope.report.page import AFTER, BEFORE, INK, MUTED

WIDTH, ROW, EDGE = 400, 46, 8
LONGEST = 44  # characters that fit above a bar; the table has the whole name


def interval_bars(changes: Mapping[str, tuple[float, float, float]], chosen: str = "") -> str:
    """An SVG file's text: for each name its change, low and high as fractions, the chosen one in the colour of after.

    The name stands above its bar, so that long names leave the bars their width on a phone. Names are escaped.
    """
    ends = [0.0, *(end for change in changes.values() for end in change)]
    low, high = min(ends), max(ends)
    scale = (WIDTH - 2 * EDGE) / (high - low or 1.0)

    def place(value: float) -> float:
        return EDGE + (value - low) * scale

    zero, height = place(0.0), ROW * len(changes)
    marks = []
    for row, (name, (change, least, most)) in enumerate(changes.items()):
        top = ROW * row
        start, end = sorted((zero, place(change)))
        colour = AFTER if name == chosen else BEFORE
        words = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        marks += [
            f'<text x="{EDGE}" y="{top + 17}" fill="{INK}" font-size="14">{escape(words)} {signed(change)}</text>',
            f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="{top + 21}" y2="{top + 41}" stroke="{MUTED}"/>',
            f'<rect x="{start:.1f}" y="{top + 24}" width="{end - start:.1f}" height="14" fill="{colour}"/>',
            f'<line x1="{place(least):.1f}" x2="{place(most):.1f}" y1="{top + 31}" y2="{top + 31}" '
            f'stroke="{INK}" stroke-width="2"/>',
        ]
    size = f'viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(marks)}</svg>'
