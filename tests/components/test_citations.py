"""The papers behind a model."""

from __future__ import annotations

import pytest

from conftest import ROOT
from isotrope.components.citations import bibtex, cited_keys, entries
from isotrope.components.registry import READING, STAGES, component_class, kinds
from isotrope.post.names import STEPS


def test_every_component_and_post_step_names_papers_that_have_an_entry() -> None:
    parts = [component_class(stage, kind) for stage in (*STAGES, READING) for kind in kinds(stage)]
    keys = cited_keys([*parts, *STEPS.values()])
    assert len(keys) > 8
    assert set(keys) <= set(entries())


@pytest.mark.parametrize("key", list(entries()))
def test_an_entry_is_whole(key: str) -> None:
    entry = entries()[key]
    assert entry.startswith("@")
    assert entry.count("{") == entry.count("}")
    assert f"{{{key}," in entry
    assert "author = {" in entry
    assert key == "isotrope" or ("year = {" in entry and "url = {https://" in entry)


def test_the_papers_of_the_project_s_own_citation_are_there() -> None:
    ours = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for key in ("gao2021simcse", "zhou2022dclr", "liu2023rankcse", "zhuo2023whitenedcse"):
        address = entries()[key].partition("url = {")[2].partition("}")[0]
        assert address in ours


def test_each_paper_once_and_isotrope_last() -> None:
    class One:
        """A method. BibTeX: gao2021simcse."""

    class Two:
        """Another one, with a line break. BibTeX:
        zhou2022dclr. And a third party's. BibTeX: nobody2026x."""

    keys = cited_keys([One, Two, One, int])
    assert keys == ["gao2021simcse", "zhou2022dclr", "nobody2026x"]
    text = bibtex([*keys, *keys])
    assert [line.partition("{")[2] for line in text.splitlines() if line.startswith("@")] == [
        "gao2021simcse,",
        "zhou2022dclr,",
        "isotrope,",
    ]
