"""A bar with its interval for each change, and maps of texts, as SVGs that need no matplotlib."""

from collections.abc import Mapping
from html import escape
from typing import Any

from isotrope.report.comparison import signed
from isotrope.report.page import AFTER, BEFORE, INK, MUTED, RULE, SERIES, PageFigure
from isotrope.report.space import MAP_CAPTION

WIDTH, ROW, EDGE = 400, 46, 8
SIDE, TOP, LINE = 192, 24, 20  # of a map: its side, the place for its name, a line of its legend
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
    return _svg(height, marks)


def map_figure(found: Mapping[str, Any], names: tuple[str, str] = ("before", "after")) -> PageFigure:
    """The two maps of `isotrope.report.space.text_map`, side by side, with the words of each colour below."""
    marks = []
    box = f'width="{SIDE - 1}" height="{SIDE - 1}" fill="none" stroke="{RULE}"'
    for left, time, name in zip((0, WIDTH - SIDE), ("before", "after"), names, strict=True):
        marks.append(f'<text x="{left}" y="16" fill="{INK}" font-size="14">{escape(name)}</text>')
        marks.append(f'<rect x="{left + 0.5}" y="{TOP + 0.5}" {box}/>')
        for (x, y), group in zip(found[time], found["group"], strict=True):
            place = f'cx="{left + EDGE + x * (SIDE - 2 * EDGE):.1f}" cy="{TOP + EDGE + y * (SIDE - 2 * EDGE):.1f}"'
            marks.append(f'<circle {place} r="2.6" fill="{SERIES[group]}"/>')
    for row, words in enumerate(found["words"]):
        low = TOP + SIDE + LINE * (row + 1)
        marks.append(f'<circle cx="{EDGE}" cy="{low - 5}" r="5" fill="{SERIES[row]}"/>')
        marks.append(f'<text x="{2.5 * EDGE}" y="{low}" fill="{INK}" font-size="14">{escape(words)}</text>')
    drawn = _svg(TOP + SIDE + LINE * len(found["words"]) + EDGE, marks)
    return PageFigure("map", "Map of the texts", drawn, MAP_CAPTION.format(count=len(found["group"])))


def _svg(height: float, marks: list[str]) -> str:
    size = f'viewBox="0 0 {WIDTH} {height}" style="max-width:{WIDTH}px"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(marks)}</svg>'
