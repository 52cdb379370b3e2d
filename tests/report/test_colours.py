"""Colours: those of the page's style, legible, and each one told from the others."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import combinations

import pytest

from isotrope.report.colours import AFTER, BEFORE, CSS_NAMES, INK, MUTED, PAPER, RULE, SERIES

PAGE = files("isotrope.report").joinpath("page.html.jinja").read_text(encoding="utf-8")
STYLES = re.findall(r":root \{\n(.*?)\}", PAGE, re.DOTALL)
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#\w{6})", style)) for style in STYLES)


def luminance(colour: str) -> float:
    """WCAG 2.1's relative luminance."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_colour_has_a_name_of_its_own() -> None:
    """A page puts names for colours: a colour with two names would follow one of them alone."""
    every = {PAPER, INK, MUTED, RULE, BEFORE, AFTER, *SERIES}
    assert set(CSS_NAMES) == every
    assert len(set(CSS_NAMES.values())) == len(every) == 5 + len(SERIES)
    assert AFTER in SERIES


def test_the_page_has_each_by_its_name_in_light_and_in_dark() -> None:
    assert {name: LIGHT[name] for name in CSS_NAMES.values()} == {name: colour for colour, name in CSS_NAMES.items()}
    assert DARK.keys() >= LIGHT.keys()
    assert all(DARK[name] != LIGHT[name] for name in CSS_NAMES.values())


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_lines_are_legible(colours: dict[str, str]) -> None:
    """4.5 for text and 3 for lines, as WCAG asks."""
    for name in ("ink", "muted"):
        assert contrast(colours[name], colours["paper"]) >= 4.5, name
        assert contrast(colours[name], colours["page"]) >= 4.5, name
    for name in ("before", *(f"series-{i}" for i in range(len(SERIES)))):
        assert contrast(colours[name], colours["paper"]) >= 3, name


def test_the_measure_of_contrast_is_that_of_its_definition() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_no_two_lines_have_one_colour(colours: dict[str, str]) -> None:
    lines = [colours[name] for name in ("before", *(f"series-{i}" for i in range(len(SERIES))))]
    for one, other in combinations(lines, 2):
        far = [abs(int(one[i : i + 2], 16) - int(other[i : i + 2], 16)) for i in (1, 3, 5)]
        assert sum(far) > 60, (one, other)
