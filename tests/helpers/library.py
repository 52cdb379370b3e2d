"""A small collection of documents with titles, for tests: each document has words of its own."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from helpers.words import WORDS, sentences
from isotrope.evaluation.verdict import Verdict
from isotrope.improvement.result import RaceResult
from isotrope.improvement.steps import FittingSet
from isotrope.text.corpus import Document
from isotrope.text.pseudo_queries import pseudo_queries


def write_library(path: Path, count: int = 140, titles: bool = True, seed: int = 0) -> Path:
    """A .jsonl file of so many documents of two paragraphs, which draw half of their words from a
    few of their own.
    """
    generator = torch.Generator().manual_seed(seed)

    def draw(among: list[str], words: int) -> list[str]:
        return [among[i] for i in torch.randint(len(among), (words,), generator=generator).tolist()]

    lines = []
    for _ in range(count):
        own = draw(WORDS, 6)
        text = "\n\n".join(
            " ".join(w for pair in zip(draw(own, 10), draw(WORDS, 10), strict=True) for w in pair)
            for _ in "ab"
        )
        lines.append(json.dumps({"title": " ".join(own[:4]) if titles else "", "text": text}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def race_result(choice: str = "soft", **changes: Any) -> RaceResult:
    """What a race of two candidates found."""
    gain = {"gain": 0.1, "low": 0.05, "high": 0.15}
    verdict = Verdict(
        "better",
        "my model",
        "soft",
        "60 of your own documents",
        "MRR@10 × 100",
        (0.25, 0.35),
        0.1,
        0.05,
        0.15,
        0.001,
        advice="Use soft",
    )
    if choice == "keep":
        verdict = Verdict.not_tested(before="my model", after="soft", advice="Keep my model.")
    keep = {"encoder": {"name": "keep"}, "step": ""}
    fields: dict[str, Any] = {
        "model": "my model",
        "seed": 0,
        "minutes": 2.0,
        "pooling": None,
        "choice": choice,
        "chosen": choice,
        "verdict": verdict,
        "search": None,
        "bm25_shares": {},
        "seconds": 90.0,
        "left_out": {},
        "notes": ["a: 60 documents"],
        "documents": 300,
        "fitting": 200,
        "table": {
            "keep": {"a": 0.2, "b": 0.3},
            "soft": {"a": 0.4, "b": 0.3},
            "<b>odd": {"a": 0.1, "b": 0.1},
        },
        "gains": {"soft": gain, "<b>odd": {**gain, "gain": -0.15}},
        "teachers": {},
        "taught_by": [],
        "made": {
            "keep": keep,
            "soft": {"encoder": {"name": "keep"}, "step": "soft whitening"},
            "<b>odd": keep,
        },
        "plan": {"choosing": 40, "judging": 60},
        "environment": {},
        "switch": {"documents_stay": False},
    }
    return RaceResult.model_validate(fields | changes)


def page(place: int) -> Document:
    """Three sentences with a rare word between all others, which only a search by words knows."""
    words = " ".join(sentences(3, seed=place)).split()
    return Document(f"Number {place}", [" ".join(f"{word} rare{place}" for word in words)])


def fitting_set(size: int) -> FittingSet:
    """Documents and their pseudo-queries."""
    documents = [page(1000 + place) for place in range(size)]
    rows = np.arange(len(documents))
    return FittingSet([document.text for document in documents], pseudo_queries(documents), 0, rows)
