"""The quickstart's report tells the quickstart's own story."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

from isotrope.quickstart.measures import MEANINGS, WHAT_TO_DO
from isotrope.quickstart.page import write_page


def test_both_models_and_one_verdict(finished: Path) -> None:
    result = json.loads((finished / "quickstart.json").read_text())
    page = unescape((finished / "report.html").read_text(encoding="utf-8"))
    text = re.sub("<[^>]+>", "|", page)
    assert WHAT_TO_DO[result["verdict"]].capitalize() in text
    for name, values in result["measures"].items():
        scale, digits = (100, 2) if "p" in values else (1, 3)
        for when in ("before", "after"):
            assert f"|{scale * values[when]:.{digits}f}|" in text, (name, when)
        assert MEANINGS[name] in text
    assert f"Its choice: {result['choice']}." in text
    assert f"{result['text']['documents']:,} docstrings" in text
    assert (finished / "improved" / "report.html").is_file()  # as the page says
    assert "<script" not in page
    assert "src=" not in page


def test_a_name_is_never_markup(finished: Path, tmp_path: Path) -> None:
    result = json.loads((finished / "quickstart.json").read_text()) | {"choice": "<b>x</b>"}
    page = write_page(result, tmp_path).read_text(encoding="utf-8")
    assert "&lt;b&gt;x" in page
    assert "<b>x" not in page
