"""The documentation site: built strictly, equations without a script, nothing from the network."""

import re
from pathlib import Path

import pytest

from helpers.paths import ROOT

pytest.importorskip("mkdocs", reason="pip install 'isotrope[docs]'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning fails the build."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True))
    return folder


@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    home, rank = (
        (site / name).read_text(encoding="utf-8") for name in ("index.html", "methods/rankcse.html")
    )
    assert "isotrope makes a sentence-embedding model better" in home
    assert 'href="improve.html"' in home
    assert rank.count("<math") == 4
    assert "\\frac" not in re.sub("<math.*?</math>", "", rank, flags=re.DOTALL)
    assert 'href="../reference/terms.html#isotrope.terms.listnet"' in rank
    assert 'id="isotrope.terms.listnet.ListNet"' in (site / "reference" / "terms.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.slow
def test_pages_load_nothing_from_the_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"<(script|img|iframe)[^>]+src=\"?(https?:)?//", text), page
        assert not re.search(
            r"<link[^>]+href=\"?(https?:)?//[^>]+stylesheet|<link[^>]+stylesheet[^>]+//", text
        ), page


@pytest.mark.slow
def test_every_picture_of_the_home_page_is_in_the_site(site: Path) -> None:
    home = (site / "index.html").read_text(encoding="utf-8")
    pictures = re.findall(r"(?:src|srcset)=\"?([^\" >]+\.svg)", home)
    assert len(pictures) >= 2
    assert all((site / picture).is_file() for picture in pictures)
